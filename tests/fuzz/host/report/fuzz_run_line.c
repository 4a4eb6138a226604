/* Any line of a run's metrics: what is read is written as a line that reads back the same. */
#include "report/run_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_line r, again;
    run_facts f = run_facts_none(), facts = run_facts_none();
    sefl_buf b = { 0 };
    if (run_line_read(&r, &f, span_of(data, size)) == SEFL_OK) {
        if (run_line_write(&b, &r, &f) != SEFL_OK || b.n == 0)
            abort();
        size_t n = b.p[b.n - 1] == '\n' ? b.n - 1 : b.n;
        if (run_line_read(&again, &facts, span_of(b.p, n)) != SEFL_OK || again.round != r.round ||
            strcmp(f.task, facts.task) != 0 || strcmp(f.name, facts.name) != 0 ||
            f.simulated != facts.simulated || isnan(f.expected) != isnan(facts.expected) ||
            memcmp(&again.clients, &r.clients, sizeof r.clients) != 0 ||
            memcmp(&again.up_bytes, &r.up_bytes, sizeof r.up_bytes) != 0)
            abort();
    }
    buf_clear(&b);
    return 0;
}
