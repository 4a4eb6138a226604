/* csp_desk: CSP's store on disk and its ledger, as one process opens them.
 *
 *     task t = desk_task();
 *     CHECK_OK(desk_open_task(&d, folder, ledger_path, &t));
 *     CHECK_OK(csp_store_sign(&d.t, &(csp_round){ ... }));
 *     desk_close(&d);                                      // also after a failed open */
#ifndef SUPPORT_CSP_DESK_H
#define SUPPORT_CSP_DESK_H

#include "base/sha256.h"
#include "store/disk/csp_disk.h"
#include "support/store_place.h"

typedef struct desk {
    journal *j;
    account *a;
    csp_disk jc;
    csp_store t;
    sefl_coins coins;
} desk;

static inline task desk_task(void)
{
    return (task){ .id = { 1 }, .population = "people", .values = 100 };
}

/* The ledger must exist. */
static inline sefl_status desk_open_task(desk *d, const char *folder, const char *book,
                                         const task *t)
{
    *d = (desk){ .coins = coins_system() };
    SEFL_PASS(store_open(&d->j, folder, "csp", t->id));
    SEFL_PASS(account_disk_open(&d->a, d->j, book, t));
    SEFL_PASS(csp_disk_open(&d->jc, d->j, d->a, &d->coins));
    d->t = csp_disk_store(&d->jc);
    return SEFL_OK;
}

static inline void desk_close(desk *d)
{
    account_close(d->a);
    journal_close(d->j);
    *d = (desk){ 0 };
}

/* A round of desk_task with a signed header. */
static inline csp_round signed_round(uint64_t round)
{
    csp_round r = { .round = round, .state = CSP_SIGNED, .signed_ms = 1000 + round };
    r.header = (round_header){
        .task = { 1 }, .round = round, .model = { (uint8_t)round }, .step_nano = 7
    };
    return r;
}

/* As CSP after GO: the output with its digest, under the statement "s". */
static inline sefl_status desk_reveal(const csp_store *s, uint64_t round,
                                      const uint8_t id[NOISE_ID], const char *output)
{
    uint8_t digest[SHA256_BYTES];
    sha256_of(digest, span_of_str(output));
    return csp_store_reveal(s, round, span_of_str("s"), id, span_of_str(output), digest);
}

#endif
