/* sefl sum: one complete secure sum for each encryption scheme. Clients encrypt, AS adds and masks,
 * CSP decrypts the masked sum, both servers add joint noise, and only AS learns the noisy sum. The
 * simulator's servers run the real protocol with full-size keys, each on its own thread.
 *
 * Uses a federation of the simulator (keys, a signed task, clients) and changes the vector length
 * in its task. The signed document keeps the old length, which nobody compares. */
#define _GNU_SOURCE
#include "cli/options.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "crypto/ahe/paillier.h"
#include "privacy/accountant/law.h"
#include "protocol/modes/mode.h"
#include "simulate/servers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wish {
    const char *scheme, *noise; /* scheme: NULL for all */
    uint32_t bits, clients, values;
} wish;

typedef struct one_sum {
    const wish *d;
    const char *scheme;
    settings set;
    experiment e;
    federation *s;
    pool *pool;
    char folder[256];
    char ledger[2][300];
    servers *servers;
    ahe_enc *enc;
    ahe_sum *sum;
    round_entry *set_of; /* the uploads, sorted by client */
    uint8_t *heads;
    int64_t *x, *plain, *w;
    double key_s, encrypt_s, add_s, reveal_s;
    uint64_t clock, link_bytes; /* time, and bytes between the servers, when all uploads were in */
} one_sum;

/* ---- the federation -------------------------------------------------------------------------- */

static sefl_status make_federation(one_sum *g)
{
    const wish *d = g->d;
    sefl_rng rng = rng_system();
    uint64_t seed = 0;
    static const char *const fixed[] = { "crypto=full",    "data.words=100", "model.embed=8",
                                         "model.hidden=8", "model.batch=3",  "model.steps=10" };
    SEFL_PASS(rng_below(&rng, &seed, UINT64_C(1) << 53));
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        SEFL_PASS(settings_set(&g->set, fixed[i], "sum"));
    SEFL_PASS(settings_setf(&g->set, "sum", "clients=%u", d->clients > 1 ? d->clients : 2));
    SEFL_PASS(settings_setf(&g->set, "sum", "seed=%llu", (unsigned long long)seed));
    SEFL_PASS(settings_setf(&g->set, "sum", "crypto.scheme=%s", g->scheme));
    SEFL_PASS(settings_setf(&g->set, "sum", "crypto.key_bits=%u", d->bits));
    SEFL_PASS(settings_setf(&g->set, "sum", "privacy.z=%s", d->noise));
    SEFL_PASS(experiment_make(&g->e, &g->set));
    return federation_new(&g->s, &(federation_config){ .experiment = &g->e, .settings = &g->set });
}

/* Changes the task to vectors of d->values numbers from d->clients clients. */
static sefl_status change_task(one_sum *g)
{
    const wish *d = g->d;
    task *t = &g->s->task;
    pack p;
    pack_config c = { .scheme = t->ahe.pack.scheme,
                      .clients = d->clients,
                      .dimension = d->values,
                      .clip = PACK_ONE };
    SEFL_PASS(pack_decimal(&c.noise, d->noise));
    SEFL_PASS(pack_init(&p, &c));
    t->values = t->params = d->values;
    t->clients_max = t->threshold = d->clients;
    t->rounds = 1;
    return ahe_params_init(&t->ahe, t->ahe.scheme, &p, t->pub, d->values);
}

static int by_fingerprint(const void *a, const void *b)
{
    return memcmp(a, b, 32);
}

static sefl_status prepare(one_sum *g)
{
    task *t = &g->s->task;
    const unsigned n = g->d->clients;
    SEFL_PASS(pool_new(&g->pool, 0));
    SEFL_PASS(file_temp_folder(g->folder, sizeof g->folder, "sefl-sum"));
    for (int i = 0; i < 2; i++) {
        snprintf(g->ledger[i], sizeof g->ledger[i], "%s/ledger-%d", g->folder, i);
        SEFL_PASS(ledger_create(g->ledger[i], t->population));
    }
    SEFL_PASS(sefl_new(&g->set_of, n, sizeof *g->set_of));
    SEFL_PASS(sefl_new(&g->heads, n, HEAD_MAX));
    SEFL_PASS(sefl_new(&g->x, t->ahe.units * t->ahe.unit_values, sizeof *g->x));
    SEFL_PASS(sefl_new(&g->plain, t->values, sizeof *g->plain));
    SEFL_PASS(sefl_new(&g->w, t->values, sizeof *g->w));
    /* a set lists its clients in this order */
    qsort(g->s->client, n, sizeof *g->s->client, by_fingerprint);
    return SEFL_OK;
}

static void clear(one_sum *g)
{
    servers_free(g->servers);
    if (g->folder[0])
        dir_remove(g->folder);
    if (g->s) {
        ahe_enc_free(&g->s->task.ahe, g->enc);
        if (g->sum)
            ahe_sum_free(&g->s->task.ahe, g->sum);
    }
    sefl_free(g->set_of), sefl_free(g->heads);
    sefl_free(g->x), sefl_free(g->plain), sefl_free(g->w);
    federation_free(g->s);
    pool_free(g->pool);
    settings_clear(&g->set);
}

/* ---- the round ------------------------------------------------------------------------------- */

/* Draws a client's vector: uniform integers whose norm is just below the task's bound. */
static sefl_status draw_vector(one_sum *g, const sefl_rng *rng)
{
    const pack *p = &g->s->task.ahe.pack;
    int64_t most = (int64_t)(sqrt(2.7 * (double)p->s2 / (double)g->d->values));
    if (most > p->value_max)
        most = p->value_max;
    for (size_t i = 0; i < g->d->values; i++) {
        uint64_t u = 0;
        SEFL_PASS(rng_below(rng, &u, 2 * (uint64_t)most + 1));
        g->x[i] = (int64_t)u - most;
        g->plain[i] += g->x[i];
    }
    return SEFL_OK;
}

/* The round is open: every client encrypts, and AS adds. */
static sefl_status upload_all(void *ctx, const round_header *h, work_got *got)
{
    sefl_status st = SEFL_OK;
    one_sum *g = ctx;
    const task *t = &g->s->task;
    const ahe_params *p = &t->ahe;
    const size_t head_n = head_bytes(t->seal), front = update_front_bytes(t->seal);
    sefl_rng rng = rng_system();
    sign_key *key = NULL;
    uint8_t *body = NULL;
    uint64_t clock = 0;
    SEFL_TRY(sefl_new(&body, task_body_bytes(t), 1));
    clock_lap(&clock);
    SEFL_TRY(ahe_enc_new(&g->enc, t->pub, p, g->pool, NULL));
    SEFL_TRY(ahe_sum_new(&g->sum, p, t->pub));
    g->encrypt_s = clock_lap(&clock);
    for (uint32_t i = 0; i < g->d->clients; i++) {
        const uint8_t *client = g->s->client[i];
        round_entry *e = &g->set_of[i];
        SEFL_TRY(draw_vector(g, &rng));
        SEFL_TRY(federation_upload_key(&key, g->s, i));
        clock_lap(&clock);
        SEFL_TRY(update_make(
            body, e->body,
            &(update_facts){
                .task = t, .header = h, .enc = g->enc, .client = client, .upload_key = key },
            g->x, NULL, NULL, &rng));
        g->encrypt_s += clock_lap(&clock);
        sign_key_free(key), key = NULL;
        memcpy(e->client, client, 32);
        memcpy(g->heads + i * head_n, body, head_n);
        SEFL_TRY(ahe_sum_check_units(p, g->sum, body + front, p->units));
        SEFL_TRY(ahe_sum_begin(p, g->sum));
        SEFL_TRY(ahe_sum_add_units(p, g->sum, 0, body + front, p->units, g->pool));
        g->add_s += clock_lap(&clock);
    }
    SEFL_TRY(ahe_sum_close(p, g->sum));
    *got = (work_got){ .clients = g->d->clients,
                       .closed = g->sum,
                       .set = g->set_of,
                       .heads = task_is_sealed(t) ? g->heads : NULL };
    g->link_bytes = servers_bytes(g->servers);
    clock_lap(&g->clock);
done:
    sign_key_free(key);
    sefl_free(body);
    return st;
}

static sefl_status take_sum(void *ctx, const release_from *from, uint64_t round, const int64_t *w,
                            uint32_t clients, release_made *made)
{
    one_sum *g = ctx;
    (void)from, (void)round, (void)clients, (void)made;
    g->reveal_s = clock_lap(&g->clock);
    g->link_bytes = servers_bytes(g->servers) - g->link_bytes;
    memcpy(g->w, w, g->s->task.values * sizeof *w);
    return SEFL_OK;
}

/* Runs one round of the driver (simulate/servers.h), with one thread for CSP and one for AS. */
static sefl_status run_round(one_sum *g)
{
    SEFL_PASS(servers_new(&g->servers, &(servers_config){ .federation = g->s,
                                                          .as_ledger = g->ledger[0],
                                                          .csp_ledger = g->ledger[1],
                                                          .pool = g->pool,
                                                          .ctx = g,
                                                          .upload = upload_all,
                                                          .release = take_sum }));
    return servers_run(g->servers);
}

static void print_report(const one_sum *g)
{
    const task *t = &g->s->task;
    if (task_is_sealed(t))
        printf("  key        CSP's round key (%s); each client seals the seed of its pad to it\n",
               t->seal->name);
    else
        printf("  key        Paillier, %u bits, created in %.1f s; CSP holds the secret half\n",
               g->d->bits, g->key_s);
    printf("  clients    %u upload%s of %.1f kB (%.2f bytes per number), %.2f s to encrypt all\n",
           g->d->clients, g->d->clients == 1 ? "" : "s", 1e-3 * (double)task_body_bytes(t),
           (double)task_body_bytes(t) / (double)t->values, g->encrypt_s);
    printf("  servers    added in %.2f s; noise, masked sum and decryption took %.2f s and %.0f "
           "bytes\n"
           "             per number between the servers\n",
           g->add_s, g->reveal_s, (double)g->link_bytes / (double)t->values);
}

static sefl_status compare(const one_sum *g)
{
    const task *t = &g->s->task;
    double sigma = task_mode(t)->deviation(t), sum = 0, squares = 0, most = 0, signal = 0;
    const size_t n = g->d->values;
    printf("\n  coordinate    plain sum    noisy sum    difference\n");
    for (size_t i = 0; i < n; i++) {
        double exact = (double)g->plain[i] * t->ahe.pack.q, noisy = task_value(t, g->w[i]);
        double e = (noisy - exact) / sigma;
        sum += e;
        squares += e * e;
        most = fabs(e) > most ? fabs(e) : most;
        signal += exact * exact;
        if (i < 4)
            printf("  %10zu %12.6f %12.6f   %+6.2f sigma\n", i, exact, noisy, e);
    }
    double mean = sum / (double)n, std = sqrt(squares / (double)n - mean * mean);
    double drowned = sigma * sqrt((double)n) / sqrt(signal);
    printf("  all %zu: the error has mean %+.4f and standard deviation %.4f, in units of the sigma "
           "claimed;\n  the largest is %.2f. Noise norm over signal norm: %.1f%s.\n",
           n, mean, std, most, drowned,
           drowned > 1 ? " (too few clients to learn from with this noise)" : "");
    /* the standard error of a standard deviation is 1/sqrt(2n): allow six, and the discrete
     * steps */
    double slack = 6 / sqrt(2 * (double)n) + 0.01;
    if (fabs(std - 1) > slack || fabs(mean) > 6 / sqrt((double)n))
        return sefl_fail(SEFL_ECRYPTO, "the noisy sum is not the plain sum plus the claimed noise");
    return SEFL_OK;
}

static sefl_status sum_with(const wish *d, const char *scheme)
{
    sefl_status st = SEFL_OK;
    one_sum g = { .d = d, .scheme = scheme };
    uint64_t clock = 0;
    settings_init(&g.set, experiment_schema());
    clock_lap(&clock);
    SEFL_TRY(make_federation(&g));
    g.key_s = clock_lap(&clock);
    SEFL_TRY(change_task(&g));
    const dp_law *law = dp_law_of(task_mode(&g.s->task)->source->law);
    printf("secure sum with %s: %u client%s, %u numbers each, noise multiplier %s%s\n", scheme,
           d->clients, d->clients == 1 ? "" : "s", d->values, d->noise,
           strtod(d->noise, NULL) < law->z_min ? "; no differential privacy claimed" : "");
    SEFL_TRY(prepare(&g));
    SEFL_TRY(run_round(&g));
    print_report(&g);
    SEFL_TRY(compare(&g));
done:
    clear(&g);
    return st;
}

static int cmd_sum_run(void *options)
{
    const wish *d = options;
    const char *const schemes[] = { "pad", "paillier" };
    pack_nano z;
    sefl_status st = SEFL_OK;
    if (pack_decimal(&z, d->noise) != SEFL_OK || z == 0)
        return cli_misuse(&cmd_sum, "--noise must be a decimal number above 0, not \"%.32s\"",
                          d->noise);
    for (size_t i = 0; i < 2 && st == SEFL_OK; i++)
        if (!d->scheme || strcmp(d->scheme, schemes[i]) == 0) {
            st = sum_with(d, schemes[i]);
            printf("\n");
        }
    if (st != SEFL_OK)
        return cli_failed(&cmd_sum, st);
    printf("Who saw what: AS saw encrypted vectors, its own mask and the noisy sums above. CSP saw "
           "sums under\nthat mask and, with pad, who took part. Neither saw a vector, the plain "
           "sum or the noise.\n(This program knows the plain sum only because it played all "
           "clients.)\n");
    return CLI_DONE;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "clients", SETTING_U64, "8", TO(clients), .min = 1, .max = 1000,
      .help = "Number of clients" },
    { "values", SETTING_U64, "20000", TO(values), .min = 1, .max = 20000000,
      .help = "Number of values in each vector" },
    { "scheme", SETTING_WORD, "", AHE_SCHEMES, TO(scheme),
      .help = "Encryption scheme; default both" },
    { "noise", SETTING_DECIMAL, "1", .arg = "Z", TO(noise), .help = "Noise multiplier" },
    { "bits", SETTING_U64, "3072", PAILLIER_SIZES, TO(bits), .min = 1, .arg = "N",
      .help = "Size of a Paillier key" },
    { 0 },
};

const cli_command cmd_sum = {
    .name = "sum",
    .about = "Clients encrypt random vectors, both servers compute the sum with joint noise, and "
             "the command compares it with the plain sum: the real protocol, in one process.",
    .example = "sefl sum --clients 4 --values 5000",
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_sum_run, NULL, NULL, 0),
};
