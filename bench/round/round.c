/* Measures a round from its closing to the new model: AS in this process, CSP in a second one,
 * mutual TLS over loopback between them, full-size keys, and journals, ledgers and models on disk.
 * Before the clock starts: vouchers, noise shares through a lane, a different update per client,
 * added to the sum as on arrival, and the heads of sealed updates through EARLY. With --filter the
 * same rounds run first without correlated noise: the floor of each row is its value there. */
#define _GNU_SOURCE
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/dir.h"
#include "base/file.h"
#include "bench/round/uploaders.h"
#include "config/yaml/yaml.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "model/lm.h"
#include "net/tls.h"
#include "operator/provision.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "roles/aggregator/lanes.h"
#include "roles/aggregator/release.h"
#include "roles/csp/csp_role.h"
#include "roles/csp/lane_host.h"
#include "store/disk/account_disk.h"
#include "store/disk/as_disk.h"
#include "sum/as_memory.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CLIENTS = 8,
    ENROLLED = 3000, /* slots as wide as in a real federation */
    MANY = 100,
    ROUNDS_MAX = 20,
    ROWS_MAX = 40,
    TOP_MAX = 1024, /* of the scratch folder's path */
    PATH_BYTES = TOP_MAX + 96,
    VALID_WORDS = 1600, /* of validation text */
    LINE_WORDS = 16,
    SHARES_STEP = 4 << 20,
    VALUES = 945510, /* the LSTM at l = 32 with 33,278 words */
};

typedef struct options {
    bench b;
    const char *scheme, *dir;
    unsigned bits; /* size of the Paillier key */
    size_t values;
    unsigned rounds; /* 0: three, with paillier one */
    unsigned filter; /* correlated noise of one lag, in 1/4096; 0: none */
    uint32_t clients;
    bool is_floor; /* the run without the filter */
    struct {
        char name[64];
        double value;
    } floor[ROWS_MAX];
    unsigned floors;
} options;

typedef struct parts {
    double make, early; /* before the round closes: seconds for all clients */
    round_parts as;     /* times of AS that as_times lacks */
    double total;       /* from closing to release: the sum of the parts */
    double steps;       /* in addition: the driver stores the state machine's steps */
    uint64_t bytes;     /* between the servers during that time */
    double cpu_offline[2], cpu_early[2], cpu_close[2]; /* AS, CSP: seconds of processor time */
    double offline, made, offline_bytes;               /* noise shares */
    as_times link;
} parts;

typedef struct as_side {
    as_uploads_memory up; /* first: the driver's ports share ctx */
    as_uploads uploads;
    char folder[TOP_MAX + 8], store[PATH_BYTES];
    task t;
    sefl_buf envelope;
    sign_key *key;
    tls_id *id;
    tls *tls;
    as_rounds *rounds;
    uint16_t port;
    shares_pool *shares;
    sefl_rng shares_rng;
    lanes *lanes;
    pthread_mutex_t lock; /* of lane and lane_bytes */
    tls *lane;
    uint64_t lane_bytes; /* of lanes that disconnected */
    journal *j;
    account *account;
    as_disk disk;
    as_store table;
    sefl_coins coins;
    sefl_clock clock, real_wall, wall; /* wall: real_wall and ahead_ms */
    uint64_t ahead_ms;
    pool *pool;
    releases *models;
    ahe_enc *enc;
    ahe_sum *sum;
    int64_t *w;
    uploaders *all;
    uint32_t clients;
    bool bound, vouched; /* lanes know their link; CSP has the vouchers */
    uint8_t pair[LINK_PAIR];
    uint8_t *body, *heads; /* heads: one after the other */
    round_entry *set;      /* the uploads of the round, sorted by client */
    round_header header;
    parts *part; /* of the round under way, of `parts` */
    parts parts[ROUNDS_MAX];
    unsigned rounds_n;
    uint64_t began, bytes_before;
    double cpu_before[2];
    sefl_status failed; /* for ports that cannot return an error */
    pid_t csp;
} as_side;

static double since(const sefl_clock *c, uint64_t *t)
{
    uint64_t now = clock_ns(c), was = *t;
    *t = now;
    return 1e-9 * (double)(now - was);
}

/* Processor time of both processes so far. */
static void cpu_both(const as_side *a, double out[2])
{
    clockid_t clocks[2] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID };
    struct timespec t = { 0 };
    for (int i = 0; i < 2; i++) {
        out[i] = 0;
        if ((i == 0 || clock_getcpuclockid(a->csp, &clocks[1]) == 0) &&
            clock_gettime(clocks[i], &t) == 0)
            out[i] = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    }
}

static void cpu_since(const as_side *a, double out[2], const double before[2])
{
    double now[2];
    cpu_both(a, now);
    for (int i = 0; i < 2; i++)
        out[i] = now[i] - before[i];
}

/* ---- the federation's folder ----------------------------------------------------------------- */

/* Words of the smallest LSTM at l = 32 with at least this many values. */
static sefl_status words_for(size_t values, uint32_t *words)
{
    sefl_status st = SEFL_OK;
    uint32_t low = 64, high = (uint32_t)(values / 20 + 64); /* a word has about 27 */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        lm_config cfg = { .vocab = mid,
                          .embed = 200,
                          .hidden = 200,
                          .layers = 2,
                          .block = 32,
                          .batch = 1,
                          .steps = 1 };
        lm *m;
        SEFL_TRY(lm_new(&m, &cfg, NULL));
        if (lm_count(m) < values)
            low = mid + 1;
        else
            high = mid;
        lm_free(m);
    }
    *words = low;
done:
    return st;
}

/* A file of text: `documents` documents of `lines` lines. */
static sefl_status make_text(const char *folder, const char *name, uint32_t documents,
                             uint32_t lines)
{
    sefl_status st = SEFL_OK;
    char path[PATH_BYTES + 16];
    sefl_buf b = { 0 };
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (uint32_t d = 0, word = 2; d < documents; d++) {
        SEFL_TRY(wr_fmt(&b, " = w%u = \n", 2 + d % 50));
        for (uint32_t l = 0; l < lines; l++)
            for (int i = 0; i < LINE_WORDS; i++, word++)
                SEFL_TRY(wr_fmt(&b, " w%u%s", 2 + word % 50, i == LINE_WORDS - 1 ? " \n" : ""));
    }
    SEFL_TRY(file_write_new(path, buf_span(&b), 0600));
done:
    buf_clear(&b);
    return st;
}

/* The same validation text for any number of clients, because evaluation is part of a release. */
static unsigned rounds_of(const options *o)
{
    return o->rounds ? o->rounds : strcmp(o->scheme, "pad") == 0 ? 3 : 1;
}

static sefl_status make_folder(const options *o, const char *top, const char *folder)
{
    sefl_status st = SEFL_OK;
    static const char *const base[] = {
        "model.body=lstm",  "model.embed=200",      "model.hidden=200",    "model.layers=2",
        "model.block=32",   "model.tied=false",     "privacy.noise=joint", "privacy.clip=0.01",
        "privacy.claim=dp", "privacy.epsilon=1000", "privacy.delta=1e-6",  "rounds.threshold=2"
    };
    settings s;
    sefl_buf list = { 0 };
    char words_file[PATH_BYTES], text[PATH_BYTES], scheme[64], enrolled[64], count[64], filter[64],
        z[64];
    uint32_t words = 0;
    provision_report report;
    settings_init(&s, task_schema);
    snprintf(words_file, sizeof words_file, "%s/words.txt", top);
    snprintf(scheme, sizeof scheme, "crypto.scheme=%s", o->scheme);
    snprintf(enrolled, sizeof enrolled, "rounds.enrolled=%d", ENROLLED);
    snprintf(count, sizeof count, "rounds.count=%u", rounds_of(o));
    snprintf(filter, sizeof filter, "privacy.filter=%u", o->filter);
    /* a filter needs z >= S / 4, and S^2 is at most 1 + 4 + 9 + ... + rounds^2 */
    snprintf(z, sizeof z, "privacy.z=%.3g",
             o->filter == 0 || rounds_of(o) <= 3 ? 1 : 0.15 * pow(rounds_of(o) + 1, 1.5));
    snprintf(text, sizeof text, "%s/text", top);
    SEFL_TRY(file_make_folder(text, 0700));
    SEFL_TRY(make_text(text, "train.txt", o->clients, 8));
    SEFL_TRY(make_text(text, "valid.txt", 1, VALID_WORDS / LINE_WORDS));
    SEFL_TRY(words_for(o->values, &words));
    for (uint32_t i = 2; i < words; i++) /* <unk> and <eos> are added automatically */
        SEFL_TRY(wr_fmt(&list, "w%u\n", i));
    SEFL_TRY(file_write_new(words_file, buf_span(&list), 0600));
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        SEFL_TRY(settings_set(&s, base[i], "bench"));
    SEFL_TRY(settings_set(&s, enrolled, "bench"));
    SEFL_TRY(settings_set(&s, count, "bench"));
    SEFL_TRY(settings_set(&s, z, "bench"));
    if (o->filter > 0 && !o->is_floor)
        SEFL_TRY(settings_set(&s, filter, "--filter"));
    SEFL_TRY(settings_set(&s, scheme, "--scheme"));
    SEFL_TRY(provision_make(
        &report,
        &(provision_config){ .folder = folder,
                             .clients = o->clients,
                             .key_bits = strcmp(o->scheme, "paillier") == 0 ? o->bits : 0,
                             .vocab = words_file,
                             .data = text,
                             .seed = 1,
                             .task = &s },
        NULL));
done:
    buf_clear(&list);
    settings_clear(&s);
    return st;
}

/* ---- CSP: a separate process ----------------------------------------------------------------- */

/* A root, or a Paillier key: *root or *sec. */
static sefl_status csp_key_open(uint8_t **root, paillier_sec **sec, const csp_settings *c)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 }, lock = { 0 };
    keyfile_info info;
    SEFL_TRY(file_read(&file, c->key, KEYFILE_BYTES_MAX));
    SEFL_TRY(file_read(&lock, c->key_lock, SEALED_LOCK_MAX));
    sealed_lock with = { .by = SEALED_BY_KEY_FILE, .secret = buf_span(&lock) };
    SEFL_TRY(keyfile_info_read(&info, buf_span(&file)));
    if (info.kind == KEYFILE_ROOT) {
        SEFL_TRY(secmem_new(root, KEYFILE_ROOT_BYTES, NULL));
        SEFL_TRY(keyfile_root_read(*root, buf_span(&file), &with));
    } else {
        SEFL_TRY(keyfile_sec_read(sec, buf_span(&file), &with, NULL));
    }
done:
    buf_clear(&file);
    buf_clear(&lock);
    return st;
}

/* Waits for the folder, reports its port, serves until the task is over, reports its times. */
static sefl_status csp_process(const char *folder, unsigned threads, int in, int out)
{
    sefl_status st = SEFL_OK;
    char path[PATH_BYTES], dir[TOP_MAX + 16], go, level[] = "log=error", many[32];
    sefl_clock wall = clock_wall();
    sefl_log log = log_open(2, LOG_ERROR, &wall);
    settings s;
    csp_settings c = { 0 };
    paillier_sec *sec = NULL;
    uint8_t *root = NULL;
    csp_role *role = NULL;
    settings_init(&s, csp_schema);
    if (read(in, &go, 1) != 1)
        goto done; /* AS gave up */
    snprintf(dir, sizeof dir, "%s/csp", folder);
    snprintf(path, sizeof path, "%s/csp.yml", dir);
    snprintf(many, sizeof many, "threads=%u", threads);
    SEFL_TRY(yaml_read(&s, path));
    SEFL_TRY(settings_set(&s, level, "bench"));
    SEFL_TRY(settings_set(&s, many, "bench"));
    SEFL_TRY(settings_set(&s, "listen=127.0.0.1:0", "bench"));
    SEFL_TRY(csp_settings_make(&c, &s));
    SEFL_TRY(csp_key_open(&root, &sec, &c));
    SEFL_TRY(csp_role_new(
        &role, &(csp_role_options){ .settings = &c, .root = root, .sec = sec, .log = &log }));
    uint16_t port = csp_role_port(role);
    SEFL_TRY(file_write_all(out, span_of(&port, sizeof port)));
    SEFL_TRY(csp_role_run(role));
    SEFL_TRY(file_write_all(out, span_of(csp_role_times(role), sizeof(csp_times))));
done:
    csp_role_free(role);
    paillier_sec_free(sec);
    secmem_free(root);
    settings_clear(&s);
    return st;
}

/* ---- AS -------------------------------------------------------------------------------------- */

static const char *at(const as_side *a, char path[PATH_BYTES], const char *name)
{
    snprintf(path, PATH_BYTES, "%s/%s", a->folder, name);
    return path;
}

static uint64_t wall_ns(void *self)
{
    const as_side *a = self;
    return clock_ns(&a->real_wall) + a->ahead_ms * 1000000;
}

static sefl_status as_begin(as_side *a, unsigned threads)
{
    sefl_status st = SEFL_OK;
    char p[4][PATH_BYTES];
    envelope env;
    a->coins = coins_system();
    a->clock = clock_monotonic();
    a->real_wall = clock_wall();
    a->wall = (sefl_clock){ .now_ns = wall_ns, .self = a };
    SEFL_TRY(pool_new(&a->pool, threads));
    SEFL_TRY(sign_key_read(&a->key, at(a, p[0], "aggregator/sign.key")));
    SEFL_TRY(file_read(&a->envelope, at(a, p[0], "public/task.signed"), 1 << 20));
    SEFL_TRY(envelope_read(&env, buf_span(&a->envelope)));
    SEFL_TRY(task_read(&a->t, env.content));
    SEFL_TRY(tls_id_read(&a->id, at(a, p[0], "aggregator/cert.pem"),
                         at(a, p[1], "aggregator/key.pem"),
                         at(a, p[2], "aggregator/csp_peers.pem")));
    SEFL_TRY(journal_open(&a->j, at(a, p[0], "aggregator/state"), "aggregator", a->t.id));
    SEFL_TRY(account_disk_open(&a->account, a->j, at(a, p[0], "aggregator/ledger"), &a->t));
    a->disk = (as_disk){ .j = a->j, .coins = &a->coins };
    a->table = as_disk_store(&a->disk);
    SEFL_TRY(uploaders_new(&a->all, a->folder, a->clients, &a->t));
    SEFL_TRY(sefl_new(&a->body, task_body_bytes(&a->t), 1));
    SEFL_TRY(sefl_new(&a->heads, a->clients, head_bytes(a->t.seal) + 1));
    SEFL_TRY(sefl_new(&a->set, a->clients, sizeof *a->set));
    SEFL_TRY(sefl_new(&a->w, a->t.values, sizeof *a->w));
    SEFL_TRY(ahe_enc_new(&a->enc, a->t.pub, &a->t.ahe, a->pool, NULL));
done:
    return st;
}

static sefl_status as_models(as_side *a)
{
    static char p[4][PATH_BYTES]; /* borrowed by releases */
    return releases_new(&a->models,
                        &(releases_config){ .task = &a->t,
                                            .files.models = at(a, p[0], "aggregator/models"),
                                            .files.init = at(a, p[1], "public/init.safetensors"),
                                            .files.vocab = at(a, p[2], "public/vocab.txt"),
                                            .files.valid = at(a, p[3], "public/valid.txt"),
                                            .pool = a->pool });
}

static void as_end(as_side *a)
{
    lanes_free(a->lanes);
    shares_pool_free(a->shares);
    pthread_mutex_destroy(&a->lock);
    as_rounds_free(a->rounds);
    tls_close(a->tls);
    tls_id_free(a->id);
    releases_free(a->models);
    ahe_sum_free(&a->t.ahe, a->sum);
    ahe_enc_free(&a->t.ahe, a->enc);
    account_close(a->account);
    journal_close(a->j);
    sign_key_free(a->key);
    uploaders_free(a->all);
    sefl_free(a->body);
    sefl_free(a->heads);
    sefl_free(a->set);
    sefl_free(a->w);
    pool_free(a->pool);
    buf_clear(&a->envelope);
    task_clear(&a->t);
}

static sefl_status dial_csp(as_side *a, const char *protocol, tls **out)
{
    return tls_dial(out, "127.0.0.1", a->port, a->id,
                    &(tls_peer){ .role = "csp", .protocols = { protocol } },
                    &(tls_limits){ .idle_ms = LINK_IDLE_MS });
}

static sefl_status dial_lane(void *ctx, unsigned lane, channel **out)
{
    as_side *a = ctx;
    tls *t;
    (void)lane;
    sefl_status st = dial_csp(a, LANE_ALPN, &t);
    if (st != SEFL_OK)
        return st;
    pthread_mutex_lock(&a->lock);
    a->lane = t;
    pthread_mutex_unlock(&a->lock);
    *out = tls_channel(t);
    return SEFL_OK;
}

static void hang_up_lane(void *ctx, unsigned lane)
{
    as_side *a = ctx;
    (void)lane;
    pthread_mutex_lock(&a->lock);
    tls *t = a->lane;
    if (t)
        a->lane_bytes += tls_channel(t)->sent + tls_channel(t)->received;
    a->lane = NULL;
    pthread_mutex_unlock(&a->lock);
    tls_close(t);
}

static void interrupt_lane(void *ctx, unsigned lane)
{
    as_side *a = ctx;
    (void)lane;
    pthread_mutex_lock(&a->lock);
    if (a->lane)
        tls_interrupt(a->lane);
    pthread_mutex_unlock(&a->lock);
}

static sefl_status wait_for_shares(void *ctx, uint64_t round, uint64_t attempt, uint64_t count)
{
    (void)round, (void)attempt;
    return lanes_wait(((as_side *)ctx)->lanes, count);
}

static sefl_status as_lanes(as_side *a)
{
    sefl_status st = SEFL_OK;
    a->shares_rng = rng_system();
    SEFL_TRY(shares_pool_new(&a->shares, lanes_pool_max(&a->t), &a->shares_rng));
    SEFL_TRY(lanes_new(&a->lanes, &(lanes_config){ .task = &a->t,
                                                   .pool = a->shares,
                                                   .dial = { .ctx = a,
                                                             .dial = dial_lane,
                                                             .hang_up = hang_up_lane,
                                                             .interrupt = interrupt_lane },
                                                   .key = a->key,
                                                   .coins = &a->coins,
                                                   .mono = &a->clock,
                                                   .wall = &a->clock }));
done:
    return st;
}

/* Generates the noise shares of two rounds, as servers do while clients train. */
static sefl_status as_fill(as_side *a, parts *out)
{
    sefl_status st = SEFL_OK;
    const uint64_t want = 2 * a->t.values;
    uint64_t t = clock_ns(&a->clock), bytes, had = shares_pool_have(a->shares);
    pthread_mutex_lock(&a->lock);
    bytes = a->lane_bytes;
    pthread_mutex_unlock(&a->lock);
    if (!a->bound) /* the first time */
        lanes_bind(a->lanes, a->pair), a->bound = true;
    for (uint64_t n = SHARES_STEP; n < want;
         n += SHARES_STEP) { /* CSP disconnects if nothing happens */
        SEFL_TRY(lanes_wait(a->lanes, n));
        SEFL_TRY(as_link_ping(as_rounds_link(a->rounds)));
    }
    SEFL_TRY(lanes_wait(a->lanes, want));
    out->offline = since(&a->clock, &t);
    out->made = (double)(shares_pool_have(a->shares) - had);
    for (int i = 0; i < 1000; i++) { /* the lane's bytes are known once it disconnects */
        pthread_mutex_lock(&a->lock);
        bool up = a->lane != NULL;
        out->offline_bytes = (double)(a->lane_bytes - bytes);
        pthread_mutex_unlock(&a->lock);
        if (!up)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
done:
    return st;
}

/* ---- the driver's ports (sum/as_rounds.h) ---------------------------------------------------- */

static sefl_status dial(void *ctx, channel **out)
{
    as_side *a = ctx;
    sefl_status st = dial_csp(a, LINK_ALPN, &a->tls);
    if (st == SEFL_OK)
        *out = tls_channel(a->tls);
    return st;
}

static void hang_up(void *ctx)
{
    as_side *a = ctx;
    tls_close(a->tls);
    a->tls = NULL;
}

static void link_up(void *ctx, const as_peer *peer)
{
    memcpy(((as_side *)ctx)->pair, peer->pair, LINK_PAIR);
}

static const as_channel over_tls = {
    .dial = dial, .hang_up = hang_up, .up = link_up, .shares_wait = wait_for_shares
};

/* Before the first order that needs them. */
static void vouch(void *ctx, as_link *link)
{
    as_side *a = ctx;
    if (!link || a->vouched || !task_is_sealed(&a->t))
        return;
    a->vouched = true;
    a->failed = uploaders_vouch(a->all, link, NULL);
}

static sefl_status accept_uploads(void *ctx, const round_header *h, sefl_span both)
{
    as_side *a = ctx;
    (void)both;
    a->header = *h;
    a->up = (as_uploads_memory){ 0 };
    a->part = &a->parts[h->round - 1];
    return a->failed;
}

/* Adds every client's upload to the sum and keeps its head. */
static sefl_status collect_all(as_side *a)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &a->t.ahe;
    const size_t each = head_bytes(a->t.seal);
    const uint8_t *units = a->body + task_body_bytes(&a->t) - ahe_body_bytes(p);
    ahe_sum_free(p, a->sum), a->sum = NULL;
    uploaders_begin(a->all, a->header.round);
    SEFL_TRY(ahe_sum_new(&a->sum, p, a->t.pub));
    for (uint32_t i = 0; i < a->clients; i++) {
        memcpy(a->set[i].client, uploaders_client(a->all, i), sizeof a->set[i].client);
        SEFL_TRY(uploaders_update(a->all, a->body, a->set[i].body, i, &a->header, a->enc, a->pool));
        SEFL_TRY(ahe_sum_begin(p, a->sum));
        SEFL_TRY(ahe_sum_add_units(p, a->sum, 0, units, p->units, a->pool));
        memcpy(a->heads + i * each, a->body, each);
    }
    a->up = (as_uploads_memory){ .clients = a->clients,
                                 .set = a->set,
                                 .heads = a->heads,
                                 .head_bytes = each,
                                 .closed = a->sum };
done:
    return st;
}

/* While clients train and upload; then the deadline passes. */
static sefl_status wait_until(void *ctx, uint64_t until_ms)
{
    sefl_status st = SEFL_OK;
    as_side *a = ctx;
    agg *machine = as_rounds_agg(a->rounds);
    uint64_t t, now;
    double cpu[2];
    if (agg_get_phase(machine) == AGG_COLLECTING && a->up.clients == 0) {
        cpu_both(a, cpu);
        SEFL_TRY(as_fill(a, a->part));
        cpu_since(a, a->part->cpu_offline, cpu);
        lanes_hold(a->lanes, true); /* the measured part has the processors to itself */
        t = clock_ns(&a->clock);
        SEFL_TRY(collect_all(a));
        a->part->make = since(&a->clock, &t);
        cpu_both(a, cpu);
        SEFL_TRY(as_rounds_send_heads(a->rounds));
        a->part->early = since(&a->clock, &t);
        cpu_since(a, a->part->cpu_early, cpu);
        SEFL_TRY(agg_on(
            machine,
            &(agg_event){ .kind = AGG_UPDATE, .round = a->header.round, .clients = a->clients },
            clock_ms(&a->wall)));
    }
    now = clock_ms(&a->wall);
    SEFL_CHECK(until_ms != UINT64_MAX, SEFL_ESTATE, "the round waits for nothing");
    a->ahead_ms += until_ms > now ? until_ms - now : 0;
done:
    return st;
}

static uint64_t link_bytes(const as_side *a)
{
    const channel *ch = tls_channel(a->tls);
    return ch->sent + ch->received;
}

/* The clock starts. */
static sefl_status freeze(void *ctx, uint64_t round)
{
    as_side *a = ctx;
    (void)round;
    cpu_both(a, a->cpu_before);
    a->bytes_before = link_bytes(a);
    a->began = clock_ns(&a->clock);
    return ahe_sum_close(&a->t.ahe, a->sum);
}

/* Checks that the release is the sum plus the claimed noise. */
static sefl_status check(const as_side *a, uint64_t round)
{
    double sigma = task_mode(&a->t)->deviation(&a->t), squares = 0;
    if (round == 1) /* there is no noise to take back */
        sigma /= task_noise_gain(&a->t);
    const int64_t *total = uploaders_total(a->all);
    for (size_t i = 0; i < a->t.values; i++) {
        double e = (task_value(&a->t, a->w[i]) - (double)total[i] * a->t.ahe.pack.q) / sigma;
        squares += e * e;
    }
    double ratio = squares / (double)a->t.values;
    if (ratio < 0.95 || ratio > 1.05)
        return sefl_fail(SEFL_ECRYPTO,
                         "the variance of the noise is %.3f times the variance claimed", ratio);
    return SEFL_OK;
}

static sefl_status make_release(void *ctx, const release_from *from, uint64_t round,
                                const int64_t *w, uint32_t clients, release_made *out)
{
    as_side *a = ctx;
    sefl_status st = release_make(a->models, from, round, w, clients, out);
    memcpy(a->w, w, a->t.values * sizeof *w);
    return st != SEFL_OK || !out->blocked ? st : sefl_fail(SEFL_ESTATE, "%s", out->why);
}

/* The clock stops. */
static void report_round(void *ctx, const rounds_report *r)
{
    as_side *a = ctx;
    parts *p = a->part;
    p->as = r->parts;
    p->total = 1e-9 * (double)(p->as.freeze + p->as.set + p->as.sum + p->as.charge + p->as.reveal +
                               p->as.store + p->as.release);
    p->steps = since(&a->clock, &a->began) - p->total;
    p->bytes = link_bytes(a) - a->bytes_before;
    p->link = *as_link_times(as_rounds_link(a->rounds));
    cpu_since(a, p->cpu_close, a->cpu_before);
    lanes_hold(a->lanes, false);
    a->failed = r->skipped ? sefl_fail(SEFL_ESTATE, "a round was skipped") : check(a, r->round);
}

static sefl_status forget(void *ctx, uint64_t round)
{
    as_side *a = ctx;
    if (round == a->rounds_n)
        lanes_bind(a->lanes, NULL); /* or they would reconnect when CSP disconnects */
    return a->failed;
}

static const as_model model = { .release = make_release };

static sefl_status as_run(as_side *a)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(as_lanes(a));
    a->uploads = as_uploads_memory_calls(
        (as_uploads){ .accept = accept_uploads, .freeze = freeze, .forget = forget });
    SEFL_TRY(as_rounds_new(&a->rounds, &(as_rounds_config){ .task = &a->t,
                                                            .envelope = buf_span(&a->envelope),
                                                            .key = a->key,
                                                            .coins = &a->coins,
                                                            .store = &a->table,
                                                            .account = a->account,
                                                            .ctx = a,
                                                            .channel = &over_tls,
                                                            .uploads = &a->uploads,
                                                            .model = &model,
                                                            .wait = wait_until,
                                                            .between = vouch,
                                                            .report = report_round,
                                                            .strict = true,
                                                            .shares = a->shares,
                                                            .pool = a->pool,
                                                            .wall = &a->wall,
                                                            .mono = &a->clock }));
    SEFL_TRY(as_rounds_run(a->rounds));
done:
    return st;
}

/* ---- report ---------------------------------------------------------------------------------- */

static void row(options *o, const char *name, double value, const char *unit)
{
    char label[96];
    bench_result r = { .name = label,
                       .value = value,
                       .unit = unit,
                       .rate = strchr(unit, '/') != NULL && strcmp(unit, "B/value") != 0,
                       .threads = o->b.threads };
    snprintf(label, sizeof label, "%s %s", o->scheme, name);
    for (unsigned i = 0; i < o->floors && !o->is_floor; i++)
        if (strcmp(o->floor[i].name, name) == 0)
            r.floor = o->floor[i].value;
    if (!o->is_floor) {
        bench_row(&o->b, &r);
    } else if (o->floors < ROWS_MAX) {
        snprintf(o->floor[o->floors].name, sizeof o->floor[0].name, "%s", name);
        o->floor[o->floors++].value = value;
    }
}

static int by_total(const void *a, const void *b)
{
    double x = ((const parts *)a)->total, y = ((const parts *)b)->total;
    return (x > y) - (x < y);
}

/* Returns the target in seconds from closing to release; 0: no target for this size. */
static double bar(const as_side *a)
{
    if (a->t.values >= 14000000 && a->clients <= CLIENTS)
        return 4;
    if (a->t.values == VALUES && a->clients <= 1000)
        return a->clients <= CLIENTS ? 0.3 : 1.2;
    return 0;
}

static void report(options *o, const as_side *a, parts *p, unsigned n, const csp_times *c)
{
    bench *b = &o->b;
    const parts last = p[n - 1];
    parts made = { 0 }; /* the latest round that generated shares, which serve several rounds */
    const as_times *l = &last.link;
    double ns = 1e-9, values = (double)a->t.values;
    for (unsigned i = 0; i < n; i++)
        made = p[i].made > 0 ? p[i] : made;
    qsort(p, n, sizeof *p, by_total);
    if (!o->is_floor)
        bench_note(
            b,
            "%u clients of %zu values, k = %u, %u round%s; parts are those of the last one; CSP's "
            "parts run beside AS's",
            a->clients, a->t.values, a->t.ahe.pack.k, n, n == 1 ? "" : "s");
    if (o->filter > 0 && !o->is_floor)
        bench_note(b, "filter %u; floor: the same rounds without a filter", o->filter);
    if (task_is_sealed(&a->t)) {
        if (a->clients >= MANY) /* with few clients the fixed cost dominates */
            row(o, "CSP's work a client, before the close", last.cpu_early[1] / a->clients * 1e3,
                "ms");
        row(o, "EARLY, all clients, before the close", last.early, "s");
    }
    row(o, "freeze", ns * (double)last.as.freeze, "s");
    if (task_is_sealed(&a->t))
        row(o, "set and verdict", ns * (double)last.as.set, "s");
    row(o, "charge", ns * (double)last.as.charge, "s");
    row(o, "ask CSP (its charge)", ns * (double)l->ask, "s");
    row(o, "mask stored", ns * (double)l->mask, "s");
    row(o, "masked sum", ns * (double)l->write, "s");
    row(o, "send", ns * (double)l->send, "s");
    row(o, "wait for CSP's digest", ns * (double)l->wait, "s");
    row(o, "digest stored", ns * (double)l->note, "s");
    row(o, "ACK, until the reply is here", ns * (double)l->ack, "s");
    row(o, "result", ns * (double)l->finish, "s");
    row(o, "integers stored", ns * (double)last.as.store, "s");
    row(o, "model update", ns * (double)last.as.release, "s");
    row(o, "the machine's steps stored, on top", last.steps, "s");
    row(o, "CSP: receive", ns * (double)c->receive, "s");
    row(o, "CSP: decrypt", ns * (double)c->decrypt, "s");
    row(o, "CSP: reply", ns * (double)c->compute, "s");
    row(o, "CSP: output stored", ns * (double)c->store, "s");
    if (made.made > 0) {
        row(o, "shares made, before the close", made.made / made.offline, "values/s");
        row(o, "bytes of shares", made.offline_bytes / made.made, "B/value");
    }
    row(o, "upload, all in", (double)task_body_bytes(&a->t) / values, "B/value");
    row(o, "bytes after the close", (double)last.bytes / values, "B/value");
    row(o, "processor AS, shares", made.cpu_offline[0], "s");
    row(o, "processor CSP, shares", made.cpu_offline[1], "s");
    row(o, "processor AS, close to release", last.cpu_close[0], "s");
    row(o, "processor CSP, close to release", last.cpu_close[1], "s");
    row(o, "close to release, best", p[0].total, "s");
    row(o, "close to release, median", p[n / 2].total, "s");
    if (task_is_sealed(&a->t) && bar(a) > 0 && !o->is_floor)
        bench_note(b, "bars, on two free cores: close to release under %.2f s; upload 3.55 B/value",
                   bar(a));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static sefl_status as_process(options *o, const char *top, const char *folder, pid_t child, int to,
                              int from)
{
    sefl_status st = SEFL_OK;
    as_side a = { .csp = child, .clients = o->clients, .lock = PTHREAD_MUTEX_INITIALIZER };
    csp_times times;
    uint16_t port = 0;
    unsigned n = rounds_of(o);
    a.rounds_n = n;
    snprintf(a.folder, sizeof a.folder, "%s", folder);
    SEFL_TRY(make_folder(o, top, folder));
    SEFL_TRY(file_write_all(to, span_of("g", 1)));
    SEFL_TRY(as_begin(&a, o->b.threads));
    SEFL_TRY(as_models(&a));
    SEFL_CHECK(read(from, &port, sizeof port) == sizeof port, SEFL_EIO, "no word from CSP");
    a.port = port;
    SEFL_TRY(as_run(&a));
    SEFL_CHECK(read(from, &times, sizeof times) == sizeof times, SEFL_EIO, "no times from CSP");
    report(o, &a, a.parts, n, &times);
done:
    as_end(&a);
    return st;
}

static sefl_status run_once(options *o)
{
    sefl_status st = SEFL_OK;
    const char *tmp = getenv("TMPDIR");
    char top[TOP_MAX], folder[TOP_MAX + 8];
    int to[2] = { -1, -1 }, from[2] = { -1, -1 }, status = 0;
    pid_t child = -1;
    bool made = false;
    if (!o->dir)
        o->dir = tmp && *tmp ? tmp : "/tmp";
    SEFL_NEED(strlen(o->dir) < TOP_MAX - 32, SEFL_EINVAL, "--dir: the path is too long");
    snprintf(top, sizeof top, "%s/sefl-round-XXXXXX", o->dir);
    SEFL_CHECK(mkdtemp(top), SEFL_EIO, "cannot make a folder in %s: %s", o->dir, strerror(errno));
    made = true;
    snprintf(folder, sizeof folder, "%s/fed", top);
    SEFL_CHECK(pipe(to) == 0 && pipe(from) == 0, SEFL_EIO, "pipe: %s", strerror(errno));
    fflush(NULL);
    child = fork(); /* before there are threads */
    SEFL_CHECK(child >= 0, SEFL_EIO, "fork: %s", strerror(errno));
    if (child == 0) {
        close(to[1]), close(from[0]);
        st = csp_process(folder, o->b.threads, to[0], from[1]);
        if (st != SEFL_OK)
            fprintf(stderr, "CSP: %s\n", sefl_last_error());
        _exit(st == SEFL_OK ? 0 : 1);
    }
    close(to[0]), close(from[1]), to[0] = from[1] = -1;
    st = as_process(o, top, folder, child, to[1], from[0]);
done:
    for (int i = 0; i < 2; i++) {
        if (to[i] >= 0)
            close(to[i]);
        if (from[i] >= 0)
            close(from[i]);
    }
    if (child > 0) {
        if (st != SEFL_OK)
            kill(child, SIGTERM);
        if ((waitpid(child, &status, 0) != child || status != 0) && st == SEFL_OK)
            st = sefl_fail(SEFL_EIO, "CSP did not end well");
    }
    if (made)
        dir_remove(top);
    return st;
}

static sefl_status round_run(void *ctx)
{
    options *o = ctx;
    o->is_floor = o->filter > 0;
    if (o->is_floor)
        SEFL_PASS(run_once(o));
    o->is_floor = false;
    return run_once(o);
}

#define TO(member) SETTING_TO(options, member)
static const setting_def table[] = {
    { "scheme", SETTING_WORD, "pad", TO(scheme), .words = AHE_SCHEMES,
      .help = "Encryption scheme" },
    { "clients", SETTING_U64, "8", TO(clients), .min = 2, .max = PROVISION_CLIENTS_MAX,
      .help = "Number of clients" },
    { "values", SETTING_U64, "945510", TO(values), .min = 1000, .max = 20000000,
      .help = "Minimum number of values in the LSTM" },
    { "bits", SETTING_U64, "3072", PAILLIER_SIZES, TO(bits), .arg = "N",
      .help = "Size of the Paillier key" },
    { "rounds", SETTING_U64, "0", TO(rounds), .min = 1, .max = ROUNDS_MAX,
      .help = "Number of rounds; if not given, 3 with pad and 1 with paillier" },
    { "filter", SETTING_U64, "0", TO(filter), .max = 4096,
      .help = "Correlated noise: each round takes back this many 4096ths of the last one's noise; "
              "the floor column shows the same rounds without it" },
    { "dir", SETTING_PATH, "", TO(dir), .arg = "DIR",
      .help = "Folder for journals and models; if not given, $TMPDIR or /tmp" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_round = {
    .name = "bench round",
    .summary = "a round from its close to the new model: two processes, TLS",
    .example = "sefl bench round --clients 8",
    BENCH_COMMAND(options, table, round_run),
};
