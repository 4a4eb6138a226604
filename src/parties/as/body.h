/* body: checks the bytes of an update while they arrive, in pieces of any size.
 *
 * This module checks the units of an update (crypto/ahe/ahe.h); ingest checks the head. It checks
 * complete units in place and keeps the rest of a piece in a small buffer.
 *
 *     SEFL_TRY(body_rule_init(&rule, &task.ahe, task.pub));         // shared by all uploads
 *     body_check c = { .rule = &rule };
 *     SEFL_TRY(body_check_feed(&c, piece));                          // SEFL_EPROTO: invalid unit
 *     SEFL_TRY(body_check_end(&c));                                  // the update is complete
 *     body_check_clear(&c);
 *
 * Threads: a rule may be shared, a check has one owner.   Secrets: none (ciphertexts). Memory: at
 * most eight units per upload (6 KiB for paillier at 3072 bits), one if they are large. */
#ifndef ROLES_AGGREGATOR_BODY_H
#define ROLES_AGGREGATOR_BODY_H

#include "crypto/ahe/ahe.h"

typedef struct body_rule {
    const ahe_params *p;
    ahe_params small; /* the same scheme and packing for one group */
    ahe_sum *sum;     /* empty, only for checks */
    size_t group;     /* units checked together */
    size_t carry_bytes;
} body_rule;

/* p and pub must outlive the rule, which must not be moved. After a failure, nothing is left. */
sefl_status body_rule_init(body_rule *r, const ahe_params *p, const ahe_pub *pub) SEFL_MUST_CHECK;
void body_rule_clear(body_rule *r);

typedef struct body_check {
    const body_rule *rule;
    uint64_t seen;  /* bytes fed so far */
    uint8_t *carry; /* allocated when it is first needed */
    size_t have;    /* number of bytes in carry */
    size_t unit;    /* the next unit to check */
    sefl_status st; /* the first failure; later calls return it again */
} body_check;

/* SEFL_EPROTO if a unit is not a ciphertext, SEFL_ERANGE if bytes follow the last unit. */
sefl_status body_check_feed(body_check *c, sefl_span piece) SEFL_MUST_CHECK;
/* SEFL_EPROTO if bytes are missing. */
sefl_status body_check_end(const body_check *c) SEFL_MUST_CHECK;
void body_check_clear(body_check *c);

#endif
