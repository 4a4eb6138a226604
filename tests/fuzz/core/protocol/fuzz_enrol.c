/* Any bytes as each message of an enrolment: what is read is written as the same bytes. */
#include "protocol/enrol.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sefl_span in = span_of(data, size);
    sefl_buf b = { 0 };
    enrol_request r;
    enrol_answer a;
    enrol_claim c;
    enrol_proof p;
    if (enrol_request_read(&r, in) == SEFL_OK) {
        MUST(trust_name_ok(r.claim.name) && r.csr.n <= ENROL_CSR_MAX);
        MUST(enrol_request_write(&b, &r) == SEFL_OK);
        MUST(b.n == size && memcmp(b.p, data, size) == 0);
        (void)!enrol_proof_check(&r.as, &r.claim);
    }
    buf_reset(&b);
    if (enrol_question_read(&c, &p, in) == SEFL_OK) {
        MUST(enrol_question_write(&b, &c, &p) == SEFL_OK);
        MUST(b.n == size && memcmp(b.p, data, size) == 0);
    }
    buf_reset(&b);
    if (enrol_answer_read(&a, in) == SEFL_OK) {
        MUST(enrol_answer_write(&b, &a) == SEFL_OK);
        MUST(b.n == size && memcmp(b.p, data, size) == 0);
    }
    buf_clear(&b);
    return 0;
}
