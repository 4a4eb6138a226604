/* Ingest: the aggregation server's cost of receiving updates, in processor time of its process.
 *
 * There are three processes. This one generates the key and prints; a generator makes update bodies
 * and sends them over mutual TLS on `connections` parallel connections; a server receives them.
 * There are two servers:
 *   ingest   roles/aggregator unchanged: bodies are checked, hashed, spooled, synced, acknowledged
 *            with a signed receipt in the journal, and added to the running sum
 *   floor    the same HTTPS server, which only hashes the bytes (pad only), writes them to a file
 *            and syncs it
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
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/blake3.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "crypto/ahe/paillier_internal.h"
#include "crypto/seal/seal.h"
#include "net/https_client.h"
#include "net/https_server.h"
#include "protocol/head.h"
#include "protocol/http.h"
#include "protocol/version.h"
#include "roles/aggregator/collect.h"
#include "roles/aggregator/http.h"
#include "store/disk/upload_keys.h"
#include "store/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER "Sefl-Bench-Client" /* header: the sending client */

static const uint8_t task_id[32] = "sefl bench ingest", round_seed[SEAL_SEED] = { 7 };

enum { BITS = 3072, ROUND = 1, CONNECTIONS_MAX = 256, TURNS = 5 };

typedef struct options {
    bench b;
    const char *scheme; /* NULL: both */
    size_t values;
    unsigned long updates, connections;
} options;

/* Shared by all three processes. */
typedef struct plan {
    options o;
    const ahe_pub *pub;
    ahe_params p;
    const seal_suite *seal; /* NULL: no heads */
    size_t bytes;           /* of a body */
    char dir[112];
} plan;

/* A server process's report after each turn: totals since its start. */
typedef struct result {
    double cpu_s, peak_mb;
    uint64_t bodies;
} result;

/* An order to the generator: updates [first, end). */
typedef struct order {
    uint16_t port;
    unsigned which; /* 0: AS, 1: the floor */
    unsigned long first, end;
} order;

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

static const char *in(const plan *pl, char out[160], const char *name)
{
    snprintf(out, 160, "%s/%s", pl->dir, name);
    return out;
}

static sefl_status identity(const plan *pl, tls_id **out, const char *name)
{
    char cert[160], key[160], ca[160], file[40];
    snprintf(file, sizeof file, "%s.pem", name);
    in(pl, cert, file);
    snprintf(file, sizeof file, "%s.key", name);
    in(pl, key, file);
    return tls_id_read(out, cert, key, in(pl, ca, "ca.pem"));
}

/* Client number i, and its upload key. */
static void client_of(uint8_t client[32], unsigned long i)
{
    uint8_t number[8];
    store_u64(number, i);
    sha256_of(client, span_of(number, sizeof number));
}

static sefl_status upload_key_of(sign_key **out, unsigned long i)
{
    uint8_t seed[32];
    client_of(seed, i);
    seed[0] ^= 1;
    return sign_key_from(out, seed);
}

/* ---- the generator --------------------------------------------------------------------------- */

static sefl_status make_body(const plan *pl, uint8_t *body)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &pl->p;
    sefl_rng rng = rng_system();
    uint8_t context[AHE_CONTEXT_BYTES] = { 1 };
    ahe_enc *enc = NULL;
    ahe_upload *u = NULL;
    int64_t *values = NULL;
    pool *workers = NULL;
    SEFL_TRY(sefl_new(&values, p->units * p->unit_values, sizeof *values));
    for (size_t i = 0; i < p->values; i++)
        values[i] = (int64_t)(i % 201) - 100;
    SEFL_TRY(pool_new(&workers, 0));
    SEFL_TRY(ahe_enc_new(&enc, pl->pub, p, workers, NULL));
    SEFL_TRY(ahe_upload_new(&u, p, enc, context, &rng));
    SEFL_TRY(ahe_upload_units(p, u, body, values, p->units, workers, NULL));
done:
    ahe_upload_free(p, u);
    ahe_enc_free(p, enc);
    pool_free(workers);
    sefl_free(values);
    return st;
}

typedef struct sender {
    const plan *pl;
    const uint8_t *body;
    const seal_key *round_key;
    order o;
    unsigned long number;
    pthread_t id;
    tls_id *tls;
    https_client *client; /* kept: one connection for all turns */
    sefl_status st;
    char why[300];
} sender;

typedef struct writer {
    const ahe_params *p;
    const uint8_t *units;
    blake3 h;
    int fd;
} writer;

static sefl_status write_bytes(writer *w, sefl_span bytes)
{
    blake3_add(&w->h, bytes);
    return file_write_all(w->fd, bytes);
}

/* Units [from, from + n), modulo their number. */
static sefl_status write_units(writer *w, size_t from, size_t n)
{
    sefl_status st = SEFL_OK;
    from %= w->p->units;
    size_t first = n < w->p->units - from ? n : w->p->units - from, size = w->p->unit_bytes;
    SEFL_TRY(write_bytes(w, span_of(w->units + from * size, first * size)));
    SEFL_TRY(write_bytes(w, span_of(w->units, (n - first) * size)));
done:
    return st;
}

/* Returns the number of different bodies: any unit first, then the others in any rotation. */
static unsigned long bodies_max(const ahe_params *p)
{
    return p->units > 1 ? p->units * (p->units - 1) : 1;
}

static sefl_status write_head(const plan *pl, int fd, unsigned long i, const uint8_t units[32],
                              const seal_key *round_key)
{
    sefl_status st = SEFL_OK;
    uint8_t out[HEAD_MAX], client[32], seed[HEAD_SEED] = { 3 };
    sign_key *key = NULL;
    sefl_rng rng = rng_system();
    client_of(client, i);
    SEFL_TRY(upload_key_of(&key, i));
    SEFL_TRY(head_make(
        out,
        &(head_facts){
            .suite = pl->seal, .task = task_id, .round = ROUND, .client = client, .units = units },
        seal_key_pub(round_key), seed, key, &rng));
    SEFL_CHECK(pwrite(fd, out, head_bytes(pl->seal), 0) == (ssize_t)head_bytes(pl->seal), SEFL_EIO,
               "cannot write a head: %s", strerror(errno));
done:
    sign_key_free(key);
    return st;
}

/* Writes body number i, and the hash of its units. */
static sefl_status write_turned(const plan *pl, const uint8_t *body, const seal_key *round_key,
                                unsigned long i, const char *path, uint8_t hash[BLAKE3_BYTES])
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &pl->p;
    size_t first = i % p->units, turn = i / p->units;
    writer w = { .p = p, .units = body };
    w.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    SEFL_CHECK(w.fd >= 0, SEFL_EIO, "cannot write %s: %s", path, strerror(errno));
    SEFL_CHECK(lseek(w.fd, (off_t)head_bytes(pl->seal), SEEK_SET) >= 0, SEFL_EIO, "%s: %s", path,
               strerror(errno));
    blake3_init(&w.h);
    SEFL_TRY(write_units(&w, first, 1));
    SEFL_TRY(write_units(&w, first + 1 + turn, p->units - 1 - turn));
    SEFL_TRY(write_units(&w, first + 1, turn));
    blake3_end(&w.h, hash);
    if (pl->seal)
        SEFL_TRY(write_head(pl, w.fd, i, hash, round_key));
done:
    if (w.fd >= 0)
        close(w.fd);
    return st;
}

static void *send_all(void *arg)
{
    sender *s = arg;
    const plan *pl = s->pl;
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    char path[160], name[40], url[HTTP_PATH_MAX], headers[128];
    http_target to = { .call = HTTP_UPDATE, .round = ROUND };
    snprintf(name, sizeof name, "sender-%lu", s->number);
    in(pl, path, name);
    if (!s->client) {
        SEFL_TRY(identity(pl, &s->tls, "client"));
        SEFL_TRY(https_client_new(
            &s->client, &(https_client_config){
                            .host = "127.0.0.1", .port = s->o.port, .id = s->tls, .proxy = "" }));
    }
    for (unsigned long i = s->o.first + s->number; i < s->o.end; i += pl->o.connections) {
        SEFL_TRY(write_turned(pl, s->body, s->round_key, i, path, to.hash));
        snprintf(headers, sizeof headers, HTTP_VERSION_LINE "%s: %zu\n" NUMBER ": %lu\n",
                 http_field_name(HTTP_TOTAL_FIELD), pl->bytes, i);
        SEFL_TRY(https_put_file(s->client, http_path(url, &to), path, 0, headers, NULL, &r));
        SEFL_CHECK(r.status == 200, SEFL_EPROTO, "update %lu: status %u: %.*s", i, r.status,
                   (int)r.body.n, (const char *)r.body.p);
        https_reply_clear(&r);
    }
done:
    s->st = st;
    if (st != SEFL_OK)
        snprintf(s->why, sizeof s->why, "%s", sefl_last_error());
    https_reply_clear(&r);
    return NULL;
}

static sefl_status send_to(const plan *pl, const uint8_t *body, const seal_key *round_key,
                           sender *s, const order *o)
{
    sefl_status st = SEFL_OK;
    unsigned long n = 0;
    for (; n < pl->o.connections; n++) {
        s[n].pl = pl, s[n].body = body, s[n].o = *o, s[n].number = n;
        s[n].round_key = round_key;
        SEFL_CHECK(pthread_create(&s[n].id, NULL, send_all, &s[n]) == 0, SEFL_ENOMEM,
                   "cannot start a thread");
    }
done:
    for (unsigned long i = 0; i < n; i++) {
        pthread_join(s[i].id, NULL);
        if (st == SEFL_OK && s[i].st != SEFL_OK)
            st = sefl_fail(s[i].st, "%s", s[i].why);
    }
    return st;
}

/* Reads orders until the end of `in_fd`, carries them out and reports a status for each. */
static int generator(const plan *pl, int in_fd, int out_fd)
{
    uint8_t *body = NULL;
    sender *s[2] = { NULL, NULL }; /* of either server */
    order o;
    seal_key *round_key = NULL;
    sefl_status st = sefl_new(&body, 1, ahe_body_bytes(&pl->p));
    if (st == SEFL_OK && pl->seal)
        st = seal_key_from(&round_key, pl->seal, round_seed);
    if (st == SEFL_OK)
        st = make_body(pl, body);
    for (int i = 0; i < 2 && st == SEFL_OK; i++)
        st = sefl_new(&s[i], CONNECTIONS_MAX, sizeof *s[i]);
    if (write(out_fd, &st, sizeof st) != sizeof st)
        return 1;
    while (st == SEFL_OK && read(in_fd, &o, sizeof o) == sizeof o) {
        st = send_to(pl, body, round_key, s[o.which], &o);
        if (st != SEFL_OK)
            fprintf(stderr, "sefl bench ingest: %s\n", sefl_last_error());
        if (write(out_fd, &st, sizeof st) != sizeof st)
            return 1;
    }
    for (int i = 0; i < 2; i++) {
        for (unsigned long k = 0; s[i] && k < CONNECTIONS_MAX; k++) {
            https_client_free(s[i][k].client);
            tls_id_free(s[i][k].tls);
        }
        sefl_free(s[i]);
    }
    seal_key_free(round_key);
    sefl_free(body);
    return 0;
}

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
    uint64_t bodies;
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
    return ingest_body_path(((taker *)ctx)->journal, out, round, m);
}

/* Every update is from another client. */
static void begin_ingest(https_request *r)
{
    const char *number = https_header(r, NUMBER);
    client_of(r->peer.fingerprint, number ? strtoul(number, NULL, 10) : 0);
    agg_http_begin(r);
}

/* All clients have vouchers. */
static sefl_status know_vouchers(const plan *pl, journal *j)
{
    sefl_status st = SEFL_OK;
    uint8_t client[32];
    sign_key *key = NULL;
    for (unsigned long i = 0; i < pl->o.updates; i++) {
        client_of(client, i);
        SEFL_TRY(upload_key_of(&key, i));
        SEFL_TRY(upload_key_put(j, client, 1, sign_key_pub(key)));
        sign_key_free(key), key = NULL;
    }
done:
    sign_key_free(key);
    return st;
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
static sefl_status open_as(taker *t)
{
    const plan *pl = t->pl;
    sefl_rng rng = rng_system();
    char path[160];
    t->mono = clock_monotonic();
    t->wall = clock_wall();
    SEFL_PASS(sign_key_new(&t->key, &rng));
    SEFL_PASS(journal_open(&t->journal, in(pl, path, "state"), "aggregator", task_id));
    SEFL_PASS(body_pool_new(&t->body_pool, pl->bytes, BODY_POOL_BUDGET));
    SEFL_PASS(collect_new(&t->collect, &(collect_config){ .ahe = &pl->p,
                                                          .body_pool = t->body_pool,
                                                          .pub = pl->pub,
                                                          .skip = head_bytes(pl->seal),
                                                          .clients_max = (uint32_t)pl->o.updates,
                                                          .path = path_of,
                                                          .ctx = t }));
    SEFL_PASS(ingest_new(&t->ingest, &(ingest_config){ .task = task_id,
                                                       .seal = pl->seal,
                                                       .ahe = &pl->p,
                                                       .pub = pl->pub,
                                                       .journal = t->journal,
                                                       .key = t->key,
                                                       .admission = { .ctx = t,
                                                                      .lock = &t->lock,
                                                                      .body_pool = t->body_pool,
                                                                      .admit = admit,
                                                                      .has_body = has_body,
                                                                      .took = took },
                                                       .wall = &t->wall }));
    if (pl->seal)
        SEFL_PASS(know_vouchers(pl, t->journal));
    collect_begin(t->collect, ROUND);
    ingest_only_round(t->ingest, ROUND);
    t->http.task = &t->task;
    t->http.ingest = t->ingest;
    t->http.mono = &t->mono;
    return SEFL_OK;
}

static sefl_status serve(const plan *pl, bool floor_only, int go_fd, int out_fd)
{
    sefl_status st = SEFL_OK;
    taker t = { .pl = pl };
    tls_id *id = NULL;
    https_server *server = NULL;
    char path[160], byte;
    pthread_mutex_init(&t.lock, NULL);
    SEFL_TRY(identity(pl, &id, "server"));
    SEFL_TRY(floor_only ? file_make_folder(in(pl, path, "floor"), 0700) : open_as(&t));
    SEFL_TRY(https_server_start(
        &server, &(https_server_config){ .id = id,
                                         .peer_role = "client",
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
        int rc = kind == 0 ? generator(pl, down[0], up[1])
                           : serve(pl, kind == 2, down[0], up[1]) != SEFL_OK;
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

static sefl_status get(const peer *p, void *out, size_t n)
{
    return read(p->from, out, n) == (ssize_t)n
               ? SEFL_OK
               : sefl_fail(SEFL_ECLOSED, "a process of the benchmark ended early");
}

static sefl_status put(const peer *p, const void *bytes, size_t n)
{
    return write(p->to, bytes, n) == (ssize_t)n
               ? SEFL_OK
               : sefl_fail(SEFL_ECLOSED, "a process of the benchmark ended early");
}

typedef struct server {
    peer peer;
    uint16_t port;
    unsigned which;
    result r; /* since its start */
} server;

static sefl_status start_server(const plan *pl, server *s, bool floor_only)
{
    s->which = floor_only;
    sefl_status st = start(&s->peer, pl, floor_only ? 2 : 1);
    return st == SEFL_OK ? get(&s->peer, &s->port, sizeof s->port) : st;
}

static sefl_status turn(const peer *gen, server *s, unsigned long first, unsigned long end)
{
    sefl_status st = SEFL_OK, sent;
    const order o = { .port = s->port, .which = s->which, .first = first, .end = end };
    SEFL_TRY(put(gen, &o, sizeof o));
    SEFL_TRY(get(gen, &sent, sizeof sent));
    SEFL_CHECK(sent == SEFL_OK, sent, "the generator failed");
    SEFL_TRY(put(&s->peer, "", 1));
    SEFL_TRY(get(&s->peer, &s->r, sizeof s->r));
done:
    return st;
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
    in(pl, ca, "ca.pem"), in(pl, ca_key, "ca.key");
    SEFL_TRY(x509_make(ca, ca_key, &(x509_subject){ .name = "bench CA", .days = 2 }, NULL, NULL));
    SEFL_TRY(
        x509_make(in(pl, cert, "server.pem"), in(pl, key, "server.key"),
                  &(x509_subject){
                      .name = "bench AS", .role = "aggregator", .hosts = "127.0.0.1", .days = 2 },
                  ca, ca_key));
    SEFL_TRY(x509_make(in(pl, cert, "client.pem"), in(pl, key, "client.key"),
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
    server ours = { 0 }, bare = { 0 };
    pool *workers = NULL;
    double mults = 0;
    uint64_t wall_ns = 0;
    sefl_clock mono = clock_monotonic();
    bool pad = strcmp(scheme, "pad") == 0;
    pack pk;
    SEFL_TRY(ahe_scheme_find(&s, scheme));
    SEFL_TRY(pack_init(&pk, &(pack_config){ .scheme = pad ? PACK_PAD : PACK_PAILLIER,
                                            .clients = 10000,
                                            .dimension = o->values,
                                            .clip = PACK_ONE,
                                            .noise = PACK_ONE }));
    SEFL_TRY(ahe_params_init(&pl.p, s, &pk, pub, o->values));
    pl.seal = pad ? seal_suite_named("xwing") : NULL;
    pl.bytes = head_bytes(pl.seal) + ahe_body_bytes(&pl.p);
    SEFL_CHECK(
        o->updates <= bodies_max(&pl.p), SEFL_EINVAL,
        "--updates %lu: a body of %zu units can be put in %lu orders, and the server takes each "
        "once; more --values make more units",
        o->updates, pl.p.units, bodies_max(&pl.p));
    SEFL_TRY(file_temp_folder(pl.dir, sizeof pl.dir, "sefl-ingest"));
    SEFL_TRY(make_identities(&pl));
    SEFL_TRY(start(&gen, &pl, 0));
    SEFL_TRY(start_server(&pl, &ours, false));
    SEFL_TRY(start_server(&pl, &bare, true));
    SEFL_TRY(pool_new(&workers, 0)); /* after the forks: threads do not survive them */
    SEFL_TRY(get(&gen, &made, sizeof made));
    SEFL_CHECK(made == SEFL_OK, made, "the generator failed");
    for (unsigned long i = 0; i < TURNS; i++) {
        unsigned long first = o->updates * i / TURNS, end = o->updates * (i + 1) / TURNS;
        uint64_t began = clock_ns(&mono);
        SEFL_TRY(turn(&gen, &ours, first, end));
        wall_ns += clock_ns(&mono) - began;
        SEFL_TRY(turn(&gen, &bare, first, end));
        if (!pad)
            SEFL_TRY(multiplications(&pl, workers, &mults));
    }
    SEFL_CHECK(ours.r.bodies == o->updates, SEFL_ESTATE, "%" PRIu64 " of %lu updates arrived",
               ours.r.bodies, o->updates);
    print_rows(&o->b, &pl, &ours.r, &bare.r, mults / TURNS, 1e-9 * (double)wall_ns);
done:
    pool_free(workers);
    end_peer(&bare.peer); /* the last first: it holds ends of the others' pipes */
    end_peer(&ours.peer);
    end_peer(&gen);
    if (*pl.dir)
        dir_remove(pl.dir);
    return st;
}

static sefl_status run(void *ctx)
{
    sefl_status st = SEFL_OK;
    options *o = ctx;
    paillier_sec *sec = NULL;
    sefl_rng rng = rng_system();
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
    { "updates", SETTING_U64, "200", TO(updates), .min = 1, .max = 10000,
      .help = "Number of updates, stored twice in $TMPDIR" },
    { "connections", SETTING_U64, "16", TO(connections), .min = 1, .max = CONNECTIONS_MAX,
      .help = "Number of connections that send at once" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_ingest = {
    .name = "bench ingest",
    .summary = "the aggregation server's cost of receiving updates",
    .example = "sefl bench ingest --scheme pad",
    BENCH_COMMAND(options, table, run),
};
