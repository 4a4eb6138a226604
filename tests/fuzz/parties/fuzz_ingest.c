/* Uploads at AS, in any order: begin, pieces, changed bytes, the end, a broken connection, a second
 * connection, questions, the next round, a revoked client. Spool, parts and rooms are real, in a
 * folder in memory; the journal's rows are a table, and signatures are toys. Input: a byte of
 * settings, then steps. What AS takes is byte for byte what this client made for this round, once;
 * a receipt says so; and an honest upload that nothing disturbs is taken. */
#define _GNU_SOURCE
#include "fuzz/toy_sign.h"
#define bodies agg_bodies /* a type; ingest.c has variables of that name */
#include "unit/parties/agg_bodies.h"
#undef bodies

#include "protocol/head.h"
#include "protocol/signed.h"
#include "roles/aggregator/ingest.h"
#include "store/disk/upload_keys.h"
#include "store/journal/spool.h"
#include "support/folder.h"
#include "support/must.h"

#include <dirent.h>
#include <unistd.h>

static sefl_status row_get(uint64_t round, const uint8_t client[32], journal_update *out);
static sefl_status row_put(const journal_update *u);
static sefl_status rounds_of(const uint8_t client[32], uint64_t *n, uint64_t *last);
static sefl_status key_of(const uint8_t client[32], uint64_t *serial, uint8_t key[SIGN_PUB_BYTES]);
static sefl_status path_of(sefl_buf *out, uint64_t round, const char *name);

#define journal_update_get(j, round, client, out) ((void)(j), row_get(round, client, out))
#define journal_update_put(j, u)                  ((void)(j), row_put(u))
#define journal_client_rounds(j, client, n, last) ((void)(j), rounds_of(client, n, last))
#define upload_key_get(j, client, serial, key)    ((void)(j), key_of(client, serial, key))
#define journal_path(j, out, round, name)         ((void)(j), path_of(out, round, name))
#include "roles/aggregator/ingest.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VALUES = 40, CLIENTS = 4, BODIES = 2, ROUNDS = 2, SLOTS = 4, ROWS = 8 };

/* Made once: body b of client c in round r. */
static struct {
    agg_bodies b;
    sign_key *as, *upload[CLIENTS];
    body_pool *pool;
    uint8_t who[CLIENTS][32], *body[ROUNDS][CLIENTS][BODIES], name[CLIENTS][BODIES][32];
    size_t total;
    const seal_suite *seal;
} made;

static struct {
    ingest *in;
    pthread_mutex_t lock;
    uint64_t open;
    bool vouched[CLIENTS], revoked[CLIENTS];
    journal_update row[ROWS];
    unsigned rows, taken;
} now;

/* An upload in progress, and whether all that was sent since byte 0 is honest. */
static struct {
    upload *u;
    unsigned client, body;
    uint64_t round, at;
    bool honest;
} slot[SLOTS];

static const uint8_t task_id[32] = "a task";

/* ---- the journal ----------------------------------------------------------------------------- */

static sefl_status row_get(uint64_t round, const uint8_t client[32], journal_update *out)
{
    for (unsigned i = 0; i < now.rows; i++)
        if (now.row[i].round == round && memcmp(now.row[i].client, client, 32) == 0) {
            *out = now.row[i];
            return SEFL_OK;
        }
    return SEFL_ENOTFOUND;
}

static sefl_status row_put(const journal_update *u)
{
    journal_update had;
    MUST(row_get(u->round, u->client, &had) == SEFL_ENOTFOUND && now.rows < ROWS);
    now.row[now.rows++] = *u;
    return SEFL_OK;
}

static sefl_status rounds_of(const uint8_t client[32], uint64_t *n, uint64_t *last)
{
    *n = *last = 0;
    for (unsigned i = 0; i < now.rows; i++)
        if (memcmp(now.row[i].client, client, 32) == 0)
            *n += 1, *last = now.row[i].round;
    return SEFL_OK;
}

static sefl_status key_of(const uint8_t client[32], uint64_t *serial, uint8_t key[SIGN_PUB_BYTES])
{
    const unsigned c = client[0] - 1u;
    MUST(c < CLIENTS);
    *serial = 1;
    memcpy(key, sign_key_pub(made.upload[c]), SIGN_PUB_BYTES);
    return now.vouched[c] ? SEFL_OK : SEFL_ENOTFOUND;
}

static sefl_status path_of(sefl_buf *out, uint64_t round, const char *name)
{
    SEFL_PASS(wr_fmt(out, "%s/round-%llu-%s", folder_path("."), (unsigned long long)round, name));
    SEFL_PASS(wr_u8(out, 0));
    out->n--;
    return SEFL_OK;
}

static void wipe_round(uint64_t round)
{
    char command[600];
    snprintf(command, sizeof command, "%s/round-%llu-bodies", folder_path("."),
             (unsigned long long)round);
    DIR *d = opendir(command), *in;
    char path[1200];
    for (struct dirent *e, *f; d && (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", command, e->d_name);
        in = e->d_name[0] == '.' ? NULL : opendir(path);
        while (in && (f = readdir(in)) != NULL)
            if (f->d_name[0] != '.')
                unlinkat(dirfd(in), f->d_name, 0);
        if (in)
            closedir(in), rmdir(path);
    }
    if (d)
        closedir(d);
}

/* ---- the role -------------------------------------------------------------------------------- */

static agg_verdict admit(void *ctx, const agg_upload *u)
{
    (void)ctx;
    if (u->have)
        return memcmp(u->have_body, u->body, 32) == 0 ? AGG_HAVE : AGG_OTHER;
    return u->round < now.open         ? AGG_LATE
           : u->round > now.open       ? AGG_EARLY
           : u->bytes != made.total    ? AGG_SIZE
           : u->rounds_taken >= ROUNDS ? AGG_LIMIT
                                       : AGG_ADMIT;
}

static bool has_body(void *ctx, const round_entry *m)
{
    (void)ctx;
    for (unsigned i = 0; i < now.rows; i++)
        if (memcmp(now.row[i].body, m->body, 32) == 0)
            return true;
    return false;
}

static void took(void *ctx, uint64_t round, const round_entry *m, body_room *room)
{
    sefl_buf path = { 0 }, bytes = { 0 };
    const unsigned c = m->client[0] - 1u;
    const uint8_t *want = NULL;
    (void)ctx;
    MUST(round == now.open && c < CLIENTS);
    for (unsigned b = 0; b < BODIES; b++)
        if (memcmp(m->body, made.name[c][b], 32) == 0)
            want = made.body[round - 1][c][b];
    MUST_OK(ingest_body_path(NULL, &path, round, m));
    MUST_OK(file_read(&bytes, (const char *)path.p, made.total));
    MUST(want && bytes.n == made.total && memcmp(bytes.p, want, made.total) == 0);
    MUST(!room || memcmp(room_bytes(room), want, made.total) == 0);
    room_give(room);
    now.taken++;
    buf_clear(&path);
    buf_clear(&bytes);
}

static void make_all(void)
{
    static void *state;
    static const uint8_t seed[SEAL_SEED] = { 5 };
    sefl_rng rng = rng_system();
    seal_key *csp;
    MUST(folder_make_quick(&state) == 0);
    file_sync_skip(true);
    bodies_make(&made.b, "pad", VALUES, 16);
    made.seal = seal_suite_named("x25519");
    const size_t skip = head_bytes(made.seal);
    made.total = skip + bodies_bytes(&made.b);
    MUST_OK(seal_key_from(&csp, made.seal, seed));
    MUST_OK(sign_key_new(&made.as, &rng));
    MUST_OK(body_pool_new(&made.pool, made.total, 2 * (size_t)SPOOL_ROOM(made.total)));
    for (unsigned c = 0; c < CLIENTS; c++) {
        MUST_OK(sign_key_new(&made.upload[c], &rng));
        made.who[c][0] = (uint8_t)(c + 1);
        for (unsigned b = 0; b < BODIES; b++) {
            uint8_t *rest = bodies_body(&made.b, c * BODIES + b, made.name[c][b]);
            for (unsigned r = 0; r < ROUNDS; r++) {
                const uint8_t pad[HEAD_SEED] = { 3 };
                const head_facts h = { .suite = made.seal,
                                       .task = task_id,
                                       .round = r + 1,
                                       .client = made.who[c],
                                       .units = made.name[c][b] };
                uint8_t *p = malloc(made.total);
                MUST(p);
                MUST_OK(head_make(p, &h, seal_key_pub(csp), pad, made.upload[c], &rng));
                memcpy(p + skip, rest, made.total - skip);
                made.body[r][c][b] = p;
            }
            sefl_free(rest);
        }
    }
    seal_key_free(csp);
}

static void remove_all(void)
{
    static void *state;
    folder_remove(&state);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint8_t next(rd *in)
{
    uint8_t b = 0;
    return rd_u8(in, &b) == SEFL_OK ? b : 0;
}

static void check_reply(ingest_reply *r, unsigned c, unsigned b, uint64_t round)
{
    envelope env;
    round_receipt got;
    MUST(r->status >= 200 && r->status < 600 && (unsigned)r->end < INGEST_ENDS);
    MUST((r->receipt.n > 0) == (r->status == 200));
    if (r->receipt.n > 0) {
        MUST_OK(envelope_read(&env, buf_span(&r->receipt)));
        MUST_OK(envelope_check_one(&env, SIGN_RECEIPT, SIGNER_AS, sign_key_pub(made.as)));
        MUST_OK(round_receipt_read(&got, env.content));
        MUST(memcmp(got.client, made.who[c], 32) == 0 && got.round == round);
        MUST(memcmp(got.body, made.name[c][b], 32) == 0 && got.bytes == made.total);
    }
    buf_clear(&r->receipt);
}

static ingest_ask ask_of(unsigned c, unsigned b, uint64_t round, uint64_t offset)
{
    static const uint8_t issuer[32] = { 9 };
    ingest_ask a = { .round = round,
                     .client = made.who[c],
                     .issuer = c > 1 ? issuer : NULL,
                     .name = "client",
                     .offset = offset,
                     .total = made.total,
                     .length = made.total - offset };
    memcpy(a.body, made.name[c][b], 32);
    return a;
}

static uint64_t stored(unsigned c, unsigned b, uint64_t round)
{
    ingest_reply r;
    const ingest_ask a = ask_of(c, b, round, 0);
    ingest_offset(now.in, &a, &r);
    MUST(r.status != 200 || r.offset <= made.total);
    return r.status == 200 ? r.offset : 0;
}

static void end_slot(unsigned s, bool broken)
{
    ingest_reply r = { 0 };
    const bool whole = slot[s].honest && slot[s].at == made.total && slot[s].round == now.open;
    const bool alone = !slot[s].u->over;
    journal_update had;
    const bool fresh = row_get(slot[s].round, made.who[slot[s].client], &had) == SEFL_ENOTFOUND;
    if (!broken) {
        upload_end(slot[s].u, &r);
        MUST(!whole || !alone || !fresh || r.status == 200);
        check_reply(&r, slot[s].client, slot[s].body, slot[s].round);
    }
    upload_free(slot[s].u);
    slot[s].u = NULL;
}

static void begin_slot(unsigned s, rd *in)
{
    const uint8_t b = next(in), how = next(in);
    ingest_reply r;
    if (slot[s].u)
        end_slot(s, true);
    slot[s].client = b % CLIENTS, slot[s].body = b / CLIENTS % BODIES;
    slot[s].round = how & 0x10 ? now.open + 1 : how & 0x20 ? now.open - 1 : now.open;
    slot[s].at = how & 1 ? stored(slot[s].client, slot[s].body, slot[s].round) : how & 2 ? 7 : 0;
    slot[s].honest = slot[s].at == 0;
    ingest_ask a = ask_of(slot[s].client, slot[s].body, slot[s].round, slot[s].at);
    a.total += how & 4 ? 1 : 0;
    a.length -= how & 8 && a.length > 0 ? 1 : 0;
    ingest_begin(now.in, &slot[s].u, &a, &r);
    if (!slot[s].u)
        check_reply(&r, slot[s].client, slot[s].body, slot[s].round);
    MUST(!slot[s].u || (slot[s].round == now.open && now.vouched[slot[s].client]));
}

/* The next n bytes of the body, or of the other one of the client; `change` is XORed onto one. */
static void feed(unsigned s, size_t n, bool other, uint8_t change)
{
    uint8_t piece[8192];
    const uint64_t left = made.total - slot[s].at;
    if (!slot[s].u || slot[s].round > ROUNDS)
        return;
    n = n < sizeof piece ? n : sizeof piece;
    n = n < left ? n : (size_t)left;
    const uint8_t *from = made.body[slot[s].round - 1][slot[s].client][slot[s].body ^ other];
    memcpy(piece, from + slot[s].at, n);
    if (n > 0)
        piece[change % n] ^= change;
    slot[s].honest = slot[s].honest && !other && change == 0;
    slot[s].at += n;
    if (n > 0 && upload_bytes(slot[s].u, span_of(piece, n)) != SEFL_OK)
        end_slot(s, false);
}

static bool still(void *ctx, const uint8_t client[32], const uint8_t *issuer)
{
    (void)ctx, (void)issuer;
    return !now.revoked[client[0] - 1];
}

static void next_round(void)
{
    now.open++;
    ingest_only_round(now.in, now.open);
    for (unsigned s = 0; s < SLOTS; s++) /* their next byte ends them, and files of old rounds go */
        if (slot[s].u) {
            slot[s].honest = false;
            feed(s, 1, false, 0);
            if (slot[s].u)
                end_slot(s, false);
        }
    wipe_round(now.open - 1);
}

static void step(rd *in)
{
    const uint8_t b = next(in), what = b % 10;
    const unsigned s = b / 10 % SLOTS;
    unsigned live = 0;
    switch (what) {
    case 0:
    case 1:
        begin_slot(s, in);
        break;
    case 2:
        feed(s, next(in) + 1u, false, 0);
        break;
    case 3:
        feed(s, 8192, false, 0);
        break;
    case 4:
        feed(s, 64u * next(in), b >= 40 && b < 80, next(in));
        break;
    case 5:
    case 6:
        if (slot[s].u)
            end_slot(s, what == 6);
        break;
    case 7:
        (void)stored(s, b / 40 % BODIES, now.open);
        break;
    case 8:
        now.vouched[s] = b < 200;
        now.revoked[s] = !now.revoked[s];
        ingest_sweep(now.in, still, NULL);
        break;
    default:
        if (now.open < ROUNDS)
            next_round();
    }
    for (unsigned i = 0; i < SLOTS; i++)
        live += slot[i].u != NULL;
    MUST(ingest_open(now.in) == live && now.taken == now.rows);
    MUST(ingest_count(now.in, INGEST_TAKEN) == now.taken && ingest_count(now.in, INGEST_DISK) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rd in = rd_over(span_of(data, size));
    if (!made.total) {
        make_all();
        MUST(atexit(remove_all) == 0);
    }
    memset(&now, 0, sizeof now);
    memset(slot, 0, sizeof slot);
    pthread_mutex_init(&now.lock, NULL);
    const uint8_t set = next(&in);
    for (unsigned c = 0; c < CLIENTS; c++)
        now.vouched[c] = !(set >> c & 1);
    now.open = 1;
    MUST_OK(ingest_new(&now.in,
                       &(ingest_config){ .task = task_id,
                                         .seal = made.seal,
                                         .ahe = &made.b.p,
                                         .key = made.as,
                                         .admission = { .lock = &now.lock,
                                                        .body_pool = set & 0x10 ? made.pool : NULL,
                                                        .admit = admit,
                                                        .has_body = has_body,
                                                        .took = took },
                                         .parts_most = set >> 5 & 1 }));
    ingest_only_round(now.in, 1);
    for (int i = 0; i < 64 && in.left > 0; i++)
        step(&in);
    for (unsigned s = 0; s < SLOTS; s++)
        if (slot[s].u)
            end_slot(s, true);
    ingest_free(now.in);
    pthread_mutex_destroy(&now.lock);
    MUST(body_pool_taken(made.pool) == 0);
    wipe_round(1), wipe_round(2);
    return 0;
}
