/* spoil CLIENT.YML HOST:PORT LARGEST|seed: an enrolled client that follows the protocol except for
 * its values. LARGEST: each value is the largest that the packing allows, with a random sign, so
 * its vector is far longer than the clipping norm. seed: the sealed seed does not match its units,
 * so CSP removes the wrong pad. Voucher, seal, signature and receipt are valid. Ends with the task,
 * or on SIGTERM. */
#include "base/clock.h"
#include "config/yaml/yaml.h"
#include "protocol/head.h"
#include "roles/client/client.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool other_seed;

static sefl_status spoiled_head(uint8_t *out, const head_facts *f, sefl_span csp_pub,
                                const uint8_t seed[32], const sign_key *key, const sefl_rng *rng)
{
    uint8_t sealed[32];
    memcpy(sealed, seed, sizeof sealed);
    sealed[0] ^= other_seed;
    return head_make(out, f, csp_pub, sealed, key, rng);
}

#define head_make spoiled_head
#include "protocol/update.c" /* both replace the library's */
#include "roles/client/client_update.c"
#undef head_make

static client *c;

/* Changes what the client will encrypt: the array is the client's own. */
static void spoil(void *ctx, uint64_t round, const int64_t *X, size_t n)
{
    int64_t *x = (int64_t *)(uintptr_t)X;
    const int64_t largest = *(const int64_t *)ctx;
    (void)round;
    for (size_t i = 0; i < n && !other_seed; i++)
        x[i] = rand() % 2 ? largest : -largest;
}

static void *wait_for_term(void *arg)
{
    int sig;
    sigwait(arg, &sig);
    client_stop(c);
    return NULL;
}

int main(int argc, char **argv)
{
    sefl_status st = SEFL_OK;
    settings s;
    client_config cfg = { 0 };
    sigset_t term;
    pthread_t waiter;
    int64_t largest;
    if (argc != 4) {
        fprintf(stderr, "usage: spoil CLIENT.YML HOST:PORT LARGEST|seed\n");
        return 2;
    }
    other_seed = strcmp(argv[3], "seed") == 0;
    largest = strtoll(argv[3], NULL, 10);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, NULL);
    settings_init(&s, client_schema);
    sefl_clock wall = clock_wall();
    sefl_log log = log_open(2, LOG_DEBUG, &wall);
    SEFL_TRY(yaml_read(&s, argv[1]));
    SEFL_TRY(settings_set_pair(&s, span_of_str("server"), span_of_str(argv[2]), "spoil"));
    SEFL_TRY(client_config_make(&cfg, &s));
    SEFL_TRY(client_new(
        &c, &(client_options){
                .config = &cfg, .log = &log, .observe = spoil, .observe_ctx = &largest }));
    pthread_create(&waiter, NULL, wait_for_term, &term);
    pthread_detach(waiter);
    st = client_run(c);
done:
    if (st != SEFL_OK)
        fprintf(stderr, "spoil: %s\n", sefl_last_error());
    client_free(c);
    settings_clear(&s);
    return st != SEFL_OK;
}
