/* Arbitrary bytes as a metrics.jsonl or summary.json. */
#include "report/run_log.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_log l;
    if (run_log_read_over(&l, span_of(data, size), "fuzz") == SEFL_OK)
        run_log_clear(&l);
    (void)run_number(span_of(data, size), "x");
    return 0;
}
