/* Any bytes as a health page, as a server's answer with one, and as an operator's order. */
#include "net/local_get.h"
#include "roles/control.h"
#include "roles/health.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const sefl_span in = span_of(data, size);
    health_facts f;
    control_order o;
    unsigned status;
    size_t body;
    if (health_read(&f, in) == SEFL_OK &&
        (strlen(f.role) >= sizeof f.role || strlen(f.phase) >= sizeof f.phase ||
         strlen(f.name) >= sizeof f.name || strlen(f.why) >= sizeof f.why))
        abort();
    if (local_answer_read(in, &status, &body) == SEFL_OK && (body > size || status > 999))
        abort();
    if (control_parse(&o, in) == SEFL_OK && (o.id == 0 || o.word > CONTROL_END))
        abort();
    return 0;
}
