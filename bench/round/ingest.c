/* Ingest: the aggregation server's cost of receiving updates, in processor time of its process.
 *
 * There are three processes. This one generates the key and prints; a generator makes update bodies
 * and sends them over mutual TLS on `connections` parallel connections; a server receives them.
 * There are two servers:
 *   ingest   roles/aggregator unchanged: bodies are checked, hashed, spooled, synced, acknowledged
 *            with a signed receipt in the journal, and added to the running sum
 *   floor    the same HTTPS server, which only hashes the bytes (pad only), writes them to a file
 *            and syncs it
 * With --store there are several processes of the first kind, which share one round in PostgreSQL
 * (roles/aggregator/share.h), and no floor.
 * They take turns, with a part of the updates each, so that other load on the machine affects both.
 * A server's processor time (user and system, all threads) counts from the first byte to the last
 * body in the sum; the generator's does not. For paillier the floor is one multiplication modulo
 * N^2 per ciphertext (mont_mul in a tight loop on every core at once); for pad it is the floor
 * server.
 *
 * Bodies are real encryptions: one is encrypted, and the others are its units in another order,
 * which are valid updates with different bytes; those of pad have a separate sealed and signed
 * head. A client may send one update per round, so here (and only here) the server trusts a header
 * that names the client. It has all clients' vouchers from the start. */
#define _GNU_SOURCE
#include "bench/round/ingest_plan.h"

#include "base/alloc.h"
#include "base/blake3.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/hex.h"
#include "crypto/ahe/paillier_internal.h"
#include "crypto/seal/seal.h"
#include "net/https_client.h"
#include "net/https_server.h"
#include "protocol/http.h"
#include "protocol/update.h"
#include "protocol/version.h"
#include "roles/aggregator/as_http.h"
#include "roles/aggregator/collect.h"
#include "store/disk/upload_keys.h"
#include "store/journal/journal.h"
#include "store/journal/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double peak_mb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

/* The kinds of processes; FIRST is a server that prepares the journal. */
enum { GENERATOR, FLOOR, FIRST, OTHER };

/* ---- the server ------------------------------------------------------------------------------ */

typedef struct taker {
    const plan *pl;
    pthread_mutex_t lock;
    journal *journal;
    sign_key *key;
    body_pool *body_pool;
    collect *collect;
    ingest *ingest;
    agg_http http;
    task task; /* empty: uploads do not look at it */
    sefl_clock mono, wall;
    _Atomic uint64_t bodies;
    uint64_t me; /* --store: this process's number */
    char folder[32];
} taker;

static agg_verdict admit(void *ctx, const agg_upload *u)
{
    const taker *t = ctx;
    return u->have                    ? AGG_HAVE
           : u->round != ROUND        ? AGG_LATE
           : u->bytes != t->pl->bytes ? AGG_SIZE
                                      : AGG_ADMIT;
}

static bool has_body(void *ctx, const round_entry *m)
{
    return collect_has_body(((taker *)ctx)->collect, m);
}

static void took(void *ctx, uint64_t round, const round_entry *m, body_room *body)
{
    taker *t = ctx;
    if (collect_add(t->collect, round, m, false, body) != SEFL_OK)
        fprintf(stderr, "sefl bench ingest: %s\n", sefl_last_error());
    t->bodies++;
}

static sefl_status path_of(void *ctx, sefl_buf *out, uint64_t round, const round_entry *m)
{
    const taker *t = ctx;
    return ingest_body_in(t->journal, out, round, *t->folder ? t->folder : INGEST_BODIES, m);
}

/* --store: as roles/aggregator/share.c. */
static sefl_status know(void *ctx, const round_entry *m, agg_upload *u, journal_update *had,
                        bool *copied)
{
    shared_known k;
    SEFL_PASS(shared_know(((const taker *)ctx)->journal, u->round, m->client, m->body, &k));
    u->have = k.have;
    *copied = k.copied;
    *had = (journal_update){ .round = u->round, .bytes = k.bytes };
    return SEFL_OK;
}

static sefl_status put_row(void *ctx, const journal_update *u)
{
    const taker *t = ctx;
    return shared_put(
        t->journal,
        &(shared_rule){ .collecting = AGG_COLLECTING, .most = UINT32_MAX, .ahead = 256 }, t->me, u);
}

/* Every update is from another client. */
static void begin_ingest(https_request *r)
{
    const char *number = https_header(r, NUMBER);
    ingest_client(r->peer.fingerprint, number ? strtoul(number, NULL, 10) : 0);
    agg_http_begin(r);
}

/* All clients have vouchers: the facts that store/disk/upload_keys.h describes, in one
 * transaction. */
static sefl_status know_vouchers(const plan *pl, journal *j)
{
    sefl_status st = SEFL_OK;
    uint8_t client[32], fact[8 + SIGN_PUB_BYTES + 4];
    char hex[65], name[80];
    sign_key *key = NULL;
    SEFL_PASS(journal_begin(j));
    for (unsigned long i = 0; i < pl->o.updates; i++) {
        ingest_client(client, i);
        SEFL_TRY(ingest_upload_key(&key, i));
        store_u64(fact, 1);
        memcpy(fact + 8, sign_key_pub(key), SIGN_PUB_BYTES);
        store_u32(fact + 8 + SIGN_PUB_BYTES, 1);
        snprintf(name, sizeof name, "voucher %s", hex_write(hex, client, 32));
        SEFL_TRY(journal_lasting_put(j, name, span_of(fact, sizeof fact)));
        sign_key_free(key), key = NULL;
    }
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    sign_key_free(key);
    return st;
}

/* Opens the journal: one of its own, or with --store that of all processes. */
static sefl_status open_journal(taker *t, bool first)
{
    static const uint8_t root[32] = "no secret is stored here";
    const plan *pl = t->pl;
    char path[160];
    ingest_in(pl, path, "state");
    if (!pl->o.store)
        return journal_open(&t->journal, path, "aggregator", ingest_task);
    SEFL_PASS(journal_open_at(
        &t->journal, &(journal_place){ .folder = path, .store = pl->o.store, .root = root },
        "aggregator", ingest_task));
    SEFL_PASS(shared_open(t->journal, &t->me));
    snprintf(t->folder, sizeof t->folder, INGEST_BODIES "-%" PRIu64, t->me);
    if (!first)
        return SEFL_OK;
    uint32_t old;
    SEFL_PASS(shared_count(t->journal, ROUND, &old));
    SEFL_NEED(old == 0, SEFL_ESTATE, "%s has been used: this benchmark needs an empty database",
              pl->o.store);
    return journal_round_put(t->journal,
                             &(journal_round){ .round = ROUND, .state = AGG_COLLECTING });
}

typedef struct floor_state {
    int fd;
    bool hashed;
    blake3 h;
    char path[200];
} floor_state;

static sefl_status floor_bytes(https_request *r, sefl_span bytes)
{
    floor_state *f = r->state;
    if (f->hashed)
        blake3_add(&f->h, bytes);
    return file_write_all(f->fd, bytes);
}

static void floor_end(https_request *r, sefl_status st)
{
    floor_state *f = r->state;
    uint8_t hash[BLAKE3_BYTES];
    if (f->hashed)
        blake3_end(&f->h, hash);
    if (st == SEFL_OK && fsync(f->fd) == 0)
        https_answer_text(r, 200, "ok");
    else
        https_answer_text(r, 500, "failed");
}

static void floor_drop(https_request *r)
{
    floor_state *f = r->state;
    if (f->fd >= 0)
        close(f->fd);
    sefl_free(f);
}

static void begin_floor(https_request *r)
{
    const taker *t = r->server_ctx;
    const char *hash = strrchr(r->path, '/');
    floor_state *f;
    if (sefl_new(&f, 1, sizeof *f) != SEFL_OK) {
        https_answer_text(r, 500, "failed");
        return;
    }
    snprintf(f->path, sizeof f->path, "%s/floor%s", t->pl->dir, hash ? hash : "/x");
    f->hashed = t->pl->seal != NULL;
    blake3_init(&f->h);
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r->state = f;
    r->body = floor_bytes, r->end = floor_end, r->drop = floor_drop;
}

static sefl_status all_summed(taker *t)
{
    uint32_t given, summed;
    for (int i = 0; i < 120000; i++) {
        collect_counts(t->collect, &given, &summed);
        if (given == summed)
            return SEFL_OK;
        usleep(1000);
    }
    return sefl_fail(SEFL_ETIMEOUT, "the running sum does not get on");
}

/* Opens AS: the part of a taker that the floor lacks. */
static sefl_status open_as(taker *t, bool first)
{
    const plan *pl = t->pl;
    sefl_rng rng = rng_system();
    t->mono = clock_monotonic();
    t->wall = clock_wall();
    SEFL_PASS(sign_key_new(&t->key, &rng));
    SEFL_PASS(open_journal(t, first));
    SEFL_PASS(body_pool_new(&t->body_pool, pl->bytes, BODY_POOL_BUDGET));
    SEFL_PASS(collect_new(&t->collect, &(collect_config){ .ahe = &pl->p,
                                                          .body_pool = t->body_pool,
                                                          .pub = pl->pub,
                                                          .front = update_front_bytes(pl->seal),
                                                          .clients_max = (uint32_t)pl->o.updates,
                                                          .path = path_of,
                                                          .ctx = t }));
    SEFL_PASS(ingest_new(&t->ingest,
                         &(ingest_config){ .task = ingest_task,
                                           .seal = pl->seal,
                                           .ahe = &pl->p,
                                           .pub = pl->pub,
                                           .journal = t->journal,
                                           .bodies = pl->o.store ? t->folder : NULL,
                                           .key = t->key,
                                           .admission = { .ctx = t,
                                                          .lock = &t->lock,
                                                          .body_pool = t->body_pool,
                                                          .admit = admit,
                                                          .has_body = has_body,
                                                          .took = took,
                                                          .know = pl->o.store ? know : NULL,
                                                          .put = pl->o.store ? put_row : NULL },
                                           .wall = &t->wall }));
    if (pl->seal && first)
        SEFL_PASS(know_vouchers(pl, t->journal));
    collect_begin(t->collect, ROUND);
    ingest_only_round(t->ingest, ROUND);
    t->http.task = &t->task;
    t->http.ingest = t->ingest;
    t->http.mono = &t->mono;
    return SEFL_OK;
}

/* kind: that of start. */
static sefl_status serve(const plan *pl, int kind, int go_fd, int out_fd)
{
    sefl_status st = SEFL_OK;
    const bool floor_only = kind == FLOOR;
    taker t = { .pl = pl };
    tls_id *id = NULL;
    https_server *server = NULL;
    char path[160], byte;
    pthread_mutex_init(&t.lock, NULL);
    SEFL_TRY(ingest_identity(pl, &id, "server"));
    SEFL_TRY(floor_only ? file_make_folder(ingest_in(pl, path, "floor"), 0700)
                        : open_as(&t, kind == FIRST));
    SEFL_TRY(https_server_start(
        &server, &(https_server_config){ .id = id,
                                         .peer_role = "client",
                                         .threads = pl->o.store ? 8 : 0, /* as aggregator.c */
                                         .limits.per_address = CONNECTIONS_MAX,
                                         .body_max = pl->bytes,
                                         .begin = floor_only ? begin_floor : begin_ingest,
                                         .ctx = floor_only ? (void *)&t : (void *)&t.http }));
    uint16_t port = https_server_port(server);
    SEFL_CHECK(write(out_fd, &port, sizeof port) == sizeof port, SEFL_EIO, "pipe");
    double cpu = cpu_seconds();
    while (read(go_fd, &byte, 1) == 1) { /* a turn is over */
        if (!floor_only)
            SEFL_TRY(all_summed(&t));
        result r = { .cpu_s = cpu_seconds() - cpu, .peak_mb = peak_mb(), .bodies = t.bodies };
        SEFL_CHECK(write(out_fd, &r, sizeof r) == sizeof r, SEFL_EIO, "pipe");
    }
done:
    if (st != SEFL_OK)
        fprintf(stderr, "sefl bench ingest: %s\n", sefl_last_error());
    https_server_stop(server);
    ingest_free(t.ingest);
    collect_free(t.collect);
    body_pool_free(t.body_pool);
    journal_close(t.journal);
    sign_key_free(t.key);
    tls_id_free(id);
    pthread_mutex_destroy(&t.lock);
    return st;
}

/* ---- the run --------------------------------------------------------------------------------- */

typedef struct peer {
    pid_t pid;
    int to, from;
} peer;

static sefl_status start(peer *out, const plan *pl, int kind)
{
    sefl_status st = SEFL_OK;
    int down[2] = { -1, -1 }, up[2] = { -1, -1 };
    SEFL_CHECK(pipe(down) == 0 && pipe(up) == 0, SEFL_EIO, "no pipe: %s", strerror(errno));
    fflush(NULL);
    out->pid = fork();
    SEFL_CHECK(out->pid >= 0, SEFL_EIO, "no process: %s", strerror(errno));
    if (out->pid == 0) {
        close(down[1]), close(up[0]);
        int rc = kind == GENERATOR ? ingest_generator(pl, down[0], up[1])
                                   : serve(pl, kind, down[0], up[1]) != SEFL_OK;
        fflush(NULL);
        _exit(rc);
    }
    close(down[0]), close(up[1]);
    out->to = down[1], out->from = up[0];
done:
    return st;
}

static void end_peer(peer *p)
{
    if (p->pid <= 0)
        return;
    close(p->to), close(p->from);
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
}

static sefl_status ingest_get(const peer *p, void *out, size_t n)
{
    return read(p->from, out, n) == (ssize_t)n
               ? SEFL_OK
               : sefl_fail(SEFL_ECLOSED, "a process of the benchmark ended early");
}

static sefl_status ingest_put(const peer *p, const void *bytes, size_t n)
{
    return write(p->to, bytes, n) == (ssize_t)n
               ? SEFL_OK
               : sefl_fail(SEFL_ECLOSED, "a process of the benchmark ended early");
}

typedef struct server {
    peer peer;
    uint16_t port;
    result r; /* since its start */
} server;

static sefl_status start_server(const plan *pl, server *s, int kind)
{
    sefl_status st = start(&s->peer, pl, kind);
    return st == SEFL_OK ? ingest_get(&s->peer, &s->port, sizeof s->port) : st;
}

/* Sends updates [first, end) to n servers; which: 1 is the floor. */
static sefl_status turn(const peer *gen, server *s, unsigned n, unsigned which, unsigned long first,
                        unsigned long end)
{
    sefl_status st = SEFL_OK, sent;
    order o = { .ports = n, .which = which, .first = first, .end = end };
    for (unsigned i = 0; i < n; i++)
        o.port[i] = s[i].port;
    SEFL_TRY(ingest_put(gen, &o, sizeof o));
    SEFL_TRY(ingest_get(gen, &sent, sizeof sent));
    SEFL_CHECK(sent == SEFL_OK, sent, "the generator failed");
    for (unsigned i = 0; i < n; i++) {
        SEFL_TRY(ingest_put(&s[i].peer, "", 1));
        SEFL_TRY(ingest_get(&s[i].peer, &s[i].r, sizeof s[i].r));
    }
done:
    return st;
}

/* Adds up what the servers report; the peak is the highest one. */
static result all_of(const server *s, unsigned n)
{
    result r = { 0 };
    for (unsigned i = 0; i < n; i++) {
        r.cpu_s += s[i].r.cpu_s;
        r.bodies += s[i].r.bodies;
        r.peak_mb = s[i].r.peak_mb > r.peak_mb ? s[i].r.peak_mb : r.peak_mb;
    }
    return r;
}

typedef struct multiply {
    const mont *m;
    uint64_t *x; /* a batch and a factor per thread */
} multiply;

static sefl_status multiply_piece(void *ctx, unsigned lane, size_t begin, size_t end)
{
    const multiply *j = ctx;
    size_t words = mont_batch_words(j->m);
    uint64_t *x = j->x + 2 * lane * words;
    for (size_t i = begin; i < end; i++)
        mont_mul(j->m, x, x, x + words);
    return SEFL_OK;
}

/* Measures the processor seconds of one multiplication modulo N^2 per ciphertext of a body. */
static sefl_status multiplications(const plan *pl, pool *workers, double *seconds)
{
    sefl_status st = SEFL_OK;
    multiply j = { .m = &pl->pub->mod_n2 };
    size_t words = mont_batch_words(j.m), n = 20000;
    SEFL_TRY(sefl_new(&j.x, 2 * pool_threads(workers) * words, sizeof *j.x));
    for (unsigned i = 0; i < pool_threads(workers); i++) {
        mont_to(j.m, j.x + 2 * i * words, j.m->one);
        mont_to(j.m, j.x + (2 * i + 1) * words, j.m->rr);
    }
    double began = cpu_seconds();
    SEFL_TRY(pool_run(workers, n, 500, multiply_piece, &j, NULL));
    *seconds += (cpu_seconds() - began) / ((double)n * j.m->lanes) * (double)pl->p.units;
done:
    sefl_free(j.x);
    return st;
}

static sefl_status make_identities(const plan *pl)
{
    sefl_status st = SEFL_OK;
    char ca[160], ca_key[160], cert[160], key[160];
    ingest_in(pl, ca, "ca.pem"), ingest_in(pl, ca_key, "ca.key");
    SEFL_TRY(x509_make(ca, ca_key, &(x509_subject){ .name = "bench CA", .days = 2 }, NULL, NULL));
    SEFL_TRY(
        x509_make(ingest_in(pl, cert, "server.pem"), ingest_in(pl, key, "server.key"),
                  &(x509_subject){
                      .name = "bench AS", .role = "aggregator", .hosts = "127.0.0.1", .days = 2 },
                  ca, ca_key));
    SEFL_TRY(x509_make(ingest_in(pl, cert, "client.pem"), ingest_in(pl, key, "client.key"),
                       &(x509_subject){ .name = "bench client", .role = "client", .days = 2 }, ca,
                       ca_key));
done:
    return st;
}

static void print_rows(bench *b, const plan *pl, const result *ours, const result *bare,
                       double mults, double wall_s)
{
    const char *scheme = pl->p.scheme->name;
    bool pad = pl->p.scheme == &ahe_pad;
    double n = (double)pl->o.updates, as = 1e3 * ours->cpu_s / n, rest = 1e3 * bare->cpu_s / n;
    char name[80];
    bench_note(b, "%s: %lu updates of %zu values (%.2f MB each) from %lu connections, TLS 1.3",
               scheme, pl->o.updates, pl->o.values, 1e-6 * (double)pl->bytes, pl->o.connections);
    if (pl->o.store) {
        bench_note(b, "%lu processes share one PostgreSQL; its processor time is not counted",
                   pl->o.processes);
        snprintf(name, sizeof name, "%s: AS, %lu processes", scheme, pl->o.processes);
        bench_row(b, &(bench_result){ .name = name, .value = as, .unit = "ms CPU" });
        goto both;
    }
    if (!pad)
        bench_note(
            b,
            "%s: receiving alone is %.2f of the multiplications; AS comes near those only where "
            "they are slow (without AVX-512 IFMA), and with IFMA cannot stay below 1.3 times them",
            scheme, rest / (1e3 * mults));
    snprintf(name, sizeof name, "%s: AS (floor: %s)", scheme,
             pad ? "receive, hash, write, sync" : "multiplications alone");
    bench_row(b,
              &(bench_result){
                  .name = name, .value = as, .unit = "ms CPU", .floor = pad ? rest : 1e3 * mults });
    snprintf(name, sizeof name, "%s: receive, %swrite and sync alone", scheme, pad ? "hash, " : "");
    bench_row(b, &(bench_result){ .name = name, .value = rest, .unit = "ms CPU" });
    snprintf(name, sizeof name, "%s: AS, beyond receiving", scheme);
    bench_row(b, &(bench_result){
                     .name = name, .value = as - rest, .unit = "ms CPU", .floor = 1e3 * mults });
both:
    snprintf(name, sizeof name, "%s: AS, updates a second", scheme);
    bench_row(b, &(bench_result){ .name = name, .value = n / wall_s, .unit = "1/s", .rate = true });
    snprintf(name, sizeof name, "%s: AS, peak memory", scheme);
    bench_row(b, &(bench_result){ .name = name, .value = ours->peak_mb, .unit = "MB" });
}

static sefl_status run_scheme(options *o, const ahe_pub *pub, const char *scheme)
{
    sefl_status st = SEFL_OK, made;
    plan pl = { .o = *o, .pub = pub };
    const ahe_scheme *s;
    peer gen = { 0 };
    server ours[PROCESSES_MAX] = { 0 }, bare = { 0 };
    result done_by = { 0 };
    const unsigned n = o->store ? (unsigned)o->processes : 1;
    pool *workers = NULL;
    double mults = 0;
    uint64_t wall_ns = 0;
    sefl_clock mono = clock_monotonic();
    bool pad = strcmp(scheme, "pad") == 0;
    pack pk;
    SEFL_TRY(ahe_scheme_find(&s, scheme));
    SEFL_TRY(pack_init(&pk, &(pack_config){ .scheme = pad ? PACK_PAD : PACK_PAILLIER,
                                            .clients = o->updates > 10000 ? o->updates : 10000,
                                            .dimension = o->values,
                                            .clip = PACK_ONE,
                                            .noise = PACK_ONE }));
    SEFL_TRY(ahe_params_init(&pl.p, s, &pk, pub, o->values));
    pl.seal = pad ? seal_suite_named("xwing") : NULL;
    pl.bytes = update_front_bytes(pl.seal) + ahe_body_bytes(&pl.p);
    SEFL_TRY(file_temp_folder(pl.dir, sizeof pl.dir, "sefl-ingest"));
    SEFL_TRY(make_identities(&pl));
    SEFL_TRY(start(&gen, &pl, GENERATOR));
    for (unsigned i = 0; i < n; i++)
        SEFL_TRY(start_server(&pl, &ours[i], i == 0 ? FIRST : OTHER));
    if (!o->store)
        SEFL_TRY(start_server(&pl, &bare, FLOOR));
    SEFL_TRY(pool_new(&workers, 0)); /* after the forks: threads do not survive them */
    SEFL_TRY(ingest_get(&gen, &made, sizeof made));
    SEFL_CHECK(made == SEFL_OK, made, "the generator failed");
    for (unsigned long i = 0; i < TURNS; i++) {
        unsigned long first = o->updates * i / TURNS, end = o->updates * (i + 1) / TURNS;
        uint64_t began = clock_ns(&mono);
        SEFL_TRY(turn(&gen, ours, n, 0, first, end));
        wall_ns += clock_ns(&mono) - began;
        if (!o->store)
            SEFL_TRY(turn(&gen, &bare, 1, 1, first, end));
        if (!pad)
            SEFL_TRY(multiplications(&pl, workers, &mults));
    }
    done_by = all_of(ours, n);
    SEFL_CHECK(done_by.bodies == o->updates, SEFL_ESTATE, "%" PRIu64 " of %lu updates arrived",
               done_by.bodies, o->updates);
    print_rows(&o->b, &pl, &done_by, &bare.r, mults / TURNS, 1e-9 * (double)wall_ns);
done:
    pool_free(workers);
    end_peer(&bare.peer); /* the last first: it holds ends of the others' pipes */
    for (unsigned i = PROCESSES_MAX; i-- > 0;)
        end_peer(&ours[i].peer);
    end_peer(&gen);
    if (*pl.dir)
        dir_remove(pl.dir);
    return st;
}

static sefl_status ingest_run(void *ctx)
{
    sefl_status st = SEFL_OK;
    options *o = ctx;
    paillier_sec *sec = NULL;
    sefl_rng rng = rng_system();
    if (o->store && !o->scheme)
        o->scheme = "pad"; /* one scheme per database */
    if (!o->scheme || strcmp(o->scheme, "pad") == 0)
        SEFL_TRY(run_scheme(o, NULL, "pad"));
    if (!o->scheme || strcmp(o->scheme, "paillier") == 0) {
        SEFL_TRY(paillier_keygen_vartime(&sec, BITS, &rng, NULL));
        SEFL_TRY(run_scheme(o, paillier_sec_pub(sec), "paillier"));
    }
done:
    paillier_sec_free(sec);
    return st;
}

#define TO(member) SETTING_TO(options, member)
static const setting_def table[] = {
    { "scheme", SETTING_WORD, "", TO(scheme), .words = AHE_SCHEMES,
      .help = "Scheme to measure; both if not given" },
    { "values", SETTING_U64, "945510", TO(values), .min = 1, .max = 100000000,
      .help = "Number of values in an update" },
    { "updates", SETTING_U64, "200", TO(updates), .min = 1, .max = 1000000,
      .help = "Number of updates, stored twice in $TMPDIR" },
    { "connections", SETTING_U64, "16", TO(connections), .min = 1, .max = CONNECTIONS_MAX,
      .help = "Number of connections that send at once" },
    { "store", SETTING_TEXT, "", TO(store), .arg = "URL",
      .help = "postgresql://...: an empty database, in which several processes share the round" },
    { "processes", SETTING_U64, "2", TO(processes), .min = 1, .max = PROCESSES_MAX,
      .help = "With --store: number of processes" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_ingest = {
    .name = "bench ingest",
    .summary = "the aggregation server's cost of receiving updates",
    .example = "sefl bench ingest --scheme pad",
    BENCH_COMMAND(options, table, ingest_run),
};
