/* Design. Three arrays, grown by sefl_grow; members and tokens sorted by their 32 bytes, so that a
 * server looks a peer up by halving. The reader accepts exactly what the printer prints: after
 * parsing, the list is printed again and compared. */
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

/* ---- memory ---------------------------------------------------------------------------------- */

sefl_status trust_new(trust **out)
{
    sefl_status st = sefl_new(out, 1, sizeof **out);
    if (st == SEFL_OK)
        atomic_init(&(*out)->holders, 1);
    return st;
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
    union {
        const uint8_t *given;
        uint8_t *ours;
    } u = { .given = i->der.p };
    sefl_free(u.ours);
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

/* Room for one more of `size` bytes. */
static sefl_status room(void *array, size_t n, size_t *cap, size_t size)
{
    SEFL_NEED(n < TRUST_ITEMS_MAX, SEFL_ERANGE, "trust list: more than %d of a kind",
              TRUST_ITEMS_MAX);
    return sefl_room(array, cap, n + 1, size);
}

/* Index of the first item whose key is not below this one; items begin with their key. */
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

/* Replaces the item with the same key, or puts the new one in its place. Items begin with their
 * key. */
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
    const trust_member copy = *m; /* it may stand in the list that grows */
    return put_sorted(&t->member, &t->members, &t->members_room, &copy, sizeof copy);
}

void trust_member_drop(trust *t, trust_member *m)
{
    size_t i = (size_t)(m - t->member);
    memmove(m, m + 1, (t->members - i - 1) * sizeof *m);
    t->members--;
}

sefl_status trust_token_put(trust *t, const trust_token *k)
{
    const trust_token copy = *k;
    return put_sorted(&t->token, &t->tokens, &t->tokens_room, &copy, sizeof copy);
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

/* ---- printing -------------------------------------------------------------------------------- */

static sefl_status put_text(sefl_buf *b, const char *text)
{
    if (!*text || strcmp(text, "-") == 0)
        return wr_fmt(b, *text ? " %%2D" : " -");
    SEFL_PASS(wr_u8(b, ' '));
    for (; *text; text++) {
        if (strchr(plain, *text))
            SEFL_PASS(wr_u8(b, (uint8_t)*text));
        else
            SEFL_PASS(wr_fmt(b, "%%%02X", (unsigned)(uint8_t)*text));
    }
    return SEFL_OK;
}

static sefl_status put_key(sefl_buf *b, const uint8_t key[TRUST_KEY])
{
    char hex[HEX_CHARS(TRUST_KEY)];
    return wr_fmt(b, " %s", hex_write(hex, key, TRUST_KEY));
}

static sefl_status print_issuer(sefl_buf *b, const trust_issuer *i)
{
    sefl_status st = SEFL_OK;
    char *text = NULL;
    size_t n = sodium_base64_ENCODED_LEN(i->der.n, sodium_base64_VARIANT_ORIGINAL);
    SEFL_TRY(sefl_new(&text, n, 1));
    sodium_bin2base64(text, n, i->der.p, i->der.n, sodium_base64_VARIANT_ORIGINAL);
    SEFL_TRY(wr_fmt(b, "issuer"));
    SEFL_TRY(put_key(b, i->key));
    SEFL_TRY(wr_fmt(b, " %s %d %d %" PRId64, trust_role_name(i->role), (int)i->state, i->listed,
                    i->since));
    SEFL_TRY(put_text(b, i->unit));
    SEFL_TRY(put_text(b, i->name));
    SEFL_TRY(wr_fmt(b, " %s\n", text));
done:
    sefl_free(text);
    return st;
}

static sefl_status print_member(sefl_buf *b, const trust_member *m)
{
    SEFL_PASS(wr_fmt(b, "member"));
    SEFL_PASS(put_key(b, m->key));
    SEFL_PASS(wr_fmt(b, " %s %d %" PRId64 " %" PRId64, trust_role_name(m->role), (int)m->state,
                     m->since, m->until));
    SEFL_PASS(put_key(b, m->issuer));
    SEFL_PASS(put_text(b, m->name));
    return wr_fmt(b, "\n");
}

static sefl_status print_token(sefl_buf *b, const trust_token *k)
{
    SEFL_PASS(wr_fmt(b, "token"));
    SEFL_PASS(put_key(b, k->id));
    SEFL_PASS(wr_fmt(b, " %d %" PRId64 " %" PRId64, (int)k->state, k->made, k->expires));
    SEFL_PASS(put_key(b, k->by));
    SEFL_PASS(put_text(b, k->name));
    return wr_fmt(b, "\n");
}

sefl_status trust_print(sefl_buf *out, const trust *t)
{
    size_t begin = out->n;
    uint8_t hash[SHA256_BYTES];
    SEFL_PASS(wr_fmt(out, "%schange %" PRIu64 "\n", head_line, t->change));
    if (t->self.role) {
        SEFL_PASS(wr_fmt(out, "self %s", trust_role_name(t->self.role)));
        SEFL_PASS(put_key(out, t->self.tls));
        SEFL_PASS(put_key(out, t->self.sign));
        SEFL_PASS(put_text(out, t->self.name));
        SEFL_PASS(wr_fmt(out, "\n"));
    }
    for (size_t i = 0; i < t->issuers; i++)
        SEFL_PASS(print_issuer(out, &t->issuer[i]));
    for (size_t i = 0; i < t->members; i++)
        SEFL_PASS(print_member(out, &t->member[i]));
    for (size_t i = 0; i < t->tokens; i++)
        SEFL_PASS(print_token(out, &t->token[i]));
    sha256_of(hash, span_of(out->p + begin, out->n - begin));
    SEFL_PASS(wr_fmt(out, "end"));
    SEFL_PASS(put_key(out, hash));
    return wr_fmt(out, "\n");
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* A line, without its end, cut at blanks. */
typedef struct line {
    const char *p, *end;
    size_t number;
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

static sefl_status get_key(line *l, uint8_t out[TRUST_KEY])
{
    return hex_read_any(out, TRUST_KEY, word(l)) ? SEFL_OK : bad(l, "64 hex digits wanted");
}

static sefl_status get_number(line *l, int64_t max, int64_t *out)
{
    sefl_span w = word(l);
    int64_t v = 0;
    if (w.n < 1 || w.n > 18)
        return bad(l, "a number wanted");
    for (size_t i = 0; i < w.n; i++) {
        if (w.p[i] < '0' || w.p[i] > '9')
            return bad(l, "a number wanted");
        v = 10 * v + (w.p[i] - '0');
    }
    if (v > max)
        return bad(l, "a number is too large");
    *out = v;
    return SEFL_OK;
}

/* 1 to max. */
static sefl_status get_choice(line *l, int max, int *out)
{
    int64_t v;
    sefl_status st = get_number(l, max, &v);
    if (st == SEFL_OK && v < 1)
        st = bad(l, "an unknown state");
    *out = st == SEFL_OK ? (int)v : 0;
    return st;
}

static int percent_digit(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static sefl_status get_text(line *l, char out[TRUST_NAME_MAX + 1])
{
    sefl_span w = word(l);
    size_t n = 0;
    if (w.n == 1 && w.p[0] == '-')
        w.n = 0;
    for (size_t i = 0; i < w.n; i++) {
        int c = w.p[i];
        if (c == '%') {
            int high = i + 2 < w.n ? percent_digit(w.p[i + 1]) : -1;
            int low = i + 2 < w.n ? percent_digit(w.p[i + 2]) : -1;
            c = high < 0 || low < 0 ? 0 : 16 * high + low;
            i += 2;
        }
        if (c < 0x20 || c >= 0x7f || n == TRUST_NAME_MAX)
            return bad(l, "a name that is none");
        out[n++] = (char)c;
    }
    out[n] = 0;
    return SEFL_OK;
}

static sefl_status get_role(line *l, trust_role *out)
{
    sefl_span w = word(l);
    char name[16] = "";
    if (w.n < sizeof name)
        memcpy(name, w.p, w.n);
    *out = trust_role_of(name);
    return *out ? SEFL_OK : bad(l, "an unknown role");
}

static sefl_status take_self(trust *t, line *l)
{
    SEFL_PASS(get_role(l, &t->self.role));
    SEFL_PASS(get_key(l, t->self.tls));
    SEFL_PASS(get_key(l, t->self.sign));
    return get_text(l, t->self.name);
}

static sefl_status take_issuer(trust *t, line *l)
{
    trust_issuer i = { 0 };
    uint8_t der[TRUST_DER_MAX];
    int state;
    int64_t listed;
    SEFL_PASS(get_key(l, i.key));
    SEFL_PASS(get_role(l, &i.role));
    SEFL_PASS(get_choice(l, TRUST_REVOKED, &state));
    SEFL_PASS(get_number(l, 1, &listed));
    SEFL_PASS(get_number(l, INT64_MAX, &i.since));
    SEFL_PASS(get_text(l, i.unit));
    SEFL_PASS(get_text(l, i.name));
    sefl_span w = word(l);
    size_t n = 0;
    if (sodium_base642bin(der, sizeof der, (const char *)w.p, w.n, NULL, &n, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        n == 0)
        SEFL_PASS(bad(l, "a certificate in base64 wanted"));
    i.state = (trust_state)state, i.listed = listed != 0, i.der = span_of(der, n);
    return trust_issuer_put(t, &i);
}

static sefl_status take_member(trust *t, line *l)
{
    trust_member m = { 0 };
    int state;
    SEFL_PASS(get_key(l, m.key));
    SEFL_PASS(get_role(l, &m.role));
    SEFL_PASS(get_choice(l, TRUST_REVOKED, &state));
    SEFL_PASS(get_number(l, INT64_MAX, &m.since));
    SEFL_PASS(get_number(l, INT64_MAX, &m.until));
    SEFL_PASS(get_key(l, m.issuer));
    SEFL_PASS(get_text(l, m.name));
    m.state = (trust_state)state;
    return trust_member_put(t, &m);
}

static sefl_status take_token(trust *t, line *l)
{
    trust_token k = { 0 };
    int state;
    SEFL_PASS(get_key(l, k.id));
    SEFL_PASS(get_choice(l, TRUST_CANCELLED, &state));
    SEFL_PASS(get_number(l, INT64_MAX, &k.made));
    SEFL_PASS(get_number(l, INT64_MAX, &k.expires));
    SEFL_PASS(get_key(l, k.by));
    SEFL_PASS(get_text(l, k.name));
    k.state = (trust_token_state)state;
    return trust_token_put(t, &k);
}

static sefl_status take_change(trust *t, line *l)
{
    int64_t v;
    sefl_status st = get_number(l, INT64_MAX, &v);
    t->change = st == SEFL_OK ? (uint64_t)v : 0;
    return st;
}

/* Order, doubles and the hash are settled by printing it again. */
static sefl_status take_end(trust *t, line *l)
{
    uint8_t hash[TRUST_KEY];
    (void)t;
    return get_key(l, hash);
}

static sefl_status take_line(trust *t, line *l)
{
    static const struct {
        const char *word;
        sefl_status (*take)(trust *t, line *l);
    } kinds[] = { { "change", take_change }, { "self", take_self },   { "issuer", take_issuer },
                  { "member", take_member }, { "token", take_token }, { "end", take_end } };
    sefl_span w = word(l);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (w.n == strlen(kinds[i].word) && memcmp(w.p, kinds[i].word, w.n) == 0)
            return kinds[i].take(t, l);
    return bad(l, "an unknown word");
}

sefl_status trust_parse(trust **out, sefl_span text)
{
    sefl_status st = SEFL_OK;
    trust *t = NULL;
    sefl_buf again = { 0 };
    size_t at = sizeof head_line - 1, number = 1;
    *out = NULL;
    SEFL_CHECK(text.n >= at && memcmp(text.p, head_line, at) == 0, SEFL_EPROTO,
               "not a trust list of this version");
    SEFL_CHECK(text.n <= TRUST_FILE_MAX, SEFL_EPROTO, "trust list: more than %d bytes",
               TRUST_FILE_MAX);
    SEFL_TRY(trust_new(&t));
    while (at < text.n) {
        const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
        number++;
        line l = { .p = (const char *)text.p + at, .end = (const char *)end, .number = number };
        if (!end)
            SEFL_TRY(bad(&l, "it is cut off"));
        SEFL_TRY(take_line(t, &l));
        if (l.p != l.end)
            SEFL_TRY(bad(&l, "too many fields"));
        at = (size_t)(end - text.p) + 1;
    }
    SEFL_TRY(trust_print(&again, t));
    SEFL_CHECK(again.n == text.n && memcmp(again.p, text.p, text.n) == 0, SEFL_EPROTO,
               "trust list: changed by hand, or damaged (its hash or order is wrong)");
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

/* Writes only what it can read again: with a broken list the server could not start, and no key be
 * revoked. */
static sefl_status write_list(const char *path, const trust *t, bool fresh)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    trust *again = NULL;
    SEFL_TRY(trust_print(&b, t));
    st = trust_parse(&again, buf_span(&b));
    if (st != SEFL_OK)
        SEFL_TRY(sefl_fail_at(st == SEFL_EPROTO ? SEFL_EINVAL : st, "nothing was changed"));
    st = fresh ? file_write_new(path, buf_span(&b), 0600)
               : file_write_atomic(path, buf_span(&b), 0600);
done:
    trust_free(again);
    buf_clear(&b);
    return st;
}

sefl_status trust_create(const char *path)
{
    trust *t;
    sefl_status st = trust_new(&t);
    if (st != SEFL_OK)
        return st;
    st = write_list(path, t, true);
    trust_free(t);
    return st;
}

sefl_status trust_edit_begin(trust_edit *e, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf name = { 0 };
    int rc, tries = 0;
    *e = (trust_edit){ .lock = -1 };
    SEFL_TRY(sefl_strdup(&e->path, path));
    SEFL_CHECK(file_exists(path), SEFL_ENOTFOUND, "%s: no trust list ('sefl ca new' makes one)",
               path);
    SEFL_TRY(wr_fmt(&name, "%s.lock%c", path, 0));
    e->lock = open((const char *)name.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(e->lock >= 0, SEFL_EIO, "cannot open %s: %s", (const char *)name.p, strerror(errno));
    while ((rc = flock(e->lock, LOCK_EX | LOCK_NB)) != 0 &&
           (errno == EINTR || (errno == EWOULDBLOCK && tries++ < LOCK_WAIT_MS / LOCK_STEP_MS)))
        nanosleep(&(struct timespec){ .tv_nsec = LOCK_STEP_MS * 1000000L }, NULL);
    SEFL_CHECK(rc == 0 || errno != EWOULDBLOCK, SEFL_ETIMEOUT,
               "%s is held by another process (a 'sefl ca' that was stopped?)",
               (const char *)name.p);
    SEFL_CHECK(rc == 0, SEFL_EIO, "cannot lock %s: %s", (const char *)name.p, strerror(errno));
    SEFL_TRY(trust_read(&e->t, path));
done:
    buf_clear(&name);
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
    e->in_force = trust_read(&now, e->path) == SEFL_OK && now->change == e->t->change;
    trust_free(now);
    return sefl_fail(st, "%s%s", e->in_force ? "changed, but it may not survive a power cut: " : "",
                     why);
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
        return true; /* gone (a list is replaced by a rename): reading it will fail */
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
