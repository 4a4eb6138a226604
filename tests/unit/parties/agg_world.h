/* agg_world: an aggregator without sockets: real journal, ledger, spool, running sum and models in
 * a scratch folder; CSP is csp_serve in a thread over a pair in memory, with its own ledger file;
 * clients are calls of ingest. After a restart it continues from the journal. */
#ifndef UNIT_ROLES_AGG_WORLD_H
#define UNIT_ROLES_AGG_WORLD_H

#include "protocol/task_make.h"
#include "unit/core/sum/link_pair.h"

#include "base/file.h"
#include "fed/step.h"
#include "model/model_open.h"
#include "protocol/update.h"
#include "roles/aggregator/rounds.h"
#include "roles/csp/lane_host.h"
#include "store/disk/account_disk.h"
#include "store/disk/as_disk.h"
#include "store/disk/upload_keys.h"
#include "sum/terms.h"
#include "support/folder.h"
#include "support/ledger_book.h"
#include "support/store_place.h"

#include <fcntl.h>
#include <unistd.h>

enum { A_CLIENTS = 4, A_REPORTS = 32, A_WORDS = 12, A_LANES = 2, A_SESSION = 512 };

/* A lane in memory. */
typedef struct aw_lane {
    struct agg_world *w;
    channel end[2];
    pthread_t thread;
    bool up;
} aw_lane;

typedef struct agg_world {
    /* what all parties have */
    task t;
    sefl_buf document, envelope;
    paillier_sec *sec;
    sign_key *as, *csp;
    ahe_enc *enc;
    sign_key *upload_key[A_CLIENTS];
    const uint8_t *id[A_CLIENTS]; /* of the clients; NULL: aw_client's own */
    sefl_rng share_rng;
    shares_pool *shares[2]; /* AS's, CSP's: joint noise, filled by lanes */
    sefl_coins lane_coins;
    lanes *lanes;
    lane_host *host;
    aw_lane lane[A_LANES];
    _Atomic unsigned checks; /* failed ones, as CSP counts them */
    _Atomic unsigned lane_dials;
    bool no_lanes;    /* CSP accepts none */
    bool no_vouchers; /* clients send them; else both servers have them */
    ledger_terms terms;
    char dir[200];
    char models[300], init[300], words[300], valid[300];

    /* CSP */
    csp_memory mc;
    ledger_book csp_book;
    csp *server;
    csp_store csp_store;
    audit_log *audit; /* AS's; NULL: none */
    named_coins csp_coins;
    sefl_coins csp_coins_table;
    uint64_t cut[2];          /* cuts of the next connection: wire of link_pair.h */
    bool unreachable;         /* CSP does not answer */
    _Atomic unsigned put_out; /* bit k: client k is no longer a member of CSP's list */
    _Atomic bool no_vouch;    /* CSP accepts no voucher */
    _Atomic unsigned asked;   /* how often CSP has looked up a head's client */
    unsigned dials;
    void (*before_dial)(struct agg_world *w);
    pthread_t csp_thread;
    bool connected;
    world watch; /* only for wire's type */
    wire wire[2];
    channel ch[2];

    /* AS */
    as_disk disk;
    as_store store;
    void (*watch_journal)(struct agg_world *w); /* may be replaced by a wrapper */
    named_coins coins;
    sefl_coins coins_table;
    journal *j;
    bool shared;       /* the journal is in a database, and the process elects itself (share.h) */
    journal *own;      /* shared: the connection for uploads */
    uint64_t lease_ms; /* shared */
    account *account;
    releases *rel;
    rounds *r;
    ingest *in;
    pool *pool;
    sefl_clock wall, mono;
    pthread_t thread;
    bool driving; /* the thread runs */
    sefl_status st;
    _Atomic bool ended;
    char why[300];
    rounds_report report[A_REPORTS];
    unsigned reports;
    unsigned hostile;  /* bit k: client k uploads values that spoil the sum */
    bool garbage;      /* by random units; else by the largest value in every slot */
    sefl_log log;      /* to the file `log` */
    agg_phase stop_in; /* rounds_stop when this phase is reached; AGG_PHASES: never */
    uint64_t stop_round;
    void (*also_changed)(void *ctx); /* instead of aw_changed */
    uint64_t keep, every;            /* models; 0, 0: all */
} agg_world;

/* Accelerated time: waits of the machine are short, computations take "long". */
static inline uint64_t aw_fast_ns(void *self)
{
    sefl_clock real = clock_wall();
    (void)self;
    return clock_ns(&real) / 1000 * 1000 * 40 % (UINT64_C(1) << 62);
}

static inline const char *aw_path(agg_world *w, char out[300], const char *name)
{
    snprintf(out, 300, "%s/%s", w->dir, name);
    return out;
}

/* ---- task ---------------------------------------------------------------------------------- */

static inline void hex_into(char *out, const uint8_t h[32])
{
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", h[i]);
}

/* Assignments end with NULL. */
static inline void aw_task(agg_world *w, const char *const *more)
{
    char path[300], assign[128], hex[65];
    uint8_t hash[32];
    settings s;
    vocab *v;
    lm *m;
    pinned servers;
    ahe_pub *pub;
    static const char *const base[] = {
        "name=tiny",
        "population=testers",
        "model.vocab=12",
        "model.embed=2",
        "model.hidden=2",
        "model.layers=1",
        "model.block=2",
        "rounds.enrolled=4",
        "rounds.threshold=2",
        "rounds.count=2",
        "rounds.deadline_ms=600000",
        "rounds.extend_ms=100",
        "rounds.extensions=1",
        "privacy.claim=none",
        "privacy.epsilon=0",
        "privacy.delta=0",
        "privacy.noise=none",
        "privacy.z=0",
        "server.lr=0.5",
        "privacy.clip=1",
    };
    settings_init(&s, task_schema);
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        CHECK_OK(settings_set(&s, base[i], "base"));
    for (; more && *more; more++)
        CHECK_OK(settings_set(&s, *more, "test"));
    if (strcmp(settings_text(&s, "crypto.scheme"), "pad") == 0)
        CHECK_OK(settings_set(&s, "crypto.seal=x25519", "test"));

    const char words[] = "<unk>\n<eos>\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
    CHECK_OK(file_write_atomic(aw_path(w, path, "vocab.txt"), span_of_str(words), 0644));
    CHECK_OK(vocab_read(&v, path, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    assert_int_equal(vocab_size(v), A_WORDS);
    vocab_hash(v, hash);
    hex_into(hex, hash);
    snprintf(assign, sizeof assign, "vocab.sha256=%s", hex);
    CHECK_OK(settings_set(&s, assign, "test"));

    if (settings_given(&s, "rounds.patience")) { /* then the task names a validation text */
        static const char line[] = "a b c d e f g h i j\na b c d e f g h i j\n";
        CHECK_OK(file_write_atomic(aw_path(w, path, "valid.txt"), span_of_str(line), 0644));
        CHECK_OK(file_sha256(hash, NULL, path));
        hex_into(hex, hash);
        snprintf(assign, sizeof assign, "valid.sha256=%s", hex);
        CHECK_OK(settings_set(&s, assign, "test"));
    }

    lm_config cfg = { .vocab = A_WORDS, .embed = 2, .hidden = 2, .layers = 1, .block = 2 };
    CHECK_OK(lm_new(&m, &cfg, NULL));
    lm_init(m, 5);
    model_meta meta = { .cfg = *lm_get_config(m) };
    model_meta_set_vocab(&meta, v);
    CHECK_OK(model_write(aw_path(w, path, "init.safetensors"), &meta, lm_theta(m)));
    CHECK_OK(file_sha256(hash, NULL, path));
    hex_into(hex, hash);
    snprintf(assign, sizeof assign, "init.sha256=%s", hex);
    CHECK_OK(settings_set(&s, assign, "test"));
    lm_free(m);
    vocab_free(v);

    memcpy(servers.as, sign_key_pub(w->as), SIGN_PUB_BYTES);
    memcpy(servers.csp, sign_key_pub(w->csp), SIGN_PUB_BYTES);
    CHECK_OK(paillier_pub_copy(&pub, w->sec));
    CHECK_OK(task_make(&w->document, &s, pub, &servers));
    CHECK_OK(task_read(&w->t, buf_span(&w->document)));
    paillier_pub_free(pub);
    settings_clear(&s);
    assert_true(w->t.values <= W_VALUES);

    envelope env = { .kind = SIGN_TASK, .content = buf_span(&w->document) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, w->as));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, w->csp));
    CHECK_OK(envelope_write(&w->envelope, &env));

    w->terms = terms_of_task(&w->t);
}

/* ---- CSP ----------------------------------------------------------------------------------- */

static const uint8_t aw_root[CSP_KEY_BYTES] = "a root of keys, for tests only";

static inline void aw_client(const agg_world *w, uint8_t out[32], unsigned k)
{
    memset(out, 0, 32);
    out[0] = (uint8_t)(200 - k);
    out[1] = (uint8_t)k;
    if (w->id[k])
        memcpy(out, w->id[k], 32);
}

static inline bool aw_csp_member(void *ctx, const uint8_t client[32])
{
    agg_world *w = (agg_world *)ctx;
    uint8_t id[32];
    w->asked++;
    for (unsigned k = 0; k < A_CLIENTS; k++) {
        aw_client(w, id, k);
        if (memcmp(id, client, 32) == 0)
            return !(w->put_out >> k & 1);
    }
    return false;
}

static inline sefl_status aw_csp_vouch(void *ctx, const voucher *v)
{
    const agg_world *w = (const agg_world *)ctx;
    return !w->no_vouch && aw_csp_member(ctx, v->client)
               ? SEFL_OK
               : sefl_fail(SEFL_EAUTH, "not a client of ours");
}

/* Both servers have accepted this client's voucher. */
static inline void aw_vouched(agg_world *w, unsigned k)
{
    uint8_t client[32];
    aw_client(w, client, k);
    CHECK_OK(upload_key_put(w->j, client, 1, sign_key_pub(w->upload_key[k])));
    CHECK_OK(w->csp_store.voucher_put(w->csp_store.ctx, client, 1, sign_key_pub(w->upload_key[k])));
}

static inline void *aw_serve(void *arg)
{
    agg_world *w = (agg_world *)arg;
    (void)!csp_serve(w->server, &w->ch[1]);
    if (w->host)
        lane_host_unbind(w->host);
    channel_pair_close(&w->wire[1].inner);
    return NULL;
}

static inline sefl_status aw_wire_send(void *self, const void *p, size_t n)
{
    wire *x = (wire *)self;
    x->n += n; /* counts sends, which is enough to cut at many points */
    if (++x->count == x->cut) {
        x->was_cut = true;
        return sefl_fail(SEFL_ECLOSED, "test: cut");
    }
    return channel_send(&x->inner, p, n);
}

static const channel_ops aw_wire_ops = { aw_wire_send, wire_recv, wire_flush };

static inline sefl_status aw_dial(void *ctx, unsigned lane, channel **out)
{
    (void)lane;
    agg_world *w = (agg_world *)ctx;
    w->dials++;
    if (w->before_dial)
        w->before_dial(w);
    if (w->unreachable)
        return sefl_fail(SEFL_ECLOSED, "test: nobody answers");
    CHECK_OK(channel_pair_new(&w->wire[0].inner, &w->wire[1].inner, 30000));
    for (int i = 0; i < 2; i++) {
        w->wire[i].cut = w->cut[i], w->wire[i].count = 0;
        w->cut[i] = 0;
        w->ch[i] = (channel){ .ops = &aw_wire_ops, .self = &w->wire[i] };
    }
    assert_int_equal(pthread_create(&w->csp_thread, NULL, aw_serve, w), 0);
    w->connected = true;
    *out = &w->ch[0];
    return SEFL_OK;
}

static inline void aw_hang_up(void *ctx, unsigned lane)
{
    (void)lane;
    agg_world *w = (agg_world *)ctx;
    if (!w->connected)
        return;
    channel_pair_close(&w->wire[0].inner);
    pthread_join(w->csp_thread, NULL);
    w->connected = false;
}

/* ---- lanes --------------------------------------------------------------------------------- */

static inline void aw_paired(void *ctx, const uint8_t pair[LINK_PAIR])
{
    lane_host_bind(((agg_world *)ctx)->host, pair);
}

static inline unsigned aw_checks(void *ctx)
{
    return ((agg_world *)ctx)->checks;
}

static inline void *aw_lane_serve(void *arg)
{
    aw_lane *x = (aw_lane *)arg;
    (void)!lane_host_serve(x->w->host, &x->end[1]);
    channel_pair_close(&x->end[1]);
    return NULL;
}

static inline sefl_status aw_lane_dial(void *ctx, unsigned lane, channel **out)
{
    aw_lane *x = &((agg_world *)ctx)->lane[lane];
    x->w = (agg_world *)ctx;
    x->w->lane_dials++;
    if (x->w->no_lanes)
        return sefl_fail(SEFL_ECLOSED, "test: no lanes");
    CHECK_OK(channel_pair_new(&x->end[0], &x->end[1], 30000));
    assert_int_equal(pthread_create(&x->thread, NULL, aw_lane_serve, x), 0);
    x->up = true;
    *out = &x->end[0];
    return SEFL_OK;
}

static inline void aw_lane_hang_up(void *ctx, unsigned lane)
{
    aw_lane *x = &((agg_world *)ctx)->lane[lane];
    if (!x->up)
        return;
    channel_pair_close(&x->end[0]);
    pthread_join(x->thread, NULL);
    x->up = false;
}

/* ---- AS ------------------------------------------------------------------------------------ */

static inline void aw_report(void *ctx, const rounds_report *p)
{
    agg_world *w = (agg_world *)ctx;
    assert_true(w->reports < A_REPORTS);
    w->report[w->reports++] = *p;
}

static inline void aw_changed(void *ctx)
{
    agg_world *w = (agg_world *)ctx;
    uint64_t round;
    if (!w->r) /* the thread starts before rounds_new's caller has it */
        return;
    if (rounds_phase(w->r, &round, NULL) >= w->stop_in && round >= w->stop_round)
        rounds_stop(w->r);
}

static inline void aw_change(void *ctx)
{
    agg_world *w = (agg_world *)ctx;
    (w->also_changed ? w->also_changed : aw_changed)(ctx);
}

static inline void *aw_drive(void *arg)
{
    agg_world *w = (agg_world *)arg;
    sefl_status st = rounds_run(w->r);
    snprintf(w->why, sizeof w->why, "%s", st == SEFL_OK ? "" : sefl_last_error());
    if (st != SEFL_OK && st != SEFL_ECANCELLED)
        printf("the driver ended: %s\n", w->why);
    w->st = st;
    w->ended = true;
    return NULL;
}

static inline sefl_status aw_try_open(agg_world *w)
{
    sefl_status st = SEFL_OK;
    char path[300];
    w->ended = false;
    SEFL_TRY((w->shared ? store_open : journal_open)(&w->j, aw_path(w, path, "state"), "aggregator",
                                                     w->t.id));
    if (w->shared)
        SEFL_TRY(store_open(&w->own, path, "aggregator", w->t.id));
    SEFL_TRY((w->shared ? account_disk_open_in_turn
                        : account_disk_open)(&w->account, w->j, aw_path(w, path, "ledger"), &w->t));
    w->disk = (as_disk){ .j = w->j, .coins = &w->coins_table };
    w->store = as_disk_store(&w->disk);
    if (w->watch_journal)
        w->watch_journal(w);
    if (w->t.noise == TASK_NOISE_JOINT)
        SEFL_TRY(lanes_new(
            &w->lanes,
            &(lanes_config){ .task = &w->t,
                             .pool = w->shares[0],
                             .count = A_LANES,
                             .dial = { .ctx = w, .dial = aw_lane_dial, .hang_up = aw_lane_hang_up },
                             .key = w->as,
                             .journal = w->j,
                             .coins = &w->lane_coins,
                             .log = &w->log,
                             .mono = &w->mono,
                             .wall = &w->wall,
                             .retry_ms = 5,
                             .session = A_SESSION }));
    SEFL_TRY(releases_new(
        &w->rel, &(releases_config){ .task = &w->t,
                                     .files.models = aw_path(w, w->models, "models"),
                                     .files.init = aw_path(w, w->init, "init.safetensors"),
                                     .files.vocab = aw_path(w, w->words, "vocab.txt"),
                                     .files.valid =
                                         w->t.has_valid ? aw_path(w, w->valid, "valid.txt") : NULL,
                                     .files.keep = w->keep,
                                     .files.every = w->every,
                                     .pool = w->pool }));
    SEFL_TRY(rounds_new(
        &w->r, &(rounds_config){ .as = { .task = &w->t,
                                         .envelope = buf_span(&w->envelope),
                                         .key = w->as,
                                         .store = &w->store,
                                         .account = w->account,
                                         .coins = &w->coins_table,
                                         .pool = w->pool,
                                         .shares = w->shares[0],
                                         .ping_ms = 4,
                                         .wall = &w->wall,
                                         .mono = &w->mono,
                                         .log = &w->log },
                                 .journal = w->j,
                                 .audit = w->audit,
                                 .own = w->own,
                                 .lease_ms = w->lease_ms,
                                 .releases = w->rel,
                                 .dial = { .ctx = w, .dial = aw_dial, .hang_up = aw_hang_up },
                                 .threads = 1,
                                 .lanes = w->lanes,
                                 .ctx = w,
                                 .changed = aw_change,
                                 .answered = aw_change,
                                 .report = aw_report }));
    for (unsigned k = 0; task_is_sealed(&w->t) && !w->no_vouchers && k < A_CLIENTS; k++)
        aw_vouched(w, k);
    SEFL_TRY(ingest_new(&w->in, &(ingest_config){ .task = w->t.id,
                                                  .seal = w->t.seal,
                                                  .ahe = &w->t.ahe,
                                                  .pub = w->t.pub,
                                                  .journal = w->own ? w->own : w->j,
                                                  .bodies = rounds_bodies(w->r),
                                                  .key = w->as,
                                                  .admission = rounds_admission(w->r),
                                                  .wall = &w->wall }));
    rounds_set_ingest(w->r, w->in);
done:
    return st;
}

/* The driver, on its own thread. */
static inline void aw_drive_start(agg_world *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, aw_drive, w), 0);
    w->driving = true;
}

static inline void aw_drive_join(agg_world *w)
{
    pthread_join(w->thread, NULL);
    w->driving = false;
}

/* A failed test leaves its driver running, which must not use memory that is freed here. */
static inline void aw_close(agg_world *w)
{
    if (w->driving) {
        rounds_stop(w->r);
        aw_drive_join(w);
    }
    if (w->r)
        rounds_set_ingest(w->r, NULL);
    ingest_free(w->in);
    rounds_free(w->r);
    lanes_free(w->lanes);
    w->lanes = NULL;
    releases_free(w->rel);
    account_close(w->account);
    journal_close(w->j);
    journal_close(w->own);
    w->own = NULL;
    w->in = NULL, w->r = NULL, w->rel = NULL, w->account = NULL, w->j = NULL;
}

static inline void aw_start(agg_world *w)
{
    CHECK_OK(aw_try_open(w));
    aw_drive_start(w);
}

/* Waits until the driver has ended; its status. The world is closed then. */
static inline sefl_status aw_join(agg_world *w)
{
    aw_drive_join(w);
    aw_close(w);
    return w->st;
}

static inline void aw_make(agg_world *w, const char *const *more)
{
    char path[300];
    seeded gen;
    memset(w, 0, sizeof *w);
    w->stop_in = AGG_PHASES;
    snprintf(w->dir, sizeof w->dir, "%s", folder_path("world-XXXXXX"));
    assert_non_null(mkdtemp(w->dir));
    w->wall = (sefl_clock){ .now_ns = aw_fast_ns }, w->mono = clock_monotonic();
    w->log = (sefl_log){ .fd = open(aw_path(w, path, "log"), O_WRONLY | O_CREAT | O_APPEND, 0600),
                         .json = true };
    assert_true(w->log.fd >= 0);
    seeded_init(&gen, 3, "signing keys");
    sefl_rng rng = seeded_rng(&gen);
    w->sec = world_key();
    CHECK_OK(sign_key_new(&w->as, &rng));
    CHECK_OK(sign_key_new(&w->csp, &rng));
    aw_task(w, more);
    CHECK_OK(ahe_enc_new(&w->enc, w->t.pub, &w->t.ahe, NULL, NULL));
    for (unsigned k = 0; k < A_CLIENTS; k++)
        CHECK_OK(sign_key_new(&w->upload_key[k], &rng));
    CHECK_OK(pool_new(&w->pool, 1));
    w->share_rng = rng_system();
    for (int i = 0; i < 2; i++)
        CHECK_OK(shares_pool_new(&w->shares[i], 0, &w->share_rng));
    w->lane_coins = coins_system();
    CHECK_OK(lane_host_new(&w->host, &(lane_host_config){ .task = &w->t,
                                                          .pool = w->shares[1],
                                                          .key = w->csp,
                                                          .coins = &w->lane_coins,
                                                          .log = &w->log,
                                                          .session = A_SESSION }));
    CHECK_OK(ledger_create(aw_path(w, path, "ledger"), "testers"));
    CHECK_OK(ledger_create(aw_path(w, path, "csp.ledger"), "testers"));
    CHECK_OK(ledger_open(&w->csp_book.ledger, path, "testers", NULL));
    w->csp_coins = (named_coins){ .who = "CSP", .seed = 1 };
    w->csp_coins_table = (sefl_coins){ .get = named_get, .self = &w->csp_coins };
    w->coins = (named_coins){ .who = "AS", .seed = 1 };
    w->coins_table = (sefl_coins){ .get = named_get, .self = &w->coins };
    w->csp_book.terms = w->terms;
    w->mc.ledger = ledger_port_of(&w->csp_book);
    w->csp_store = csp_memory_store(&w->mc);
    CHECK_OK(csp_new(&w->server, &(csp_config){ .task = &w->t,
                                                .envelope = buf_span(&w->envelope),
                                                .sec = task_is_sealed(&w->t) ? NULL : w->sec,
                                                .shares = w->shares[1],
                                                .paired = aw_paired,
                                                .checks = aw_checks,
                                                .lanes_ctx = w,
                                                .root = task_is_sealed(&w->t) ? aw_root : NULL,
                                                .vouch = aw_csp_vouch,
                                                .member = aw_csp_member,
                                                .enrol_ctx = w,
                                                .key = w->csp,
                                                .store = &w->csp_store,
                                                .coins = &w->csp_coins_table }));
}

static inline void aw_free(agg_world *w)
{
    aw_close(w);
    csp_free(w->server);
    lane_host_free(w->host);
    ledger_close(w->csp_book.ledger);
    csp_memory_clear(&w->mc);
    named_clear(&w->coins);
    named_clear(&w->csp_coins);
    ahe_enc_free(&w->t.ahe, w->enc);
    task_clear(&w->t);
    pool_free(w->pool);
    shares_pool_free(w->shares[0]);
    shares_pool_free(w->shares[1]);
    sign_key_free(w->as);
    sign_key_free(w->csp);
    for (unsigned k = 0; k < A_CLIENTS; k++)
        sign_key_free(w->upload_key[k]);
    buf_clear(&w->document);
    buf_clear(&w->envelope);
    close(w->log.fd);
}

/* ---- clients ------------------------------------------------------------------------------- */

static inline int64_t aw_value(unsigned k, uint64_t round, size_t i)
{
    return (int64_t)((i * 5 + k * 17 + round * 29) % 41) - 20;
}

/* CSP's key for this round; any key if the round has no header yet. */
static inline round_header aw_header(agg_world *w, uint64_t round)
{
    round_header h = csp_seen_at(&w->mc, round).r.header;
    if (h.round == round || !task_is_sealed(&w->t)) {
        h.round = round;
        return h;
    }
    uint8_t seed[SEAL_SEED] = { 7 };
    seal_key *key;
    h = (round_header){ .round = round, .suite = w->t.seal->id, .key_bytes = w->t.seal->pub_bytes };
    CHECK_OK(seal_key_from(&key, w->t.seal, seed));
    memcpy(h.key, seal_key_pub(key).p, h.key_bytes);
    seal_key_free(key);
    return h;
}

/* The body of client k in a round: always the same bytes. */
static inline uint8_t *aw_body(agg_world *w, unsigned k, uint64_t round, uint8_t hash[32])
{
    task own = w->t;
    const ahe_params *p = &own.ahe;
    bool hostile = w->hostile >> k & 1;
    size_t front = update_front_bytes(own.seal), units = ahe_body_bytes(p);
    uint8_t *body, client[32];
    int64_t *x;
    char name[64];
    seeded gen;
    round_header h = aw_header(w, round);
    aw_client(w, client, k);
    snprintf(name, sizeof name, "client %u round %llu", k, (unsigned long long)round);
    seeded_init(&gen, 1, name);
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(sefl_new(&body, 1, task_body_bytes(&own)));
    CHECK_OK(sefl_new(&x, p->units * p->unit_values, sizeof *x));
    for (size_t i = 0; i < p->values; i++)
        x[i] = aw_value(k, round, i);
    if (hostile) { /* its program does not clip */
        own.ahe.pack.value_max = ((int64_t)1 << (p->pack.w - 1)) - 1;
        for (size_t i = 0; i < p->values; i++)
            x[i] = p->pack.value_max;
    }
    CHECK_OK(update_make(body, hash,
                         &(update_facts){ .task = &own,
                                          .header = &h,
                                          .enc = w->enc,
                                          .client = client,
                                          .upload_key = w->upload_key[k] },
                         x, NULL, NULL, &rng));
    sefl_free(x);
    if (hostile && w->garbage) {
        uint8_t seed[HEAD_SEED] = { 9 };
        for (size_t i = 0; i < units; i++)
            if (i % p->unit_bytes != p->unit_bytes - 1 || own.seal)
                seeded_fill(&gen, body + front + i, 1); /* below N^2 where units are Paillier's */
        update_name_of(hash, span_of(body + front - UPDATE_SALT, UPDATE_SALT + units));
        head_facts f = {
            .suite = own.seal, .task = own.id, .round = round, .client = client, .units = hash
        };
        if (own.seal)
            CHECK_OK(
                head_make(body, &f, span_of(h.key, h.key_bytes), seed, w->upload_key[k], &rng));
    }
    return body;
}

/* The status of the answer; `bytes`: the client disconnects after so many. */
static inline unsigned aw_upload(agg_world *w, unsigned k, uint64_t round, size_t bytes)
{
    uint8_t client[32], hash[32];
    ingest_reply r;
    upload *u;
    uint64_t total = task_body_bytes(&w->t);
    uint8_t *body = aw_body(w, k, round, hash);
    aw_client(w, client, k);
    ingest_ask a = { .round = round, .client = client, .name = "c", .total = total };
    memcpy(a.body, hash, 32);
    ingest_offset(w->in, &a, &r);
    a.offset = r.status == 200 && r.offset < total ? r.offset : 0;
    a.length = total - a.offset;
    ingest_begin(w->in, &u, &a, &r);
    if (u) {
        uint64_t end = bytes < total ? bytes : total;
        sefl_status st = SEFL_OK;
        if (end > a.offset)
            st = upload_bytes(u, span_of(body + a.offset, end - a.offset));
        if (st != SEFL_OK || end == total)
            upload_end(u, &r);
        upload_free(u);
    }
    buf_clear(&r.receipt);
    sefl_free(body);
    return r.status;
}

/* Waits until this round is open; false if it is over, the task is over, or the driver ended. */
static inline bool aw_wait(agg_world *w, uint64_t round, agg_phase phase)
{
    for (unsigned i = 0; i < test_ms(20000); i++) {
        uint64_t now;
        agg_phase p = rounds_phase(w->r, &now, NULL);
        if (now == round && p == phase)
            return true;
        if (now > round || p == AGG_DONE)
            return false;
        if (w->ended)
            fail_msg("the driver ended: %s", w->why);
        usleep(1000);
    }
    fail_msg("round %llu never got to phase %d", (unsigned long long)round, (int)phase);
    return false;
}

/* ---- expected results ------------------------------------------------------------------------ */

/* The model after these rounds without encryption: sets[i] has bit k where client k is in round
 * i + 1; 0: skipped. Only without noise. */
static inline void aw_check_model(agg_world *w, const unsigned *sets, unsigned n)
{
    char path[300], name[64];
    model_meta meta;
    nn_real *theta, *got;
    size_t count;
    unsigned last = 0;
    step_state s;
    double *average;
    int64_t *sum;
    CHECK_OK(model_read(&meta, &theta, &count, aw_path(w, path, "init.safetensors")));
    CHECK_OK(step_new(&s, &w->t));
    CHECK_OK(sefl_new(&sum, w->t.values, sizeof *sum));
    CHECK_OK(sefl_new(&average, w->t.params, sizeof *average));
    for (unsigned r = 1; r <= n; r++) {
        unsigned clients = 0;
        if (!sets[r - 1])
            continue;
        memset(sum, 0, w->t.values * sizeof *sum);
        for (unsigned k = 0; k < A_CLIENTS; k++)
            if (sets[r - 1] >> k & 1) {
                clients++;
                for (size_t i = 0; i < w->t.values; i++)
                    sum[i] += aw_value(k, r, i);
            }
        CHECK_OK(step_average(average, &w->t, 0, sum, clients, NULL));
        CHECK_OK(step_apply(&s, &w->t, theta, average, NULL));
        last = r;
    }
    snprintf(name, sizeof name, last ? "models/round-%u.safetensors" : "init.safetensors", last);
    CHECK_OK(model_read(&meta, &got, &count, aw_path(w, path, name)));
    assert_memory_equal(got, theta, count * sizeof *got);
    sefl_free(theta);
    sefl_free(got);
    sefl_free(sum);
    sefl_free(average);
    step_clear(&s);
}

static inline void aw_upload_all(agg_world *w, uint64_t round, unsigned set)
{
    for (unsigned k = 0; k < A_CLIENTS; k++)
        if (set >> k & 1)
            assert_int_equal(aw_upload(w, k, round, SIZE_MAX), 200);
}

/* Both ledgers are equal, with this number of charges. */
static inline void aw_check_ledgers(agg_world *w, uint64_t charged)
{
    char path[300];
    ledger *a;
    ledger_head x, y;
    uint64_t n = 0;
    CHECK_OK(ledger_open_read(&a, aw_path(w, path, "ledger")));
    ledger_get_head(a, &x);
    ledger_get_head(w->csp_book.ledger, &y);
    assert_int_equal(x.records, y.records);
    assert_memory_equal(x.hash, y.hash, 32);
    if (charged > 0)
        assert_non_null(ledger_task(a, 0, &n));
    assert_int_equal(n, charged);
    ledger_close(a);
}

/* Number of log lines that have both. */
static inline unsigned aw_logged(agg_world *w, const char *one, const char *other)
{
    char path[300];
    sefl_buf b = { 0 };
    unsigned n = 0;
    CHECK_OK(file_read(&b, aw_path(w, path, "log"), 1 << 24));
    CHECK_OK(wr_u8(&b, 0));
    for (char *rest = (char *)b.p, *line; (line = strsep(&rest, "\n")) != NULL;)
        n += strstr(line, one) && strstr(line, other);
    buf_clear(&b);
    return n;
}

#endif
