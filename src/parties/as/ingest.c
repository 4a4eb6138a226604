/* Design.
 *  1. A thread holds an upload's mutex while it processes bytes, never while it waits for the
 *     network. Order of locks: the list of uploads, an upload, the role, the journal; parts.h's,
 *     the aggregator's.
 *  2. A client has one unfinished upload per round: a new one ends the earlier ones, under their
 *     mutexes, before it asks for admission. So drop_others deletes only unacknowledged bodies.
 *  3. Nothing is acknowledged before spool_finish; journal_update_put happens under the role's
 *     lock, after a second admission check: a round that has closed meanwhile accepts nothing. */
#include "roles/aggregator/ingest.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "protocol/head.h"
#include "protocol/signed.h"
#include "store/disk/upload_keys.h"
#include "store/journal/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { HEX = 64, READ_PIECE = 256 << 10, RETRY_FULL_S = 30, RETRY_PARTS_S = 30, RETRY_DISK_S = 30 };

struct ingest {
    ingest_config c;
    body_rule rule;
    parts parts;
    uint64_t skip, total; /* bytes of a head; of a body */
    pthread_mutex_t live_lock;
    upload *live;
    _Atomic uint64_t only; /* the round that uploads may be for */
    _Atomic uint64_t counts[INGEST_ENDS];
    _Atomic uint64_t bytes;
    prom_histogram times;
};

struct upload {
    ingest *in;
    upload *next;
    uint64_t round, began_ns;
    round_entry who;
    char name[65];
    pthread_mutex_t lock;
    spool *spool;    /* NULL: replaced, failed or finished */
    body_room *room; /* the spool's; may be NULL */
    body_check check;
    uint8_t head[HEAD_MAX]; /* sealed tasks */
    size_t head_have, salt_have;
    uint8_t upload_key[SIGN_PUB_BYTES]; /* must have signed the head */
    bool bad_head;
    bool stays; /* a part of it may be on disk */
    bool over;  /* `reply` is its answer */
    ingest_reply reply;
};

const char *ingest_end_name(ingest_end e)
{
    static const char *const end_names[] = { INGEST_END_LIST(SEFL_TEXT) };
    return (unsigned)e < INGEST_ENDS ? end_names[e] : "?";
}

/* ---- answers --------------------------------------------------------------------------------- */

static void SEFL_PRINTF(5, 6)
    say(ingest *in, ingest_reply *r, ingest_end end, unsigned status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    r->end = end;
    r->status = status;
    vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
    atomic_fetch_add(&in->counts[end], 1);
}

static void say_disk(ingest *in, ingest_reply *r, const upload *u)
{
    /* the client must not see our paths */
    log_error(in->c.log, "update not written", lf_u64("round", u ? u->round : 0),
              lf_str("client", u ? u->name : ""), lf_str("why", sefl_last_error()));
    say(in, r, INGEST_DISK, 503, "the server could not store the update; try again later");
    r->retry_s = RETRY_DISK_S;
}

/* Answers a verdict other than AGG_ADMIT. */
static void say_verdict(ingest *in, ingest_reply *r, agg_verdict v)
{
    static const struct {
        ingest_end end;
        unsigned status;
    } as[] = {
        [AGG_HAVE] = { INGEST_AGAIN, 200 },    [AGG_OTHER] = { INGEST_OTHER, 409 },
        [AGG_LATE] = { INGEST_LATE, 410 },     [AGG_EARLY] = { INGEST_EARLY, 425 },
        [AGG_SIZE] = { INGEST_SIZE, 413 },     [AGG_LIMIT] = { INGEST_LIMIT, 409 },
        [AGG_FULL] = { INGEST_FULL, 503 },     [AGG_OVER] = { INGEST_LATE, 410 },
        [AGG_COPIED] = { INGEST_COPIED, 409 }, [AGG_SOON] = { INGEST_LIMIT, 409 },
    };
    say(in, r, as[v].end, as[v].status, "%s", agg_verdict_text(v));
    if (v == AGG_FULL)
        r->retry_s = RETRY_FULL_S;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* round-N/BODIES/CLIENT */
static sefl_status folder_in(journal *j, char out[PATH_MAX], uint64_t round, const char *bodies,
                             const uint8_t client[32])
{
    char hex[HEX + 1];
    sefl_buf path = { 0 };
    sefl_status st = journal_path(j, &path, round, bodies);
    if (st == SEFL_OK)
        st = file_path(out, "%s/%s", (const char *)path.p, hex_write(hex, client, 32));
    buf_clear(&path);
    return st;
}

static sefl_status client_folder(const ingest *in, char out[PATH_MAX], uint64_t round,
                                 const uint8_t client[32])
{
    return folder_in(in->c.journal, out, round, in->c.bodies, client);
}

sefl_status ingest_body_path(journal *j, sefl_buf *out, uint64_t round, const round_entry *m)
{
    return ingest_body_in(j, out, round, INGEST_BODIES, m);
}

sefl_status ingest_body_in(journal *j, sefl_buf *out, uint64_t round, const char *bodies,
                           const round_entry *m)
{
    char folder[PATH_MAX], hex[HEX + 1];
    SEFL_PASS(folder_in(j, folder, round, bodies, m->client));
    SEFL_PASS(wr_fmt(out, "%s/%s", folder, hex_write(hex, m->body, 32)));
    SEFL_PASS(wr_u8(out, 0));
    out->n--; /* the terminator follows the path */
    return SEFL_OK;
}

/* Returns the path of this body's file in its client's folder: unfinished, or complete. */
static sefl_status file_of(char out[PATH_MAX], const char *folder, const upload *u, bool whole)
{
    char hex[HEX + 1];
    return file_path(out, "%s/%s%s", folder, hex_write(hex, u->who.body, 32), whole ? "" : ".part");
}

/* Deletes the client's other bodies of this round, which it abandoned. */
static void drop_others(const char *folder, const uint8_t body[32])
{
    char hex[HEX + 1], name[PATH_MAX];
    hex_write(hex, body, 32);
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && strncmp(e->d_name, hex, HEX) != 0 &&
            snprintf(name, sizeof name, "%s/%s", folder, e->d_name) < (int)sizeof name)
            unlink(name);
    closedir(d);
}

/* ---- the object ------------------------------------------------------------------------------ */

sefl_status ingest_new(ingest **out, const ingest_config *c)
{
    SEFL_MAKE(ingest, in, out);
    in->c = *c;
    in->c.bodies = c->bodies ? c->bodies : INGEST_BODIES;
    in->skip = head_bytes(c->seal);
    in->total = in->skip + UPDATE_SALT + ahe_body_bytes(c->ahe);
    pthread_mutex_init(&in->live_lock, NULL);
    parts_init(&in->parts, c->parts_most);
    SEFL_TRY(body_rule_init(&in->rule, c->ahe, c->pub));
    SEFL_HAND_OVER(out, in, ingest_free);
}

void ingest_free(ingest *in)
{
    if (!in)
        return;
    body_rule_clear(&in->rule);
    parts_clear(&in->parts);
    pthread_mutex_destroy(&in->live_lock);
    sefl_free(in);
}

void ingest_only_round(ingest *in, uint64_t round)
{
    atomic_store(&in->only, round);
}

void ingest_sweep(ingest *in, parts_still *still, void *ctx)
{
    parts_sweep(&in->parts, still, ctx);
}

uint64_t ingest_count(const ingest *in, ingest_end e)
{
    return atomic_load(&in->counts[e]);
}

uint64_t ingest_bytes(const ingest *in)
{
    return atomic_load(&in->bytes);
}

uint64_t ingest_open(ingest *in)
{
    uint64_t n = 0;
    pthread_mutex_lock(&in->live_lock);
    for (const upload *u = in->live; u; u = u->next)
        n++;
    pthread_mutex_unlock(&in->live_lock);
    return n;
}

const prom_histogram *ingest_times(const ingest *in)
{
    return &in->times;
}

/* Keeps what has arrived, so that the client can resume. */
static void close_spool(upload *u)
{
    spool_close(u->spool); /* first: it may still write from the room */
    u->spool = NULL;
    room_give(u->room);
    u->room = NULL;
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Adds u to the list, locks it, and ends its client's other uploads in this round: from here on no
 * other upload of this client and round can be acknowledged. */
static void take_over(ingest *in, upload *u)
{
    pthread_mutex_lock(&in->live_lock);
    for (upload *v = in->live; v; v = v->next) {
        if (v->round != u->round || memcmp(v->who.client, u->who.client, 32) != 0)
            continue;
        pthread_mutex_lock(&v->lock);
        if (!v->over) {
            close_spool(v);
            v->over = true;
            say(in, &v->reply, INGEST_REPLACED, 409, "replaced by a later connection");
        }
        pthread_mutex_unlock(&v->lock);
    }
    u->next = in->live;
    in->live = u;
    pthread_mutex_lock(&u->lock);
    pthread_mutex_unlock(&in->live_lock);
}

/* Signs the receipt of an update. Ed25519 is deterministic, so AS need not store receipts. */
static sefl_status make_receipt(ingest *in, const journal_update *u, sefl_buf *out)
{
    uint8_t bytes[RECEIPT_BYTES];
    round_receipt r = { .round = u->round, .bytes = u->bytes };
    memcpy(r.task, in->c.task, sizeof r.task);
    memcpy(r.client, u->client, sizeof r.client);
    memcpy(r.body, u->body, sizeof r.body);
    round_receipt_write(bytes, &r);
    envelope env = { .kind = SIGN_RECEIPT, .content = span_of(bytes, sizeof bytes) };
    SEFL_PASS(envelope_sign(&env, SIGNER_AS, in->c.key));
    return envelope_write(out, &env);
}

/* The role's lock, which keeps the round as it is. If several processes collect the round, only the
 * store can do that: `put` does. */
static void lock_role(ingest *in)
{
    if (!in->c.admission.put)
        pthread_mutex_lock(in->c.admission.lock);
}

static void unlock_role(ingest *in)
{
    if (!in->c.admission.put)
        pthread_mutex_unlock(in->c.admission.lock);
}

/* ask_admission of several processes. */
static sefl_status ask_shared(ingest *in, const upload *up, uint64_t bytes, agg_verdict *v,
                              journal_update *had)
{
    const ingest_admission *a = &in->c.admission;
    agg_upload u = { .round = up->round, .bytes = bytes };
    bool copied = false;
    memcpy(u.body, up->who.body, sizeof u.body);
    SEFL_PASS(a->know(a->ctx, &up->who, &u, had, &copied));
    pthread_mutex_lock(a->lock);
    *v = a->admit(a->ctx, &u);
    pthread_mutex_unlock(a->lock);
    if (*v == AGG_ADMIT && copied)
        *v = AGG_COPIED;
    return SEFL_OK;
}

/* Inserts the row. If another process or the leader was faster, changes the verdict. */
static sefl_status put_shared(ingest *in, const upload *up, const journal_update *j, agg_verdict *v,
                              journal_update *had)
{
    const ingest_admission *a = &in->c.admission;
    sefl_status st = a->put(a->ctx, j);
    if (st != SEFL_EEXIST && st != SEFL_ESTATE && st != SEFL_ERANGE)
        return st;
    SEFL_PASS(ask_shared(in, up, in->total, v, had));
    if (*v == AGG_ADMIT)
        *v = st == SEFL_EEXIST ? AGG_COPIED : st == SEFL_ESTATE ? AGG_LATE : AGG_FULL;
    return SEFL_OK;
}

/* Asks for admission with what the journal knows about this client. *had: the stored update, for
 * AGG_HAVE. With the role's lock. */
static sefl_status ask_admission(ingest *in, const upload *up, uint64_t bytes, agg_verdict *v,
                                 journal_update *had)
{
    const ingest_admission *a = &in->c.admission;
    agg_upload u = { .round = up->round, .bytes = bytes };
    if (a->know)
        return ask_shared(in, up, bytes, v, had);
    memcpy(u.body, up->who.body, sizeof u.body);
    sefl_status st = journal_update_get(in->c.journal, up->round, up->who.client, had);
    u.have = st == SEFL_OK;
    if (u.have)
        memcpy(u.have_body, had->body, sizeof u.have_body);
    else if (st != SEFL_ENOTFOUND)
        return st;
    SEFL_PASS(journal_client_rounds(in->c.journal, up->who.client, &u.rounds_taken, &u.last_taken));
    *v = a->admit(a->ctx, &u);
    if (*v == AGG_ADMIT && a->has_body(a->ctx, &up->who))
        *v = AGG_COPIED;
    return SEFL_OK;
}

/* True if admitted; otherwise answers. Without the lock: a signature takes time. */
static bool may_go_on(ingest *in, const upload *u, ingest_reply *r, sefl_status st, agg_verdict v,
                      const journal_update *had)
{
    if (st == SEFL_OK && v == AGG_HAVE)
        st = make_receipt(in, had, &r->receipt);
    if (st != SEFL_OK) {
        buf_clear(&r->receipt);
        say_disk(in, r, u);
    } else if (v != AGG_ADMIT) {
        say_verdict(in, r, v);
    }
    return st == SEFL_OK && v == AGG_ADMIT;
}

static bool admitted(ingest *in, const upload *u, uint64_t bytes, ingest_reply *r)
{
    agg_verdict v = AGG_OVER;
    journal_update had;
    lock_role(in);
    sefl_status st = ask_admission(in, u, bytes, &v, &had);
    unlock_role(in);
    return may_go_on(in, u, r, st, v, &had);
}

/* ---- checking -------------------------------------------------------------------------------- */

/* True if this client has vouched for an upload key; otherwise answers. */
static bool has_voucher(ingest *in, upload *u, ingest_reply *r)
{
    uint64_t serial;
    if (!in->c.seal)
        return true;
    sefl_status st = upload_key_get(in->c.journal, u->who.client, &serial, u->upload_key);
    if (st == SEFL_ENOTFOUND)
        say(in, r, INGEST_VOUCHER, 403, "no voucher for this client's upload key");
    else if (st != SEFL_OK)
        say_disk(in, r, u);
    return st == SEFL_OK;
}

/* Verifies the complete head. SEFL_EPROTO, SEFL_EAUTH. */
static sefl_status check_head(upload *u)
{
    sefl_status st = SEFL_OK;
    const ingest_config *c = &u->in->c;
    head h;
    SEFL_TRY(head_read(&h, c->seal, span_of(u->head, u->in->skip)));
    SEFL_CHECK(memcmp(h.client, u->who.client, sizeof h.client) == 0, SEFL_EAUTH,
               "the head is another client's");
    SEFL_CHECK(memcmp(h.units, u->who.body, sizeof h.units) == 0, SEFL_EAUTH,
               "the head is for another update than the path names");
    SEFL_TRY(head_check(&h, c->task, u->round, u->upload_key));
done:
    u->bad_head = st != SEFL_OK;
    return st;
}

/* Checks the next bytes of the body, in order. */
static sefl_status check_piece(upload *u, sefl_span piece)
{
    size_t left = (size_t)u->in->skip - u->head_have;
    if (left > 0) {
        size_t n = piece.n < left ? piece.n : left;
        memcpy(u->head + u->head_have, piece.p, n);
        u->head_have += n;
        piece = span_of(piece.p + n, piece.n - n);
        if (n < left)
            return SEFL_OK;
        SEFL_PASS(check_head(u));
    }
    size_t salt = UPDATE_SALT - u->salt_have;
    salt = piece.n < salt ? piece.n : salt;
    u->salt_have += salt;
    piece = span_of(piece.p + salt, piece.n - salt);
    if (piece.n > 0)
        SEFL_PASS(body_check_feed(&u->check, piece));
    return SEFL_OK;
}

/* Checks bytes again that were stored before this upload: they may come from a process that died
 * before it checked them, and a unit may cross the boundary. */
static sefl_status check_earlier(upload *u, const char *folder, uint64_t offset)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX] = "";
    uint8_t *piece = NULL;
    int fd = -1;
    if (offset == 0)
        return SEFL_OK;
    SEFL_TRY(sefl_new(&piece, READ_PIECE, 1));
    for (int whole = 0; whole < 2 && fd < 0; whole++)
        if (file_of(path, folder, u, whole) == SEFL_OK)
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    for (size_t got, at = 0; at < offset; at += got) {
        size_t want = offset - at < READ_PIECE ? (size_t)(offset - at) : READ_PIECE;
        SEFL_TRY(file_read_at(fd, path, at, piece, want, &got));
        SEFL_CHECK(got > 0, SEFL_EIO, "%s is shorter than it was", path);
        SEFL_TRY(check_piece(u, span_of(piece, got)));
    }
done:
    if (fd >= 0)
        close(fd);
    sefl_free(piece);
    return st;
}

/* Deletes a part that can never become an update. */
static void drop_part(ingest *in, upload *u)
{
    char folder[PATH_MAX], path[PATH_MAX];
    u->stays = false;
    if (atomic_load(&in->only) != u->round || /* otherwise the whole round is deleted anyway */
        client_folder(in, folder, u->round, u->who.client) != SEFL_OK)
        return;
    for (int whole = 0; whole < 2; whole++)
        if (file_of(path, folder, u, whole) == SEFL_OK)
            unlink(path);
}

/* Answers a failure to check, write or finish the body. */
static void say_failed(ingest *in, upload *u, ingest_reply *r, sefl_status st)
{
    char why[200];
    snprintf(why, sizeof why, "%s", sefl_last_error());
    close_spool(u);
    if (u->bad_head) {
        drop_part(in, u);
        say(in, r, INGEST_HEAD, 422, "%s", why);
    } else if (st == SEFL_EPROTO || st == SEFL_ECRYPTO) {
        drop_part(in, u);
        say(in, r, INGEST_NOT_CIPHER, 422, "%s", why);
    } else if (st == SEFL_EAUTH) {
        u->stays = false; /* the spool has deleted it */
        say(in, r, INGEST_HASH, 422, "the bytes do not match the announced hash");
    } else if (st == SEFL_ERANGE) {
        say(in, r, INGEST_SIZE, 413, "%s", why);
    } else {
        say_disk(in, r, u);
    }
}

/* Moves the part of this body from another process's folder of bodies to ours, unless that process
 * still receives it: then it has the part's lock (spool.h). */
static bool adopt_from(const upload *u, const char *folder, const char *theirs)
{
    char from[PATH_MAX], to[PATH_MAX], client[HEX + 1], body[HEX + 1];
    hex_write(client, u->who.client, 32);
    hex_write(body, u->who.body, 32);
    if (file_path(from, "%s/%s/%s.part", theirs, client, body) != SEFL_OK ||
        file_of(to, folder, u, false) != SEFL_OK)
        return false;
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool moved = flock(fd, LOCK_EX | LOCK_NB) == 0 && rename(from, to) == 0;
    close(fd);
    return moved;
}

/* Several processes: looks for the part that a client left at another one. */
static void adopt_part(ingest *in, const upload *u, const char *folder)
{
    char theirs[PATH_MAX], ours[PATH_MAX], *slash;
    sefl_buf bodies = { 0 };
    DIR *d = NULL;
    if (journal_path(in->c.journal, &bodies, u->round, in->c.bodies) != SEFL_OK ||
        file_path(ours, "%s", (const char *)bodies.p) != SEFL_OK ||
        file_make_folder(ours, 0700) != SEFL_OK || file_make_folder(folder, 0700) != SEFL_OK)
        goto done;
    slash = strrchr((char *)bodies.p, '/');
    *slash = 0;
    d = opendir((const char *)bodies.p);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, INGEST_BODIES "-", sizeof INGEST_BODIES) == 0 &&
            strcmp(e->d_name, in->c.bodies) != 0 &&
            file_path(theirs, "%s/%s", (const char *)bodies.p, e->d_name) == SEFL_OK &&
            adopt_from(u, folder, theirs))
            break;
done:
    if (d)
        closedir(d);
    buf_clear(&bodies);
}

/* Returns the offset at which this body continues, by the size of the stored part; reads
 * nothing. */
static sefl_status offset_here(ingest *in, const upload *u, bool resumes, uint64_t *offset)
{
    char folder[PATH_MAX];
    SEFL_PASS(client_folder(in, folder, u->round, u->who.client));
    *offset = spool_have(folder, u->who.body, in->total);
    if (*offset == 0 && resumes && in->c.admission.put) {
        adopt_part(in, u, folder);
        *offset = spool_have(folder, u->who.body, in->total);
    }
    return SEFL_OK;
}

/* True if this client may leave a part here; otherwise answers. */
static bool takes_part(ingest *in, upload *u, const ingest_ask *ask, ingest_reply *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf bodies = { 0 };
    bool fits = false;
    SEFL_TRY(journal_path(in->c.journal, &bodies, u->round, in->c.bodies));
    SEFL_TRY(parts_begin(&in->parts, u->round, (const char *)bodies.p, u->who.client, ask->issuer,
                         u, &fits));
    u->stays = fits;
    if (fits) /* spool.h makes the client's folder below it */
        SEFL_TRY(file_make_folder((const char *)bodies.p, 0700));
done:
    if (st != SEFL_OK) {
        say_disk(in, r, u);
    } else if (!fits) {
        say(in, r, INGEST_PARTS, 503, "clients of your CA have too many unfinished uploads here");
        r->retry_s = RETRY_PARTS_S;
    }
    buf_clear(&bodies);
    return st == SEFL_OK && fits;
}

static sefl_status open_spool(ingest *in, upload *u, uint64_t offset)
{
    char folder[PATH_MAX];
    SEFL_PASS(client_folder(in, folder, u->round, u->who.client));
    drop_others(folder, u->who.body);
    if (offset == 0) /* otherwise the first bytes are not in the room */
        u->room = body_pool_take(in->c.admission.body_pool);
    SEFL_PASS(spool_open(&u->spool, folder, u->who.body, in->skip, in->total,
                         u->room ? room_bytes(u->room) : NULL));
    if (!spool_in_room(u->spool)) {
        room_give(u->room);
        u->room = NULL;
    }
    return check_earlier(u, folder, spool_offset(u->spool));
}

static round_entry who_asks(const ingest_ask *ask)
{
    round_entry m = { 0 };
    memcpy(m.client, ask->client, sizeof m.client);
    memcpy(m.body, ask->body, sizeof m.body);
    return m;
}

void ingest_begin(ingest *in, upload **out, const ingest_ask *ask, ingest_reply *r)
{
    sefl_status st = SEFL_OK;
    upload *u = NULL;
    *out = NULL;
    *r = (ingest_reply){ .offset = UINT64_MAX };
    if (sefl_new(&u, 1, sizeof *u) != SEFL_OK) {
        say_disk(in, r, NULL);
        return;
    }
    u->in = in;
    u->round = ask->round;
    u->began_ns = clock_now_ns();
    u->reply.offset = UINT64_MAX;
    u->check.rule = &in->rule;
    u->who = who_asks(ask);
    snprintf(u->name, sizeof u->name, "%s", ask->name ? ask->name : "");
    pthread_mutex_init(&u->lock, NULL);

    take_over(in, u); /* u->lock is held from here */
    if (!admitted(in, u, ask->total, r))
        goto done;
    if (ask->offset > ask->total || ask->length != ask->total - ask->offset) {
        say(in, r, INGEST_SIZE, 413, "%" PRIu64 " bytes announced, %" PRIu64 " expected",
            ask->length, ask->offset > ask->total ? 0 : ask->total - ask->offset);
        goto done;
    }
    if (!has_voucher(in, u, r))
        goto done;
    uint64_t here = ask->offset;
    st = offset_here(in, u, ask->offset > 0, &here);
    if (st == SEFL_OK && here == ask->offset) { /* otherwise reading it is a waste */
        if (!takes_part(in, u, ask, r))
            goto done;
        st = open_spool(in, u, here);
        here = st == SEFL_OK ? spool_offset(u->spool) : here;
    }
    if (st != SEFL_OK) {
        say_failed(in, u, r, st);
    } else if (here != ask->offset) {
        r->offset = here;
        say(in, r, INGEST_OFFSET, 409, "%" PRIu64 " bytes are stored, not %" PRIu64, r->offset,
            ask->offset);
    } else {
        *out = u;
    }
done:
    u->over = *out == NULL; /* it is counted already */
    pthread_mutex_unlock(&u->lock);
    if (!*out)
        upload_free(u);
}

/* True if this body is arriving now: then its bytes are not all in the file yet. */
static bool offset_live(ingest *in, const upload *u, uint64_t *offset)
{
    bool found = false;
    pthread_mutex_lock(&in->live_lock);
    for (upload *v = in->live; v && !found; v = v->next) {
        if (v->round != u->round || memcmp(v->who.client, u->who.client, 32) != 0 ||
            memcmp(v->who.body, u->who.body, 32) != 0)
            continue;
        pthread_mutex_lock(&v->lock);
        if (v->spool)
            *offset = spool_offset(v->spool), found = true;
        pthread_mutex_unlock(&v->lock);
    }
    pthread_mutex_unlock(&in->live_lock);
    return found;
}

void ingest_offset(ingest *in, const ingest_ask *ask, ingest_reply *r)
{
    upload u = { .round = ask->round, .who = who_asks(ask) };
    agg_verdict v = AGG_OVER;
    journal_update had;
    *r = (ingest_reply){ .offset = UINT64_MAX };
    lock_role(in);
    sefl_status st = ask_admission(in, &u, in->total, &v, &had);
    unlock_role(in);
    if (st == SEFL_OK && (v == AGG_ADMIT || v == AGG_COPIED || v == AGG_HAVE)) {
        r->status = 200;
        r->offset = in->total;
        if (v != AGG_HAVE && !offset_live(in, &u, &r->offset))
            st = offset_here(in, &u, true, &r->offset);
    } else if (st == SEFL_OK) {
        say_verdict(in, r, v);
    }
    if (st != SEFL_OK)
        say_disk(in, r, &u);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

sefl_status upload_bytes(upload *u, sefl_span piece)
{
    sefl_status st = SEFL_OK;
    ingest *in = u->in;
    pthread_mutex_lock(&u->lock);
    SEFL_CHECK(!u->over, SEFL_ESTATE, "this upload is over");
    if (atomic_load(&in->only) != u->round) {
        u->over = true;
        close_spool(u);
        say_verdict(in, &u->reply, AGG_LATE);
        SEFL_CHECK(false, SEFL_ESTATE, "the round is over");
    }
    /* check first: a stored part has passed the checks, except for the unit at its end */
    st = check_piece(u, piece);
    if (st == SEFL_OK)
        st = spool_write(u->spool, piece);
    if (st != SEFL_OK) {
        u->over = true;
        say_failed(in, u, &u->reply, st);
        goto done;
    }
    atomic_fetch_add(&in->bytes, piece.n);
done:
    pthread_mutex_unlock(&u->lock);
    return st;
}

/* The body is durable: checks admission again, writes the journal and adds the update to the set;
 * all or nothing. */
static void acknowledge(ingest *in, upload *u, ingest_reply *r)
{
    agg_verdict v = AGG_OVER;
    sefl_buf receipt = { 0 };
    journal_update had, j = { .round = u->round,
                              .bytes = in->total,
                              .when_ms = in->c.wall ? clock_ms(in->c.wall) : 0 };
    memcpy(j.client, u->who.client, sizeof j.client);
    memcpy(j.body, u->who.body, sizeof j.body);
    snprintf(j.name, sizeof j.name, "%s", u->name);
    sefl_status st = make_receipt(in, &j, &receipt); /* outside the lock too */

    lock_role(in);
    if (st == SEFL_OK && in->c.admission.put) { /* its statement checks everything again */
        v = AGG_ADMIT;
        st = put_shared(in, u, &j, &v, &had);
    } else if (st == SEFL_OK) {
        st = ask_admission(in, u, in->total, &v, &had);
        if (st == SEFL_OK && v == AGG_ADMIT)
            st = journal_update_put(in->c.journal, &j);
    }
    if (st == SEFL_OK && v == AGG_ADMIT) {
        in->c.admission.took(in->c.admission.ctx, u->round, &u->who, u->room);
        u->room = NULL;
        u->stays = false;
    }
    unlock_role(in);
    if (may_go_on(in, u, r, st, v, &had)) {
        say(in, r, INGEST_TAKEN, 200, "accepted");
        r->receipt = receipt, receipt = (sefl_buf){ 0 };
    } else if (r->status != 200 && r->end != INGEST_DISK) {
        drop_part(in, u); /* not after our own failure: a row whose sync failed may still exist */
    }
    buf_clear(&receipt);
}

void upload_end(upload *u, ingest_reply *r)
{
    sefl_status st = SEFL_OK;
    ingest *in = u->in;
    pthread_mutex_lock(&u->lock);
    if (!u->over) {
        u->over = true;
        if (atomic_load(&in->only) != u->round) {
            say_verdict(in, &u->reply, AGG_LATE);
        } else if (spool_offset(u->spool) < in->total) {
            say(in, &u->reply, INGEST_CUT, 400, "ended after %" PRIu64 " of %" PRIu64 " bytes",
                spool_offset(u->spool), in->total);
            u->reply.offset = spool_offset(u->spool);
        } else {
            st = body_check_end(&u->check);
            if (st == SEFL_OK)
                st = spool_finish(u->spool);
            if (st != SEFL_OK) {
                say_failed(in, u, &u->reply, st);
            } else {
                spool_close(u->spool); /* the room goes with the update */
                u->spool = NULL;
                acknowledge(in, u, &u->reply);
            }
        }
    }
    close_spool(u);
    *r = u->reply; /* with the receipt */
    u->reply.receipt = (sefl_buf){ 0 };
    pthread_mutex_unlock(&u->lock);
}

void upload_free(upload *u)
{
    if (!u)
        return;
    ingest *in = u->in;
    pthread_mutex_lock(&in->live_lock);
    for (upload **p = &in->live; *p; p = &(*p)->next)
        if (*p == u) {
            *p = u->next;
            break;
        }
    pthread_mutex_unlock(&in->live_lock);
    if (!u->over)
        atomic_fetch_add(&in->counts[INGEST_CUT], 1);
    prom_histogram_add(&in->times, clock_now_ns() - u->began_ns);
    close_spool(u);
    parts_end(&in->parts, u, u->stays);
    body_check_clear(&u->check);
    buf_clear(&u->reply.receipt);
    pthread_mutex_destroy(&u->lock);
    sefl_free(u);
}
