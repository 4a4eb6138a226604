/* Design. Three arrays, grown by sefl_room; members and tokens are sorted by their 32 bytes, so
 * that a server finds a peer by bisection. The reader accepts exactly what the printer prints:
 * after parsing, the list is printed again and compared. */
#define _GNU_SOURCE
#include "trust/trust.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_WAIT_MS = 3000, LOCK_STEP_MS = 10 };

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
static const char head_line[] = "sefl trust 1\n";

const char *trust_role_name(trust_role r)
{
    static const char *const names[] = {
        [TRUST_CLIENT] = "client", [TRUST_AGGREGATOR] = "aggregator", [TRUST_CSP] = "csp"
    };
    return r <= TRUST_CSP ? names[r] : NULL;
}

trust_role trust_role_of(const char *name)
{
    for (trust_role r = TRUST_CLIENT; r <= TRUST_CSP; r++)
        if (strcmp(name, trust_role_name(r)) == 0)
            return r;
    return (trust_role)0;
}

bool trust_name_ok(const char *name)
{
    size_t n = strnlen(name, TRUST_NAME_MAX + 1);
    return n >= 1 && n <= TRUST_NAME_MAX && strspn(name, plain) == n && !strchr("._-", name[0]);
}

sefl_status trust_name_check(const char *name)
{
    SEFL_NEED(trust_name_ok(name), SEFL_EINVAL,
              "a site's name has 1 to 64 letters, digits, '.', '_' and '-', not \"%.80s\"", name);
    return SEFL_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

sefl_status trust_new(trust **out)
{
    SEFL_PASS(sefl_new(out, 1, sizeof **out));
    atomic_init(&(*out)->holders, 1);
    return SEFL_OK;
}

trust *trust_hold(const trust *t)
{
    trust *mine = (trust *)(uintptr_t)t; /* only the count changes, and it is atomic */
    if (mine)
        atomic_fetch_add(&mine->holders, 1);
    return mine;
}

static void der_free(trust_issuer *i)
{
    sefl_free((void *)(uintptr_t)i->der.p);
    i->der = (sefl_span){ 0 };
}

void trust_free(trust *t)
{
    if (!t || atomic_fetch_sub(&t->holders, 1) != 1)
        return;
    for (size_t i = 0; i < t->issuers; i++)
        der_free(&t->issuer[i]);
    sefl_free(t->issuer);
    sefl_free(t->member);
    sefl_free(t->token);
    sefl_free(t);
}

/* Makes room for one more item of `size` bytes. */
static sefl_status room(void *array, size_t n, size_t *cap, size_t size)
{
    SEFL_NEED(n < TRUST_ITEMS_MAX, SEFL_ERANGE, "trust list: more than %d entries of a kind",
              TRUST_ITEMS_MAX);
    return sefl_room(array, cap, n + 1, size);
}

/* Returns the index of the first item whose key is not below this one; items begin with their
 * key. */
static size_t place(const void *items, size_t n, size_t size, const uint8_t key[TRUST_KEY])
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (memcmp((const uint8_t *)items + mid * size, key, TRUST_KEY) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

trust_member *trust_find(const trust *t, const uint8_t key[TRUST_KEY])
{
    size_t i = place(t->member, t->members, sizeof *t->member, key);
    return i < t->members && memcmp(t->member[i].key, key, TRUST_KEY) == 0 ? &t->member[i] : NULL;
}

trust_member *trust_find_name(const trust *t, const char *name)
{
    for (size_t i = 0; i < t->members; i++)
        if (t->member[i].state == TRUST_ACTIVE && strcmp(t->member[i].name, name) == 0)
            return &t->member[i];
    return NULL;
}

trust_token *trust_find_token(const trust *t, const uint8_t id[TRUST_KEY])
{
    size_t i = place(t->token, t->tokens, sizeof *t->token, id);
    return i < t->tokens && memcmp(t->token[i].id, id, TRUST_KEY) == 0 ? &t->token[i] : NULL;
}

trust_issuer *trust_find_issuer(const trust *t, const uint8_t key[TRUST_KEY], trust_role role)
{
    for (size_t i = 0; i < t->issuers; i++)
        if (t->issuer[i].role == role && memcmp(t->issuer[i].key, key, TRUST_KEY) == 0)
            return &t->issuer[i];
    return NULL;
}

size_t trust_count(const trust *t, trust_role role)
{
    size_t n = 0;
    for (size_t i = 0; i < t->members; i++)
        n += t->member[i].role == role && t->member[i].state == TRUST_ACTIVE;
    return n;
}

/* Replaces the item with the same key, or inserts the new one in order. Items begin with their key;
 * the new one must not be part of the list. */
static sefl_status put_sorted(void *array, size_t *n, size_t *cap, const void *item, size_t size)
{
    uint8_t *items = *(uint8_t **)array;
    size_t i = place(items, *n, size, item);
    if (i == *n || memcmp(items + i * size, item, TRUST_KEY) != 0) {
        SEFL_PASS(room(array, *n, cap, size));
        items = *(uint8_t **)array;
        memmove(items + (i + 1) * size, items + i * size, (*n - i) * size);
        ++*n;
    }
    memcpy(items + i * size, item, size);
    return SEFL_OK;
}

sefl_status trust_member_put(trust *t, const trust_member *m)
{
    return put_sorted(&t->member, &t->members, &t->members_room, m, sizeof *m);
}

void trust_member_drop(trust *t, trust_member *m)
{
    size_t i = (size_t)(m - t->member);
    memmove(m, m + 1, (t->members - i - 1) * sizeof *m);
    t->members--;
}

sefl_status trust_token_put(trust *t, const trust_token *k)
{
    return put_sorted(&t->token, &t->tokens, &t->tokens_room, k, sizeof *k);
}

sefl_status trust_issuer_put(trust *t, const trust_issuer *issuer)
{
    sefl_status st = SEFL_OK;
    uint8_t *der = NULL;
    trust_issuer copy = *issuer, *old;
    SEFL_CHECK(issuer->der.n >= 1 && issuer->der.n <= TRUST_DER_MAX, SEFL_ERANGE,
               "trust list: a CA certificate of %zu bytes, at most %d", issuer->der.n,
               TRUST_DER_MAX);
    SEFL_TRY(sefl_new(&der, issuer->der.n, 1));
    memcpy(der, issuer->der.p, issuer->der.n);
    old = trust_find_issuer(t, issuer->key, issuer->role);
    if (!old) {
        SEFL_TRY(room(&t->issuer, t->issuers, &t->issuers_room, sizeof copy));
        old = &t->issuer[t->issuers++];
    } else {
        der_free(old);
    }
    copy.der = span_of(der, issuer->der.n), der = NULL;
    *old = copy;
done:
    sefl_free(der);
    return st;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A line to write (out) or to read. Each kind of entry names its fields once, for both: a field
 * function appends the value to out, or reads it from the next word. */
typedef struct line {
    sefl_buf *out;       /* NULL: reads */
    const char *p, *end; /* what is left to read, without the line feed */
    size_t number;
    uint8_t der[TRUST_DER_MAX]; /* the certificate that was read */
} line;

static sefl_status bad(const line *l, const char *what)
{
    return sefl_fail(SEFL_EPROTO, "trust list, line %zu: %s", l->number, what);
}

static sefl_span word(line *l)
{
    const char *blank = memchr(l->p, ' ', (size_t)(l->end - l->p));
    const char *stop = blank ? blank : l->end;
    sefl_span w = span_of(l->p, (size_t)(stop - l->p));
    l->p = blank ? blank + 1 : l->end;
    return w;
}

static sefl_status key(line *l, uint8_t k[TRUST_KEY])
{
    char hex[HEX_CHARS(TRUST_KEY)];
    if (l->out)
        return wr_fmt(l->out, " %s", hex_write(hex, k, TRUST_KEY));
    return hex_read_any(k, TRUST_KEY, word(l)) ? SEFL_OK : bad(l, "64 hex digits expected");
}

static sefl_status number(line *l, int64_t *v)
{
    if (l->out)
        return wr_fmt(l->out, " %" PRId64, *v);
    sefl_span w = word(l);
    bool good = w.n >= 1 && w.n <= 18;
    *v = 0;
    for (size_t i = 0; good && i < w.n; i++) {
        good = w.p[i] >= '0' && w.p[i] <= '9';
        *v = 10 * *v + (w.p[i] - '0');
    }
    return good ? SEFL_OK : bad(l, "a number expected");
}

/* A number from first to last. */
static sefl_status choice(line *l, unsigned first, unsigned last, unsigned *v)
{
    int64_t n = *v;
    SEFL_PASS(number(l, &n));
    if (!l->out && (n < first || n > last))
        return bad(l, "an unknown state");
    *v = (unsigned)n;
    return SEFL_OK;
}

static sefl_status write_text(sefl_buf *b, const char *text)
{
    if (!*text || strcmp(text, "-") == 0)
        return wr_fmt(b, *text ? " %%2D" : " -");
    SEFL_PASS(wr_u8(b, ' '));
    for (; *text; text++)
        SEFL_PASS(strchr(plain, *text) ? wr_u8(b, (uint8_t)*text)
                                       : wr_fmt(b, "%%%02X", (unsigned)(uint8_t)*text));
    return SEFL_OK;
}

static sefl_status text(line *l, char out[TRUST_NAME_MAX + 1])
{
    if (l->out)
        return write_text(l->out, out);
    sefl_span w = word(l);
    size_t n = 0;
    if (w.n == 1 && w.p[0] == '-')
        w.n = 0;
    for (size_t i = 0; i < w.n; i++) {
        int c = w.p[i];
        if (c == '%') {
            int high = i + 2 < w.n ? hex_digit((char)w.p[i + 1]) : -1;
            int low = i + 2 < w.n ? hex_digit((char)w.p[i + 2]) : -1;
            c = high < 0 || low < 0 ? 0 : 16 * high + low;
            i += 2;
        }
        if (c < 0x20 || c >= 0x7f || n == TRUST_NAME_MAX)
            return bad(l, "not a name");
        out[n++] = (char)c;
    }
    out[n] = 0;
    return SEFL_OK;
}

static sefl_status role(line *l, trust_role *r)
{
    if (l->out)
        return wr_fmt(l->out, " %s", trust_role_name(*r));
    sefl_span w = word(l);
    char name[16] = "";
    if (w.n < sizeof name)
        memcpy(name, w.p, w.n);
    *r = trust_role_of(name);
    return *r ? SEFL_OK : bad(l, "an unknown role");
}

static sefl_status certificate(line *l, sefl_span *der)
{
    enum { BASE64 = sodium_base64_VARIANT_ORIGINAL };
    if (l->out) {
        char base64[sodium_base64_ENCODED_LEN(TRUST_DER_MAX, BASE64)];
        return wr_fmt(l->out, " %s",
                      sodium_bin2base64(base64, sizeof base64, der->p, der->n, BASE64));
    }
    sefl_span w = word(l);
    size_t n = 0;
    if (sodium_base642bin(l->der, sizeof l->der, (const char *)w.p, w.n, NULL, &n, NULL, BASE64) ||
        n == 0)
        return bad(l, "a certificate in base64 expected");
    *der = span_of(l->der, n);
    return SEFL_OK;
}

/* ---- entries: item i of a list is written, or an item is read and added ---------------------- */

static sefl_status change_line(trust *t, size_t i, line *l)
{
    int64_t v = (int64_t)t->change;
    (void)i;
    SEFL_PASS(number(l, &v));
    if (!l->out)
        t->change = (uint64_t)v;
    return SEFL_OK;
}

static sefl_status self_line(trust *t, size_t i, line *l)
{
    (void)i;
    SEFL_PASS(role(l, &t->self.role));
    SEFL_PASS(key(l, t->self.tls));
    SEFL_PASS(key(l, t->self.sign));
    return text(l, t->self.name);
}

static sefl_status issuer_line(trust *t, size_t i, line *l)
{
    trust_issuer s = l->out ? t->issuer[i] : (trust_issuer){ 0 };
    unsigned state = s.state, listed = s.listed;
    SEFL_PASS(key(l, s.key));
    SEFL_PASS(role(l, &s.role));
    SEFL_PASS(choice(l, TRUST_ACTIVE, TRUST_REVOKED, &state));
    SEFL_PASS(choice(l, 0, 1, &listed));
    SEFL_PASS(number(l, &s.since));
    SEFL_PASS(text(l, s.unit));
    SEFL_PASS(text(l, s.name));
    SEFL_PASS(certificate(l, &s.der));
    s.state = (trust_state)state, s.listed = listed != 0;
    return l->out ? SEFL_OK : trust_issuer_put(t, &s);
}

static sefl_status member_line(trust *t, size_t i, line *l)
{
    trust_member m = l->out ? t->member[i] : (trust_member){ 0 };
    unsigned state = m.state;
    SEFL_PASS(key(l, m.key));
    SEFL_PASS(role(l, &m.role));
    SEFL_PASS(choice(l, TRUST_ACTIVE, TRUST_REVOKED, &state));
    SEFL_PASS(number(l, &m.since));
    SEFL_PASS(number(l, &m.until));
    SEFL_PASS(key(l, m.issuer));
    SEFL_PASS(text(l, m.name));
    m.state = (trust_state)state;
    return l->out ? SEFL_OK : trust_member_put(t, &m);
}

static sefl_status token_line(trust *t, size_t i, line *l)
{
    trust_token k = l->out ? t->token[i] : (trust_token){ 0 };
    unsigned state = k.state;
    SEFL_PASS(key(l, k.id));
    SEFL_PASS(choice(l, TRUST_OPEN, TRUST_CANCELLED, &state));
    SEFL_PASS(number(l, &k.made));
    SEFL_PASS(number(l, &k.expires));
    SEFL_PASS(key(l, k.by));
    SEFL_PASS(text(l, k.name));
    k.state = (trust_token_state)state;
    return l->out ? SEFL_OK : trust_token_put(t, &k);
}

/* In the order of the file. */
static const struct {
    const char *word;
    sefl_status (*line)(trust *t, size_t i, line *l);
} kinds[] = { { "change", change_line },
              { "self", self_line },
              { "issuer", issuer_line },
              { "member", member_line },
              { "token", token_line } };
enum { KINDS = sizeof kinds / sizeof *kinds };

sefl_status trust_print(sefl_buf *out, const trust *t)
{
    const size_t begin = out->n;
    const size_t items[KINDS] = { 1, t->self.role != 0, t->issuers, t->members, t->tokens };
    uint8_t hash[SHA256_BYTES];
    line l = { .out = out };
    SEFL_PASS(wr_fmt(out, "%s", head_line));
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < items[k]; i++) {
            SEFL_PASS(wr_fmt(out, "%s", kinds[k].word));
            SEFL_PASS(kinds[k].line((trust *)(uintptr_t)t, i, &l)); /* writing changes no list */
            SEFL_PASS(wr_u8(out, '\n'));
        }
    sha256_of(hash, span_of(out->p + begin, out->n - begin));
    SEFL_PASS(wr_fmt(out, "end"));
    SEFL_PASS(key(&l, hash));
    return wr_u8(out, '\n');
}

static bool same(sefl_span a, sefl_span b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static sefl_status read_line(trust *t, line *l)
{
    uint8_t hash[TRUST_KEY];
    sefl_span w = word(l);
    for (size_t k = 0; k < KINDS; k++)
        if (same(w, span_of_str(kinds[k].word)))
            return kinds[k].line(t, 0, l);
    return same(w, span_of_str("end")) ? key(l, hash) : bad(l, "an unknown word");
}

sefl_status trust_parse(trust **out, sefl_span in)
{
    sefl_status st = SEFL_OK;
    trust *t = NULL;
    sefl_buf again = { 0 };
    size_t at = sizeof head_line - 1;
    line l = { .number = 1 };
    *out = NULL;
    SEFL_CHECK(in.n >= at && memcmp(in.p, head_line, at) == 0, SEFL_EPROTO,
               "not a trust list of this version");
    SEFL_CHECK(in.n <= TRUST_FILE_MAX, SEFL_EPROTO, "trust list: more than %d bytes",
               TRUST_FILE_MAX);
    SEFL_TRY(trust_new(&t));
    while (at < in.n) {
        const uint8_t *end = memchr(in.p + at, '\n', in.n - at);
        l.number++, l.p = (const char *)in.p + at, l.end = (const char *)end;
        if (!end)
            SEFL_TRY(bad(&l, "the file is cut off"));
        SEFL_TRY(read_line(t, &l));
        if (l.p != l.end)
            SEFL_TRY(bad(&l, "too many fields"));
        at = (size_t)(end - in.p) + 1;
    }
    /* this checks order, duplicates and the hash */
    SEFL_TRY(trust_print(&again, t));
    SEFL_CHECK(same(buf_span(&again), in), SEFL_EPROTO,
               "trust list: edited by hand, or damaged (its hash or order is wrong)");
    *out = t, t = NULL;
done:
    buf_clear(&again);
    trust_free(t);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

sefl_status trust_read(trust **out, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    *out = NULL;
    SEFL_TRY(file_read(&b, path, TRUST_FILE_MAX));
    st = sefl_at(trust_parse(out, buf_span(&b)), "%s", path);
done:
    buf_clear(&b);
    return st;
}

/* Writes a list only if it can be parsed back: with a broken list the server cannot start, and the
 * operator cannot revoke a key. */
static sefl_status write_list(const char *path, const trust *t, bool fresh)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    trust *again = NULL;
    SEFL_TRY(trust_print(&b, t));
    st = sefl_at(trust_parse(&again, buf_span(&b)), "nothing was changed");
    SEFL_TRY(st == SEFL_EPROTO ? SEFL_EINVAL : st);
    st = fresh ? file_write_new(path, buf_span(&b), 0600)
               : file_write_atomic(path, buf_span(&b), 0600);
done:
    trust_free(again);
    buf_clear(&b);
    return st;
}

sefl_status trust_create(const char *path)
{
    return write_list(path, &(trust){ 0 }, true);
}

sefl_status trust_edit_begin(trust_edit *e, const char *path)
{
    sefl_status st = SEFL_OK;
    char name[PATH_MAX];
    int rc, tries = 0;
    *e = (trust_edit){ .lock = -1 };
    SEFL_TRY(sefl_strdup(&e->path, path));
    SEFL_CHECK(file_exists(path), SEFL_ENOTFOUND, "%s: no trust list ('sefl ca new' creates one)",
               path);
    SEFL_TRY(file_path(name, "%s.lock", path));
    e->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(e->lock >= 0, SEFL_EIO, "cannot open %s: %s", name, strerror(errno));
    while ((rc = flock(e->lock, LOCK_EX | LOCK_NB)) != 0 &&
           (errno == EINTR || (errno == EWOULDBLOCK && tries++ < LOCK_WAIT_MS / LOCK_STEP_MS)))
        nanosleep(&(struct timespec){ .tv_nsec = LOCK_STEP_MS * 1000000L }, NULL);
    SEFL_CHECK(rc == 0 || errno != EWOULDBLOCK, SEFL_ETIMEOUT,
               "%s is held by another process (a 'sefl ca' that was stopped?)", name);
    SEFL_CHECK(rc == 0, SEFL_EIO, "cannot lock %s: %s", name, strerror(errno));
    SEFL_TRY(trust_read(&e->t, path));
done:
    if (st != SEFL_OK)
        trust_edit_end(e);
    return st;
}

sefl_status trust_edit_commit(trust_edit *e)
{
    trust *now = NULL;
    char why[512];
    e->t->change++;
    sefl_status st = write_list(e->path, e->t, false);
    e->in_force = st == SEFL_OK;
    if (st == SEFL_OK)
        return st;
    snprintf(why, sizeof why, "%s", sefl_last_error());
    e->in_force = trust_read(&now, e->path) == SEFL_OK && now && now->change == e->t->change;
    trust_free(now);
    return sefl_fail(st, "%s%s",
                     e->in_force ? "changed, but a power failure may undo the change: " : "", why);
}

void trust_edit_end(trust_edit *e)
{
    trust_free(e->t);
    if (e->path && e->lock >= 0) /* a zeroed edit owns nothing */
        close(e->lock);
    sefl_free(e->path);
    *e = (trust_edit){ .lock = -1 };
}

bool trust_watch_changed(trust_watch *w)
{
    struct stat sb;
    if (stat(w->path, &sb) != 0)
        return true; /* missing (a rename replaces a list): reading it will fail */
    if (!w->again && sb.st_dev == w->dev && sb.st_ino == w->ino && sb.st_size == w->size &&
        sb.st_mtim.tv_sec == w->when.tv_sec && sb.st_mtim.tv_nsec == w->when.tv_nsec)
        return false;
    w->dev = sb.st_dev, w->ino = sb.st_ino, w->size = sb.st_size, w->when = sb.st_mtim;
    w->again = false;
    return true;
}

bool trust_watch_failed(trust_watch *w)
{
    bool first = !w->failed;
    w->again = w->failed = true;
    return first;
}

bool trust_watch_good(trust_watch *w, uint64_t change)
{
    bool newer = change >= w->change;
    w->failed = false;
    w->change = newer ? change : w->change;
    return newer;
}
