/* A whole federation in one process, through include/sefl alone: both servers and three clients,
 * each on its own thread. test_library.sh provisions it: four rounds, exact sums (no noise).
 *
 *     round 1   all submit; client 0 makes every mistake first
 *     round 2   client 2 is late, the others submit
 *     round 3   client 0 skips, client 1 submits a value that is not finite: both upload zeros
 *     round 4   client 2 is stopped while it waits, the others submit
 */
#include <math.h>
#include <pthread.h>
#include <sefl/client.h>
#include <sefl/privacy.h>
#include <sefl/sefl.h>
#include <sefl/server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 3 };
#define STEP 0.001f

#define CHECK(ok)                                                                  \
    do {                                                                           \
        if (!(ok)) {                                                               \
            fprintf(stderr, "%d: %s: \"%s\"\n", __LINE__, #ok, sefl_last_error()); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)
#define FAILS(call, status, words) \
    CHECK((call) == (status) && strstr(sefl_last_error(), (words)) != NULL)

static const char *folder;
enum { ROUNDS = 4 };
static char as_at[64], csp_at[64];
static int rounds_told, lines_told, progress_told;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

static void count(int *n)
{
    pthread_mutex_lock(&count_lock);
    ++*n;
    pthread_mutex_unlock(&count_lock);
}

static void on_log(void *ctx, sefl_log_level level, const char *json)
{
    (void)ctx, (void)level;
    CHECK(json[0] == '{' && json[strlen(json) - 1] == '}');
    if (getenv("VERBOSE"))
        fprintf(stderr, "%s\n", json);
    count(&lines_told);
}

static void on_progress(void *ctx, const sefl_client_progress *p)
{
    (void)ctx;
    CHECK(p->doing != NULL);
    count(&progress_told);
}

static void on_round(void *ctx, const sefl_round_result *r)
{
    (void)ctx;
    CHECK((int)r->rounds == ROUNDS && !r->skipped && r->epsilon_server == -1);
    CHECK(r->clients >= 2);
    count(&rounds_told);
}

/* ---- servers --------------------------------------------------------------------------------- */

static void *run_csp(void *s)
{
    CHECK(sefl_csp_run(s) == SEFL_OK);
    return NULL;
}

static void *run_as(void *a)
{
    CHECK(sefl_aggregator_run(a) == SEFL_OK);
    return NULL;
}

/* ---- clients --------------------------------------------------------------------------------- */

typedef struct site {
    int number;
    sefl_client *c;
    pthread_t thread;
    float *mine, *before;
} site;

static void train(site *s, const sefl_round *r)
{
    for (size_t i = 0; i < r->count; i++)
        s->mine[i] = r->values[i] + STEP * (float)(s->number + 1);
}

static void submit(site *s, const sefl_round *r)
{
    sefl_receipt receipt = { .size = sizeof receipt };
    train(s, r);
    CHECK(sefl_client_submit(s->c, s->mine, r->count, 7, &receipt) == SEFL_OK);
    CHECK(receipt.round == r->number && receipt.bytes > 1000 &&
          receipt.hash[0] + receipt.hash[1] > 0);
}

/* Every mistake with a round that is open, then the right thing, by names and in reverse order. */
static void mistakes(site *s, const sefl_round *r)
{
    size_t n = r->tensor_count, total = 0;
    sefl_named_tensor *t = calloc(n + 1, sizeof *t);
    train(s, r);
    for (size_t i = 0; i < n; i++) {
        const sefl_tensor *x = &r->tensors[n - 1 - i];
        t[i] =
            (sefl_named_tensor){ .name = x->name, .dims = x->dims, .values = s->mine + x->offset };
        memcpy(t[i].shape, x->shape, sizeof x->shape);
        total += x->count;
    }
    CHECK(total == r->count);
    FAILS(sefl_client_submit(s->c, s->mine, r->count - 1, 0, NULL), SEFL_EINVAL, "the model has");
    FAILS(sefl_client_submit_tensors(s->c, t, n - 1, 0, NULL), SEFL_EINVAL, r->tensors[0].name);
    t[n] = t[0];
    FAILS(sefl_client_submit_tensors(s->c, t, n + 1, 0, NULL), SEFL_EINVAL, "twice");
    t[0].shape[0]++;
    FAILS(sefl_client_submit_tensors(s->c, t, n, 0, NULL), SEFL_EINVAL, "shape");
    t[0].shape[0]--;
    t[0].name = "nonsense";
    FAILS(sefl_client_submit_tensors(s->c, t, n, 0, NULL), SEFL_EINVAL, "nonsense");
    t[0].name = t[n].name;
    FAILS(sefl_client_submit(s->c, NULL, r->count, 0, NULL), SEFL_EINVAL, "NULL");
    FAILS(sefl_client_submit_tensors(s->c, NULL, n, 0, NULL), SEFL_EINVAL, "no name");
    t[1].values = NULL;
    FAILS(sefl_client_submit_tensors(s->c, t, n, 0, NULL), SEFL_EINVAL, t[1].name);
    t[1].values = s->mine + r->tensors[n - 2].offset;
    FAILS(sefl_client_run(s->c), SEFL_ESTATE, "already");
    CHECK(sefl_client_wanted(s->c) == 1);
    CHECK(sefl_client_submit_tensors(s->c, t, n, 7, NULL) == SEFL_OK);
    FAILS(sefl_client_submit(s->c, s->mine, r->count, 0, NULL), SEFL_ESTATE, "sefl_client_wait");
    CHECK(sefl_client_wanted(s->c) == 0);
    free(t);
}

/* Holds the round until it has closed; its values stay readable. */
static void be_late(site *s, const sefl_round *r)
{
    float sum = 0, again = 0;
    for (size_t i = 0; i < r->count; i++)
        sum += r->values[i];
    while (sefl_client_wanted(s->c))
        usleep(20000);
    for (size_t i = 0; i < r->count; i++)
        again += r->values[i];
    CHECK(sum == again);
    train(s, r);
    FAILS(sefl_client_submit(s->c, s->mine, r->count, 0, NULL), SEFL_ETIMEOUT, "closed");
}

/* A value that is not finite uploads zeros, as a round that is skipped does. */
static void diverge(site *s, const sefl_round *r)
{
    sefl_receipt receipt = { .size = sizeof receipt };
    train(s, r);
    s->mine[r->count - 1] = NAN;
    CHECK(sefl_client_submit(s->c, s->mine, r->count, 7, &receipt) == SEFL_OK);
    CHECK(receipt.round == r->number && receipt.bytes > 1000);
}

/* The values of a round are those of the one before, plus the average of what was submitted. */
static void check_average(const site *s, const sefl_round *r)
{
    static const float average[] = { 0, 2 * STEP, 1.5f * STEP, 1 * STEP };
    float want = average[r->number - 1];
    for (size_t i = 0; r->number > 1 && i < r->count; i++)
        CHECK(fabsf(r->values[i] - s->before[i] - want) < 0.1f * STEP);
}

static void *stop_soon(void *c)
{
    usleep(300000);
    sefl_client_stop(c);
    return NULL;
}

static sefl_status one_round(site *s, sefl_round *r)
{
    pthread_t other;
    sefl_status st = SEFL_OK;
    check_average(s, r);
    memcpy(s->before, r->values, r->count * sizeof *s->before);
    if (r->number == 1 && s->number == 0)
        mistakes(s, r);
    else if (r->number == 2 && s->number == 2)
        be_late(s, r);
    else if (r->number == 3 && s->number == 1)
        diverge(s, r);
    else if (r->number == 3 && s->number == 0)
        CHECK(sefl_client_skip(s->c) == SEFL_OK);
    else
        submit(s, r);
    if (r->number == 3 && s->number == 2) { /* stopped while it waits, or in the next round */
        CHECK(pthread_create(&other, NULL, stop_soon, s->c) == 0);
        while (st == SEFL_OK)
            st = sefl_client_wait(s->c, r);
        pthread_join(other, NULL);
        CHECK(st == SEFL_ECANCELLED);
    }
    return st;
}

static void *run_site(void *self)
{
    site *s = self;
    char path[512], server[80];
    const char *settings[] = { server, NULL };
    sefl_round r = { .size = sizeof r };
    snprintf(path, sizeof path, "%s/clients/client-0%d/client.yml", folder, s->number + 1);
    snprintf(server, sizeof server, "server=%s", as_at);
    sefl_client_options o = { .size = sizeof o,
                              .settings = settings,
                              .log = on_log,
                              .progress = on_progress,
                              .log_level = "debug" };
    CHECK(sefl_client_open(&s->c, path, &o) == SEFL_OK);
    FAILS(sefl_client_submit(s->c, NULL, 0, 0, NULL), SEFL_ESTATE, "sefl_client_wait");
    FAILS(sefl_client_wait_ms(s->c, &r, 1), SEFL_ETIMEOUT, "no round");
    FAILS(sefl_client_wait(s->c, NULL), SEFL_EINVAL, "NULL");
    uint64_t last = 0;
    for (;;) {
        sefl_status st = sefl_client_wait(s->c, &r);
        CHECK(st == SEFL_OK);
        if (r.number == 0)
            break;
        CHECK(r.number == last + 1 && (int)r.rounds == ROUNDS && r.weight_cap == 0);
        CHECK(!r.claims_privacy && r.left_ms > 0);
        CHECK(r.vocabulary == NULL || access(r.vocabulary, R_OK) == 0);
        if (last == 0) {
            s->mine = calloc(r.count, sizeof *s->mine);
            s->before = calloc(r.count, sizeof *s->before);
        }
        last = r.number;
        if (one_round(s, &r) == SEFL_ECANCELLED)
            break;
    }
    if (s->number == 2)
        CHECK(last == 3);
    else
        CHECK((int)last == ROUNDS && r.why[0] != 0);
    sefl_client_close(s->c);
    free(s->mine);
    free(s->before);
    return NULL;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void errors_without_a_federation(void)
{
    sefl_client *c = NULL;
    struct {
        sefl_client_options o;
        int more;
    } newer = { .o = { .size = sizeof newer }, .more = 1 };
    FAILS(sefl_client_open(&c, "none.yml", NULL), SEFL_ENOTFOUND, "none.yml");
    FAILS(sefl_client_open(&c, "none.yml", &(sefl_client_options){ 0 }), SEFL_EINVAL, "size");
    FAILS(sefl_client_open(&c, "none.yml", &newer.o), SEFL_EUNSUPPORTED, "does not know");
    CHECK(c == NULL);
    sefl_client_close(NULL);
    sefl_aggregator_close(NULL);
    sefl_csp_close(NULL);
}

/* A program that was compiled for version 0.2: its plan means the same, or is refused. */
static void older_plans(void)
{
    struct {
        size_t size;
        int noise, neighbours;
        uint64_t values, clients, rounds, max_rounds_per_client;
        double rate, delta, z, epsilon;
        int hidden, public_count;
    } old = { .size = sizeof old,
              .noise = SEFL_NOISE_JOINT,
              .values = 1000,
              .clients = 100,
              .rounds = 10,
              .rate = 0.1,
              .delta = 1e-6,
              .z = 2,
              .public_count = 1 };
    sefl_privacy_plan plan;
    sefl_privacy_claim claim = { .size = sizeof claim };
    CHECK(sizeof old == sizeof plan);
    memcpy(&plan, &old, sizeof plan);
    CHECK(sefl_privacy_compute(&claim, &plan) == SEFL_OK);
    CHECK(claim.epsilon_others == claim.epsilon_server);
    old.public_count = 0;
    memcpy(&plan, &old, sizeof plan);
    CHECK(sefl_privacy_compute(&claim, &plan) == SEFL_OK);
    CHECK(claim.epsilon_others < claim.epsilon_server);
    old.hidden = 1;
    memcpy(&plan, &old, sizeof plan);
    FAILS(sefl_privacy_compute(&claim, &plan), SEFL_EUNSUPPORTED, "0.2");
}

static void null_handles(void)
{
    sefl_round r = { .size = sizeof r };
    sefl_privacy_plan plan = { .size = sizeof plan,
                               .noise = SEFL_NOISE_JOINT,
                               .values = 9,
                               .clients = 9,
                               .rate = 1,
                               .rounds = 1,
                               .delta = 1e-3,
                               .z = 1 };
    FAILS(sefl_client_wait(NULL, &r), SEFL_EINVAL, "NULL");
    FAILS(sefl_client_wait_ms(NULL, &r, 1), SEFL_EINVAL, "NULL");
    FAILS(sefl_client_submit(NULL, NULL, 0, 0, NULL), SEFL_EINVAL, "NULL");
    FAILS(sefl_client_submit_tensors(NULL, NULL, 0, 0, NULL), SEFL_EINVAL, "NULL");
    FAILS(sefl_client_skip(NULL), SEFL_EINVAL, "NULL");
    FAILS(sefl_client_run(NULL), SEFL_EINVAL, "NULL");
    FAILS(sefl_aggregator_run(NULL), SEFL_EINVAL, "NULL");
    FAILS(sefl_csp_run(NULL), SEFL_EINVAL, "NULL");
    FAILS(sefl_privacy_compute(NULL, &plan), SEFL_EINVAL, "NULL");
    CHECK(sefl_client_wanted(NULL) == 0);
    CHECK(sefl_aggregator_port(NULL) == 0 && sefl_csp_port(NULL) == 0);
    sefl_client_stop(NULL), sefl_aggregator_stop(NULL), sefl_csp_stop(NULL);
    sefl_client_reload(NULL), sefl_aggregator_reload(NULL), sefl_csp_reload(NULL);
}

static void read_ledgers(void)
{
    char path[512];
    sefl_ledger_status l = { .size = sizeof l };
    snprintf(path, sizeof path, "%s/clients/client-01/ledger", folder);
    CHECK(sefl_ledger_read(&l, path, 1e-5) == SEFL_OK);
    CHECK(l.tasks == 1 && (int)l.rounds == ROUNDS && !l.claimed && l.why_not[0] != 0);
    FAILS(sefl_ledger_read(&l, "none", 1e-5), SEFL_ENOTFOUND, "none");
}

int main(int argc, char **argv)
{
    char path[512], settings[2][80];
    const char *over[] = { settings[0], settings[1], NULL };
    sefl_server_options o = {
        .size = sizeof o, .settings = over, .log = on_log, .round = on_round
    };
    sefl_aggregator *as = NULL;
    sefl_csp *csp = NULL;
    pthread_t threads[2];
    site sites[CLIENTS] = { { 0 } };
    snprintf(path, sizeof path, "%d.%d.%d", SEFL_VERSION_MAJOR, SEFL_VERSION_MINOR,
             SEFL_VERSION_PATCH);
    CHECK(argc >= 2 && strcmp(sefl_version(), path) == 0);
    folder = argv[1];
    errors_without_a_federation();
    older_plans();
    null_handles();

    snprintf(path, sizeof path, "%s/csp/csp.yml", folder);
    snprintf(settings[0], sizeof settings[0], "listen=127.0.0.1:0");
    snprintf(settings[1], sizeof settings[1], "log=info");
    CHECK(sefl_csp_open(&csp, path, &o) == SEFL_OK);
    snprintf(csp_at, sizeof csp_at, "127.0.0.1:%u", sefl_csp_port(csp));
    CHECK(pthread_create(&threads[0], NULL, run_csp, csp) == 0);
    snprintf(path, sizeof path, "%s/aggregator/aggregator.yml", folder);
    snprintf(settings[1], sizeof settings[1], "csp=%s", csp_at);
    CHECK(sefl_aggregator_open(&as, path, &o) == SEFL_OK);
    snprintf(as_at, sizeof as_at, "127.0.0.1:%u", sefl_aggregator_port(as));
    CHECK(pthread_create(&threads[1], NULL, run_as, as) == 0);

    for (int i = 0; i < CLIENTS; i++) {
        sites[i].number = i;
        CHECK(pthread_create(&sites[i].thread, NULL, run_site, &sites[i]) == 0);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(sites[i].thread, NULL);
    sefl_aggregator_stop(as); /* it would answer late clients for a while */
    pthread_join(threads[1], NULL);
    sefl_aggregator_close(as);
    sefl_csp_stop(csp);
    pthread_join(threads[0], NULL);
    sefl_csp_close(csp);
    CHECK(rounds_told == ROUNDS && lines_told > 20 && progress_told > 20);
    read_ledgers();
    puts("ok");
    return 0;
}
