/* body: are these the bytes of an update? Asked while they arrive, in pieces of any size.
 *
 * The units of an update (crypto/ahe/ahe.h); its head is ingest's affair. Pieces are cut again at
 * the borders of units: what is whole is checked where it lies, the rest waits in a small buffer
 * for the next piece.
 *
 *     SEFL_TRY(body_rule_new(&rule, &task.ahe, task.pub));          // one for all uploads
 *     body_check c = { .rule = rule };
 *     SEFL_TRY(body_check_feed(&c, piece));                          // SEFL_EPROTO: which unit, and why
 *     SEFL_TRY(body_check_end(&c));                                  // all of it was there
 *     body_check_clear(&c);
 *
 * Threads: a rule may be shared, a check has one owner.   Secrets: none (ciphertexts). Memory:
 * eight units an upload at most (6 KiB for paillier at 3072 bits), one where they are large. */
#ifndef ROLES_AGGREGATOR_BODY_H
#define ROLES_AGGREGATOR_BODY_H

#include "crypto/ahe/ahe.h"

typedef struct body_rule body_rule;

/* Borrows both. */
sefl_status body_rule_new(body_rule **out, const ahe_params *p, const ahe_pub *pub) SEFL_MUST_CHECK;
void body_rule_free(body_rule *r);

typedef struct body_check {
    const body_rule *rule;
    uint64_t seen;  /* bytes fed so far */
    uint8_t *carry; /* made when it is first needed */
    size_t have;    /* bytes in it */
    size_t unit;    /* the next unit to be checked */
    sefl_status st; /* the first failure stays */
} body_check;

/* SEFL_EPROTO for what no update can be, SEFL_ERANGE for bytes behind its end. */
sefl_status body_check_feed(body_check *c, sefl_span piece) SEFL_MUST_CHECK;
/* SEFL_EPROTO if something is missing. */
sefl_status body_check_end(const body_check *c) SEFL_MUST_CHECK;
void body_check_clear(body_check *c);

#endif
