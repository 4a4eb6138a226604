/* Any line of a log: what is read has printable ASCII only. */
#include "base/log_line.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_line l = { 0 };
    uint64_t ms;
    if (log_line_read(&l, span_of(data, size)) == SEFL_OK) {
        for (size_t i = 0; i < l.text.n; i++)
            if (l.text.p[i] < 0x20 || l.text.p[i] >= 0x7f)
                abort();
        (void)log_line_names(&l, "0123abcd");
    }
    (void)log_time_read(&ms, span_of(data, size));
    log_line_clear(&l);
    return 0;
}
