#include "simulate/deploy.h"

#include "base/log.h"
#include "crypto/ahe/ahe.h"
#include "crypto/seal/seal.h"
#include "protocol/head.h"
#include "protocol/modes/mode.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

enum { LIST_BYTES = 144 }; /* the leader's two lists, per client (share_inside.h) */
#define CLIENTS_BELOW 0.1  /* of every part: the clients take longer */

const deploy_text deploy_parts[DEPLOY_PARTS] = {
    [DEPLOY_AS_CORES] = { "processors of the aggregators", "more aggregators" },
    [DEPLOY_AS_NETWORK] = { "network of the aggregators", "more aggregators" },
    [DEPLOY_FOLDER] = { "the shared folder, which receives all bytes once",
                        "keep bodies on the disk of the aggregator that received them, with one "
                        "copy at a second one, and share only partial sums and heads" },
    [DEPLOY_DATABASE] = { "commits of PostgreSQL, one upload each",
                          "several connections per aggregator, and several uploads per "
                          "transaction" },
    [DEPLOY_CSP] = { "processors of CSP", "CSP on several machines: heads and pads divide as "
                                          "uploads do" },
    [DEPLOY_CLIENTS] = { "the clients: no server is busy for a tenth of the window",
                         "nothing at the servers" },
};

/* ---- CSP's work ------------------------------------------------------------------------------ */

#define MEASURE_S 0.25

/* Of this thread: other work on the machine does not count. */
static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Checks and opens one head again and again. */
static sefl_status time_head(double *out, const task *t, const uint8_t some[32])
{
    sefl_status st = SEFL_OK;
    const sefl_rng rng = rng_system();
    seal_key *key = NULL;
    sign_key *signs = NULL;
    uint8_t bytes[HEAD_MAX], seed[HEAD_SEED];
    head h;
    SEFL_TRY(seal_key_from(&key, t->seal, some));
    SEFL_TRY(sign_key_from(&signs, some));
    SEFL_TRY(head_make(
        bytes,
        &(head_facts){ .suite = t->seal, .task = t->id, .round = 1, .client = some, .units = some },
        seal_key_pub(key), some, signs, &rng));
    const double began = cpu_now();
    double n = 0, took = 0;
    while (took < MEASURE_S) {
        SEFL_TRY(head_read(&h, t->seal, span_of(bytes, head_bytes(t->seal))));
        SEFL_TRY(head_check(&h, t->id, 1, sign_key_pub(signs)));
        SEFL_TRY(head_open(seed, &h, key, t->id, 1));
        n++;
        took = cpu_now() - began;
    }
    *out = took / n;
done:
    seal_key_free(key);
    sign_key_free(signs);
    return st;
}

/* Adds and subtracts one client's pad again and again. */
static sefl_status time_pad(double *out, const task *t)
{
    sefl_status st = SEFL_OK;
    const ahe_seed one = { { 1 } };
    ahe_dec *dec = NULL;
    SEFL_TRY(ahe_dec_new(&dec, &t->ahe, NULL, t->id));
    const double began = cpu_now();
    double n = 0, took = 0;
    while (took < MEASURE_S) {
        SEFL_TRY(ahe_dec_add(&t->ahe, dec, &one, 1, NULL));
        SEFL_TRY(ahe_dec_take(&t->ahe, dec, &one, 1, NULL));
        n += 2;
        took = cpu_now() - began;
    }
    *out = took / n;
done:
    ahe_dec_free(&t->ahe, dec);
    return st;
}

sefl_status deploy_measure(deploy_costs *out, const federation *s)
{
    static const uint8_t some[32] = { 1 };
    SEFL_NEED(s->e->full && task_is_sealed(&s->task), SEFL_EINVAL,
              "--deploy needs the costs of encryption: set crypto: full, protection: sefl and the "
              "scheme pad");
    SEFL_PASS(time_head(&out->head, &s->task, some));
    return time_pad(&out->pad, &s->task);
}

/* ---- a round --------------------------------------------------------------------------------- */

/* How many aggregators keep what they share out below DEPLOY_USE. */
static uint64_t needed(const deploy *d, double window)
{
    const double n = (double)d->ask.clients;
    double most = d->as_seconds / (DEPLOY_CORES * window);
    most = fmax(most, d->in_bytes / (DEPLOY_NETWORK_BYTES * window));
    most = fmax(most, n * 1e-3 * DEPLOY_COMMIT_MS / window);
    return most <= DEPLOY_USE ? 1 : (uint64_t)ceil(most / DEPLOY_USE);
}

static void uses(deploy *d, double window)
{
    const double n = (double)d->ask.clients, each = (double)d->aggregators;
    d->use[DEPLOY_AS_CORES] = d->as_seconds / (each * DEPLOY_CORES * window);
    d->use[DEPLOY_AS_NETWORK] = d->in_bytes / (each * DEPLOY_NETWORK_BYTES * window);
    d->use[DEPLOY_FOLDER] = d->in_bytes / (DEPLOY_FOLDER_BYTES * window);
    d->use[DEPLOY_DATABASE] = n * 1e-3 * DEPLOY_COMMIT_MS / (each * window);
    d->use[DEPLOY_CSP] = d->csp_seconds / (DEPLOY_CSP_CORES * window);
    d->bottleneck = DEPLOY_CLIENTS;
    double most = CLIENTS_BELOW;
    for (int i = 0; i < DEPLOY_CLIENTS; i++)
        if (d->use[i] > most)
            most = d->use[i], d->bottleneck = (deploy_part)i;
}

sefl_status deploy_make(deploy *out, const federation *s, const rates *r, const deploy_costs *c,
                        const deploy_ask *ask)
{
    const task *t = &s->task;
    const double n = (double)ask->clients, v = (double)t->values, window = (double)ask->window_s;
    SEFL_NEED(ask->clients >= 1 && ask->clients <= DEPLOY_CLIENTS_MAX, SEFL_EINVAL,
              "--deploy: a round has 1 to %" PRIu64 " clients, not %" PRIu64, DEPLOY_CLIENTS_MAX,
              ask->clients);
    deploy d = { .ask = *ask, .values = t->values, .up_bytes = task_body_bytes(t) };
    d.in_bytes = n * (double)d.up_bytes;
    d.as_seconds =
        n * (1e-3 * DEPLOY_UPLOAD_MS + 1e-9 * DEPLOY_UPLOAD_NS_BYTE * (double)d.up_bytes);
    d.database_seconds = n * 1e-3 * DEPLOY_DATABASE_MS;
    d.csp_seconds = n * (c->head + c->pad);
    d.csp_after = d.csp_seconds / DEPLOY_CSP_CORES;
    d.heads_bytes = n * (double)(head_bytes(t->seal) + HEAD_PREFIX);
    d.noise_bytes = task_mode(t)->shares ? DEPLOY_NOISE_BYTES * v : 0;
    d.link_bytes = r->link_bytes_round + r->link_bytes_value * v;
    d.lists_bytes = n * LIST_BYTES;
    d.need = needed(&d, window);
    d.aggregators = ask->aggregators ? ask->aggregators : d.need;
    d.after = 1e-3 * (r->sum_ms_round + r->release_ms_round + r->step_ms_round) +
              1e-9 * v * (r->release_ns_value + (double)d.aggregators * r->sum_ns_value);
    uses(&d, window);
    *out = d;
    return SEFL_OK;
}

void deploy_json(json *j, const deploy *d)
{
    json_open(j, '{');
    json_fields(
        j, lf_u64("clients_per_round", d->ask.clients), lf_u64("values", d->values),
        lf_u64("window_seconds", d->ask.window_s), lf_u64("up_bytes_per_client", d->up_bytes),
        lf_real("up_bytes", d->in_bytes), lf_real("as_cpu_seconds", d->as_seconds),
        lf_real("database_cpu_seconds", d->database_seconds),
        lf_real("csp_cpu_seconds", d->csp_seconds), lf_real("heads_bytes", d->heads_bytes),
        lf_real("link_bytes", d->link_bytes), lf_real("leader_list_bytes", d->lists_bytes),
        lf_real("seconds_after_close", d->after), lf_real("csp_seconds_after_close", d->csp_after),
        lf_u64("aggregators", d->aggregators), lf_u64("aggregators_needed", d->need),
        lf_real("as_use", d->use[DEPLOY_AS_CORES]),
        lf_real("network_use", d->use[DEPLOY_AS_NETWORK]),
        lf_real("folder_use", d->use[DEPLOY_FOLDER]),
        lf_real("database_use", d->use[DEPLOY_DATABASE]), lf_real("csp_use", d->use[DEPLOY_CSP]),
        lf_str("bottleneck", deploy_parts[d->bottleneck].name),
        lf_str("next", deploy_parts[d->bottleneck].next));
    json_close(j, '}');
}
