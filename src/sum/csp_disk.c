#include "sum/csp_disk.h"

#include "base/alloc.h"
#include "base/hex.h"
#include "crypto/keyfile.h"
#include "sum/upload_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct csp_disk {
    journal *j;
    account *a;
    const sefl_coins *coins;
};

/* ---- reading ------------------------------------------------------------------------------- */

static sefl_status get(void *ctx, uint64_t round, csp_round *out)
{
    sefl_status st = SEFL_OK;
    csp_disk *d = ctx;
    journal_round r;
    uint8_t bytes[4];
    sefl_buf header = { 0 };
    csp_round got = { .round = round };
    *out = got;
    if (round > INT64_MAX) /* of a peer's message: no such round */
        goto done;
    st = journal_round_get(d->j, round, &r);
    if (st == SEFL_ENOTFOUND) {
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(r.state >= CSP_SIGNED && r.state <= CSP_SKIPPED, SEFL_EPROTO,
               "journal: round %" PRIu64 " has state %u", round, r.state);
    got.state = (csp_round_state)r.state;
    got.signed_ms = r.opened_ms;
    SEFL_TRY(journal_fact_get(d->j, round, "header", &header));
    SEFL_TRY(round_header_read(&got.header, buf_span(&header)));
    if (got.state == CSP_SKIPPED) {
        SEFL_TRY(journal_fact_fixed(d->j, round, "skip", bytes, 4));
        got.skip = load_u32(bytes);
    }
    *out = got;
done:
    buf_clear(&header);
    return st;
}

static sefl_status highest(void *ctx, csp_highest *out)
{
    csp_disk *d = ctx;
    csp_highest top = { 0 };
    SEFL_PASS(journal_round_highest(d->j, CSP_SIGNED, &top.header));
    SEFL_PASS(journal_round_highest(d->j, CSP_REVEALED, &top.revealed));
    SEFL_PASS(journal_round_highest(d->j, CSP_SKIPPED, &top.skipped));
    if (top.header < top.revealed) /* which was signed before */
        top.header = top.revealed;
    if (top.header < top.skipped)
        top.header = top.skipped;
    *out = top;
    return SEFL_OK;
}

/* SEFL_ESTATE unless the round is in this state. */
static sefl_status must_be(csp_disk *d, uint64_t round, csp_round_state state, csp_round *out)
{
    sefl_status st = get(d, round, out);
    return st == SEFL_OK ? csp_round_must_be(out, state) : st;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Writes the row of a signed round in its next state. A round that is skipped after its charge
 * counts for the clients in its set. */
static sefl_status put_state(csp_disk *d, const csp_round *now, csp_round_state state)
{
    journal_round r = { .round = now->round,
                        .state = state,
                        .opened_ms = now->signed_ms,
                        .skipped = state == CSP_SKIPPED,
                        .has_model = true };
    if (r.skipped)
        SEFL_PASS(account_has(d->a, now->round, &r.charged));
    memcpy(r.model, now->header.model, sizeof r.model);
    return journal_round_put(d->j, &r);
}

static sefl_status sign(void *ctx, const csp_round *r)
{
    sefl_status st = SEFL_OK;
    csp_disk *d = ctx;
    csp_round now;
    uint8_t bytes[HEADER_MAX];
    SEFL_TRY(must_be(d, r->round, CSP_NEW, &now));
    SEFL_CHECK(r->header.round == r->round, SEFL_EINVAL, "the header of another round");
    size_t n = round_header_write(bytes, &r->header);
    SEFL_TRY(journal_begin(d->j));
    SEFL_TRY(journal_fact_put(d->j, r->round, "header", span_of(bytes, n)));
    SEFL_TRY(put_state(d, r, CSP_SIGNED));
    SEFL_TRY(journal_commit(d->j));
done:
    if (st != SEFL_OK)
        journal_rollback(d->j);
    return st;
}

static sefl_status charge(void *ctx, uint64_t round)
{
    csp_disk *d = ctx;
    bool marked;
    SEFL_PASS(journal_fact_has(d->j, round, "charging", &marked));
    if (!marked)
        SEFL_PASS(journal_fact_put(d->j, round, "charging", span_of("1", 1)));
    return account_charge(d->a, round);
}

static sefl_status reveal(void *ctx, uint64_t round, sefl_span statement,
                          const uint8_t id[NOISE_ID], sefl_span output,
                          const uint8_t digest[SHA256_BYTES])
{
    sefl_status st = SEFL_OK;
    csp_disk *d = ctx;
    csp_round now;
    sefl_rng rng;
    bool charged;
    SEFL_TRY(must_be(d, round, CSP_SIGNED, &now));
    SEFL_TRY(account_has(d->a, round, &charged));
    SEFL_CHECK(charged, SEFL_ESTATE, "round %" PRIu64 " is not charged", round);
    SEFL_TRY(coins_for(d->coins, &rng, "journal output", round, 0));
    SEFL_TRY(journal_secret_put(d->j, round, "output", output, &rng));
    SEFL_TRY(journal_begin(d->j));
    SEFL_TRY(journal_fact_put(d->j, round, "statement", statement));
    SEFL_TRY(journal_fact_put(d->j, round, "id", span_of(id, NOISE_ID)));
    SEFL_TRY(journal_fact_put(d->j, round, "digest", span_of(digest, SHA256_BYTES)));
    SEFL_TRY(journal_commit(d->j));
    SEFL_TRY(account_note(d->a, round, digest));
    SEFL_TRY(put_state(d, &now, CSP_REVEALED));
done:
    if (st != SEFL_OK)
        journal_rollback(d->j);
    return st;
}

static sefl_status kept(void *ctx, uint64_t round, uint8_t id[NOISE_ID], sefl_buf *output,
                        uint8_t digest[SHA256_BYTES])
{
    csp_disk *d = ctx;
    csp_round now;
    SEFL_PASS(get(d, round, &now));
    SEFL_NEED(now.state == CSP_REVEALED, SEFL_ENOTFOUND, "round %" PRIu64 " was never revealed",
              round);
    SEFL_PASS(journal_fact_fixed(d->j, round, "id", id, NOISE_ID));
    SEFL_PASS(journal_fact_fixed(d->j, round, "digest", digest, SHA256_BYTES));
    return journal_secret_get(d->j, round, "output", output); /* last: it appends */
}

static sefl_status skip(void *ctx, uint64_t round, unsigned reason)
{
    sefl_status st = SEFL_OK;
    csp_disk *d = ctx;
    csp_round now;
    uint8_t why[4];
    store_u32(why, reason);
    SEFL_TRY(must_be(d, round, CSP_SIGNED, &now));
    /* first what a broken attempt may have left: it has no use, whatever comes */
    SEFL_TRY(journal_round_wipe(d->j, round));
    SEFL_TRY(journal_begin(d->j));
    SEFL_TRY(journal_fact_put(d->j, round, "skip", span_of(why, sizeof why)));
    SEFL_TRY(put_state(d, &now, CSP_SKIPPED));
    SEFL_TRY(journal_commit(d->j));
done:
    if (st != SEFL_OK)
        journal_rollback(d->j);
    return st;
}

static sefl_status forget(void *ctx, uint64_t round)
{
    csp_disk *d = ctx;
    csp_round now;
    SEFL_PASS(must_be(d, round, CSP_REVEALED, &now));
    return journal_round_wipe(d->j, round);
}

static sefl_status end_task(void *ctx)
{
    return journal_fact_put(((csp_disk *)ctx)->j, 0, "over", span_of("1", 1));
}

static sefl_status ended(void *ctx, bool *out)
{
    return journal_fact_has(((csp_disk *)ctx)->j, 0, "over", out);
}

/* ---- sealed tasks: round keys ---------------------------------------------------------------- */

_Static_assert((int)CSP_KEY_BYTES == (int)JOURNAL_KEM, "one length");

static sefl_status key_make(void *ctx, uint64_t round, const uint8_t bytes[CSP_KEY_BYTES])
{
    csp_disk *d = ctx;
    csp_round now;
    SEFL_PASS(must_be(d, round, CSP_NEW, &now));
    return journal_kem_put(d->j, round, bytes);
}

static sefl_status key_get(void *ctx, uint64_t round, uint8_t bytes[CSP_KEY_BYTES])
{
    return journal_kem_get(((csp_disk *)ctx)->j, round, bytes);
}

static sefl_status key_wipe(void *ctx, uint64_t round)
{
    return journal_kem_wipe(((csp_disk *)ctx)->j, round);
}

/* Yes for a round that can still be revealed, or begun. */
static sefl_status key_is_needed(void *ctx, uint64_t round, bool *yes)
{
    csp_round now;
    sefl_status st = get(ctx, round, &now);
    *yes = now.state == CSP_NEW || now.state == CSP_SIGNED;
    return st;
}

/* ---- sealed tasks: the set ---------------------------------------------------------------
 *
 * Fact "set":          digest 32 | root 32 | clients u32 | kept u32 | refused u32
 * facts "refused K":   index u32 | reason u8 each, REFUSED_A_FACT of them (the last one: fewer)
 * rows of updates:     the kept clients with their units; they stay, for `taken`
 */
enum { SET_BYTES = 76, REFUSAL = 5, REFUSED_A_FACT = 200000 };

static void refused_name(char out[32], uint32_t k)
{
    snprintf(out, 32, "refused %" PRIu32, k);
}

static sefl_status put_refused(csp_disk *d, uint64_t round, const csp_set *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    for (uint32_t from = 0, k = 0; from < s->refused_n; from += REFUSED_A_FACT, k++) {
        char name[32];
        buf_reset(&b);
        for (uint32_t i = from; i < s->refused_n && i - from < REFUSED_A_FACT; i++) {
            SEFL_TRY(wr_u32(&b, s->refused[i].index));
            SEFL_TRY(wr_u8(&b, s->refused[i].reason));
        }
        refused_name(name, k);
        SEFL_TRY(journal_fact_put(d->j, round, name, buf_span(&b)));
    }
done:
    buf_clear(&b);
    return st;
}

static sefl_status set_put(void *ctx, uint64_t round, const csp_set *s)
{
    sefl_status st = SEFL_OK;
    csp_disk *d = ctx;
    csp_round now;
    uint8_t fact[SET_BYTES];
    bool there;
    SEFL_TRY(must_be(d, round, CSP_SIGNED, &now));
    SEFL_TRY(journal_fact_has(d->j, round, "set", &there));
    SEFL_CHECK(!there, SEFL_ESTATE, "round %" PRIu64 " has its set already", round);
    memcpy(fact, s->digest, 32);
    memcpy(fact + 32, s->root, 32);
    store_u32(fact + 64, s->clients);
    store_u32(fact + 68, s->kept_n);
    store_u32(fact + 72, s->refused_n);
    SEFL_TRY(journal_begin(d->j));
    SEFL_TRY(journal_fact_put(d->j, round, "set", span_of(fact, sizeof fact)));
    SEFL_TRY(put_refused(d, round, s));
    for (uint32_t i = 0; i < s->kept_n; i++) {
        journal_update u = { .round = round };
        memcpy(u.client, s->kept[i].client, sizeof u.client);
        memcpy(u.body, s->kept[i].units, sizeof u.body);
        SEFL_TRY(journal_update_put(d->j, &u));
    }
    SEFL_TRY(journal_commit(d->j));
done:
    if (st != SEFL_OK)
        journal_rollback(d->j);
    return st;
}

typedef struct taking {
    csp_set *s;
    uint32_t n;
} taking;

static sefl_status take_kept(void *ctx, const journal_update *u)
{
    taking *t = ctx;
    if (t->n == t->s->kept_n)
        return sefl_fail(SEFL_EPROTO, "journal: the set has more clients than it should");
    memcpy(t->s->kept[t->n].client, u->client, 32);
    memcpy(t->s->kept[t->n++].units, u->body, 32);
    return SEFL_OK;
}

static sefl_status get_refused(csp_disk *d, uint64_t round, csp_set *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    for (uint32_t from = 0, k = 0; from < s->refused_n; from += REFUSED_A_FACT, k++) {
        char name[32];
        uint32_t left = s->refused_n - from;
        refused_name(name, k);
        buf_reset(&b);
        SEFL_TRY(journal_fact_get(d->j, round, name, &b));
        left = left < REFUSED_A_FACT ? left : REFUSED_A_FACT;
        SEFL_CHECK(b.n == (size_t)left * REFUSAL, SEFL_EPROTO, "journal: %s of round %" PRIu64,
                   name, round);
        for (uint32_t i = 0; i < left; i++) {
            s->refused[from + i].index = load_u32(b.p + (size_t)REFUSAL * i);
            s->refused[from + i].reason = b.p[(size_t)REFUSAL * i + 4];
        }
    }
done:
    buf_clear(&b);
    return st;
}

static sefl_status set_get(void *ctx, uint64_t round, csp_set *out)
{
    sefl_status st = SEFL_OK;
    csp_disk *d = ctx;
    uint8_t fact[SET_BYTES];
    csp_set s = { 0 };
    taking t = { .s = &s };
    *out = s;
    SEFL_TRY(journal_fact_fixed(d->j, round, "set", fact, sizeof fact));
    memcpy(s.digest, fact, 32);
    memcpy(s.root, fact + 32, 32);
    s.clients = load_u32(fact + 64);
    s.kept_n = load_u32(fact + 68);
    s.refused_n = load_u32(fact + 72);
    SEFL_TRY(sefl_new(&s.kept, s.kept_n, sizeof *s.kept));
    SEFL_TRY(sefl_new(&s.refused, s.refused_n, sizeof *s.refused));
    SEFL_TRY(journal_updates(d->j, round, take_kept, &t));
    SEFL_CHECK(t.n == s.kept_n, SEFL_EPROTO, "journal: the set of round %" PRIu64 " lacks clients",
               round);
    SEFL_TRY(get_refused(d, round, &s));
    *out = s, s = (csp_set){ 0 };
done:
    csp_set_clear(&s);
    return st;
}

/* The machine asks before it stores the set of the current round: all rounds before are charged or
 * skipped. */
static sefl_status taken(void *ctx, const uint8_t client[32], uint64_t *rounds)
{
    return journal_client_rounds(((csp_disk *)ctx)->j, client, rounds);
}

/* ---- sealed tasks: vouchers ---------------------------------------------------------------- */

static sefl_status voucher_get(void *ctx, const uint8_t client[32], uint64_t *serial,
                               uint8_t key[SIGN_PUB_BYTES])
{
    return upload_key_get(((csp_disk *)ctx)->j, client, serial, key);
}

static sefl_status voucher_put(void *ctx, const uint8_t client[32], uint64_t serial,
                               const uint8_t key[SIGN_PUB_BYTES])
{
    return upload_key_put(((csp_disk *)ctx)->j, client, serial, key);
}

/* ---- public -------------------------------------------------------------------------------- */

/* Does the journal have the output of this digest, whole? */
static sefl_status has_output(csp_disk *d, uint64_t round, const uint8_t digest[SHA256_BYTES],
                              bool *has)
{
    sefl_status st = SEFL_OK;
    uint8_t ours[SHA256_BYTES];
    sefl_buf b = { 0 };
    *has = false;
    st = journal_fact_fixed(d->j, round, "digest", ours, sizeof ours);
    if (st == SEFL_OK && memcmp(ours, digest, sizeof ours) == 0)
        st = journal_secret_get(d->j, round, "output", &b);
    else if (st == SEFL_OK)
        st = SEFL_ENOTFOUND;
    *has = st == SEFL_OK;
    if (st == SEFL_ENOTFOUND || st == SEFL_ECRYPTO)
        st = SEFL_OK;
    buf_clear(&b);
    return st;
}

/* The last round, if it is signed and not revealed: a crash, or an old copy of the journal? The
 * header has the table. */
static sefl_status settle(csp_disk *d, uint64_t last)
{
    sefl_status st = SEFL_OK;
    csp_round now;
    uint64_t noted;
    uint8_t digest[SHA256_BYTES];
    bool charged, marked, whole = false;
    SEFL_TRY(account_knows(d->a, last));
    SEFL_TRY(account_noted(d->a, &noted, digest));
    SEFL_CHECK(noted <= last, SEFL_ESTATE,
               "round %" PRIu64 " of this task was revealed, but %s ends with round %" PRIu64
               ": it is an old copy. A round could be revealed twice: " ACCOUNT_REMEDY,
               noted, journal_folder(d->j), last);
    SEFL_TRY(get(d, last, &now));
    if (now.state != CSP_SIGNED)
        goto done;
    SEFL_TRY(account_has(d->a, last, &charged));
    SEFL_TRY(journal_fact_has(d->j, last, "charging", &marked));
    if (noted == last)
        SEFL_TRY(has_output(d, last, digest, &whole));
    else if (marked || !charged)
        goto done;
    if (whole)
        SEFL_TRY(put_state(d, &now, CSP_REVEALED));
    else
        SEFL_TRY(skip(d, last, CSP_SKIP_OLD_STATE));
done:
    return st;
}

/* AS has the header of the highest round, so it has all releases before it. */
static sefl_status forget_old(csp_disk *d, uint64_t last)
{
    for (uint64_t r = 1; r < last; r++)
        SEFL_PASS(journal_round_wipe(d->j, r));
    return SEFL_OK;
}

sefl_status csp_disk_new(csp_disk **out, journal *j, account *a, const sefl_coins *coins)
{
    sefl_status st = SEFL_OK;
    csp_disk *d = NULL;
    csp_highest top;
    *out = NULL;
    SEFL_TRY(sefl_new(&d, 1, sizeof *d));
    *d = (csp_disk){ j, a, coins };
    SEFL_TRY(highest(d, &top));
    SEFL_TRY(settle(d, top.header));
    SEFL_TRY(forget_old(d, top.header));
    SEFL_TRY(journal_kem_sweep(d->j, key_is_needed, d));
    *out = d, d = NULL;
done:
    csp_disk_free(d);
    return st;
}

void csp_disk_free(csp_disk *d)
{
    sefl_free(d);
}

sefl_status csp_disk_bind_key(csp_disk *d, const task *t)
{
    sefl_status st = SEFL_OK;
    uint8_t print[PAILLIER_FINGERPRINT_BYTES];
    char name[4 + 2 * PAILLIER_FINGERPRINT_BYTES + 1] = "key ", other[17] = "";
    sefl_buf b = { 0 };
    if (!t->pub) /* the keys of a sealed task are made for each round */
        goto done;
    paillier_pub_fingerprint(t->pub, print);
    hex_write(name + 4, print, sizeof print);
    st = journal_lasting_get(d->j, name, &b);
    if (st == SEFL_ENOTFOUND) {
        st = journal_lasting_put(d->j, name, span_of(t->id, sizeof t->id));
        goto done;
    }
    SEFL_TRY(st);
    hex_write(other, b.p, b.n < 8 ? b.n : 8);
    SEFL_CHECK(b.n == sizeof t->id && memcmp(b.p, t->id, sizeof t->id) == 0, SEFL_ESTATE,
               "the secret key %.16s... has served task %s, and a key serves one task: make a new "
               "one ('sefl key new --scheme paillier'), name its public half in the new task "
               "('sefl task new --key') and have both servers sign that",
               name + 4, other);
done:
    buf_clear(&b);
    return st;
}

csp_store csp_disk_store(csp_disk *d)
{
    return (csp_store){
        .ctx = d,
        .get = get,
        .highest = highest,
        .sign = sign,
        .charge = charge,
        .reveal = reveal,
        .kept = kept,
        .skip = skip,
        .forget = forget,
        .end = end_task,
        .ended = ended,
        .ledger = account_port(d->a),
        .key_make = key_make,
        .key_get = key_get,
        .key_wipe = key_wipe,
        .set_put = set_put,
        .set_get = set_get,
        .taken = taken,
        .voucher_get = voucher_get,
        .voucher_put = voucher_put,
    };
}
