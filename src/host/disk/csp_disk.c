#include "store/disk/csp_disk.h"

#include "base/ct.h"
#include "base/hex.h"
#include "crypto/keyfile.h"
#include "store/disk/upload_keys.h"

#include <inttypes.h>
#include <string.h>

/* ---- records and rows ------------------------------------------------------------------------ */

/* The names of facts. KEY, OUTPUT and HISTORY are files. */
static const char *const facts[CSP_RECORDS] = {
    [CSP_OVER] = "over",         [CSP_HEADER] = "header", [CSP_SET] = "set",
    [CSP_CHARGING] = "charging", [CSP_REVEAL] = "reveal", [CSP_SKIP] = "skip",
    [CSP_CLOCK] = "clock"
};
static const char output[] = "output";

_Static_assert((int)CSP_KEY_BYTES == (int)JOURNAL_KEM, "one length");

static journal *of(void *ctx)
{
    return ((const csp_disk *)ctx)->j;
}

static sefl_status put(void *ctx, csp_record what, uint64_t round, sefl_span bytes)
{
    sefl_rng rng;
    if (what == CSP_KEY)
        return journal_kem_put(of(ctx), round, bytes.p);
    if (what != CSP_OUTPUT && what != CSP_HISTORY)
        return journal_fact_put(of(ctx), round, facts[what], bytes);
    const sefl_coins *coins = ((const csp_disk *)ctx)->coins;
    if (what == CSP_HISTORY) {
        SEFL_PASS(coins_for(coins, &rng, "journal history", round, 0));
        return journal_past_put(of(ctx), round, bytes, &rng);
    }
    SEFL_PASS(coins_for(coins, &rng, "journal output", round, 0));
    return journal_secret_put(of(ctx), round, output, bytes, &rng);
}

static sefl_status get(void *ctx, csp_record what, uint64_t round, sefl_buf *out)
{
    uint8_t key[JOURNAL_KEM];
    if (what == CSP_OUTPUT)
        return journal_secret_get(of(ctx), round, output, out);
    if (what == CSP_HISTORY)
        return journal_past_get(of(ctx), round, out);
    if (what != CSP_KEY)
        return journal_fact_get(of(ctx), round, facts[what], out);
    SEFL_PASS(journal_kem_get(of(ctx), round, key));
    sefl_status st = wr_raw(out, key, sizeof key);
    sefl_wipe(key, sizeof key);
    return st;
}

static sefl_status wipe(void *ctx, csp_record what, uint64_t round)
{
    return (what == CSP_KEY ? journal_kem_wipe : journal_round_wipe)(of(ctx), round);
}

static sefl_status history_keep(void *ctx, uint64_t from, uint64_t to)
{
    return journal_past_keep(of(ctx), from, to);
}

static sefl_status row_put(void *ctx, const csp_row *row)
{
    journal_round to = { .round = row->round,
                         .state = row->state,
                         .opened_ms = row->signed_ms,
                         .skipped = row->state == CSP_SKIPPED,
                         .charged = row->charged,
                         .has_model = true };
    memcpy(to.model, row->model, sizeof to.model);
    return journal_round_put(of(ctx), &to);
}

static sefl_status row_get(void *ctx, uint64_t round, csp_row *out)
{
    journal_round from;
    SEFL_PASS(journal_round_get(of(ctx), round, &from));
    *out = (csp_row){
        .round = round, .state = from.state, .signed_ms = from.opened_ms, .charged = from.charged
    };
    memcpy(out->model, from.model, sizeof out->model);
    return SEFL_OK;
}

static sefl_status highest(void *ctx, csp_round_state state, uint64_t *out)
{
    return journal_round_highest(of(ctx), state, out);
}

static sefl_status note(void *ctx, uint64_t round, const uint8_t digest[SHA256_BYTES])
{
    return account_note(((const csp_disk *)ctx)->a, round, digest);
}

/* ---- sealed tasks ---------------------------------------------------------------------------- */

/* The kept clients are rows of updates; they stay, for `taken`. */
static sefl_status set_put(void *ctx, uint64_t round, sefl_span set, const round_entry *kept,
                           uint32_t n)
{
    sefl_status st = SEFL_OK;
    journal *j = of(ctx);
    SEFL_TRY(journal_begin(j));
    SEFL_TRY(journal_fact_put(j, round, facts[CSP_SET], set));
    for (uint32_t i = 0; i < n; i++) {
        journal_update u = { .round = round };
        memcpy(u.client, kept[i].client, sizeof u.client);
        memcpy(u.body, kept[i].body, sizeof u.body);
        SEFL_TRY(journal_update_put(j, &u));
    }
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

typedef struct taking {
    round_entry *next;
    uint32_t left;
} taking;

static sefl_status take_kept(void *ctx, const journal_update *u)
{
    taking *t = ctx;
    SEFL_NEED(t->left > 0, SEFL_EPROTO, "journal: the set has more clients than it should");
    t->left--;
    memcpy(t->next->client, u->client, 32);
    memcpy(t->next++->body, u->body, 32);
    return SEFL_OK;
}

static sefl_status set_kept(void *ctx, uint64_t round, round_entry *out, uint32_t n)
{
    taking t = { out, n };
    SEFL_PASS(journal_updates(of(ctx), round, take_kept, &t));
    SEFL_NEED(t.left == 0, SEFL_EPROTO, "journal: the set of round %" PRIu64 " lacks clients",
              round);
    return SEFL_OK;
}

/* The machine asks before it stores the set of the current round: all rounds before are charged or
 * skipped. */
static sefl_status taken(void *ctx, const uint8_t client[32], uint64_t *rounds, uint64_t *last)
{
    return journal_client_rounds(of(ctx), client, rounds, last);
}

static sefl_status voucher_get(void *ctx, const uint8_t client[32], uint64_t *serial,
                               uint8_t key[SIGN_PUB_BYTES])
{
    return upload_key_get(of(ctx), client, serial, key);
}

static sefl_status voucher_put(void *ctx, const uint8_t client[32], uint64_t serial,
                               const uint8_t key[SIGN_PUB_BYTES])
{
    return upload_key_put(of(ctx), client, serial, key);
}

csp_store csp_disk_store(csp_disk *d)
{
    return (csp_store){ .ctx = d, .ledger = account_port(d->a), .note = note, CSP_STORE_CALLS };
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Refuses records of an earlier format, which this version would take for missing or damaged.
 * Only the last round counts: CSP answers no question about the records of the rounds before. */
static sefl_status refuse_old_records(const csp_disk *d, uint64_t last)
{
    static const char *const old[] = { "statement", "digest", "refused 0" };
    bool has = false;
    for (size_t i = 0; i < sizeof old / sizeof *old && !has; i++)
        SEFL_PASS(journal_fact_has(d->j, last, old[i], &has));
    SEFL_NEED(!has, SEFL_EUNSUPPORTED,
              "%s: an earlier version of sefl wrote the records of round %" PRIu64
              ", and this version cannot read them: end the task with that version, then start a "
              "new one",
              journal_folder(d->j), last);
    return SEFL_OK;
}

/* The last round, if it is signed and not revealed: a crash, or an old copy of the journal? The
 * header has the table. */
static sefl_status settle(csp_disk *d, const csp_store *s, uint64_t last)
{
    csp_round now;
    uint64_t noted;
    uint8_t digest[SHA256_BYTES], is[SHA256_BYTES] = { 0 };
    bool charged, marked, whole = false;
    SEFL_PASS(account_knows(d->a, last));
    SEFL_PASS(account_noted(d->a, &noted, digest));
    SEFL_NEED(noted <= last, SEFL_ESTATE,
              "round %" PRIu64 " of this task was revealed, but %s ends with round %" PRIu64
              ": it is an old copy. A round could be revealed twice: " ACCOUNT_REMEDY,
              noted, journal_folder(d->j), last);
    SEFL_PASS(csp_store_get(s, last, &now));
    if (now.state != CSP_SIGNED)
        return SEFL_OK;
    SEFL_PASS(account_has(d->a, last, &charged));
    SEFL_PASS(csp_store_has(s, CSP_CHARGING, last, &marked));
    if (noted == last)
        SEFL_PASS(csp_store_whole(s, last, is, &whole));
    else if (marked || !charged)
        return SEFL_OK;
    whole = whole && memcmp(is, digest, sizeof is) == 0;
    return whole ? csp_store_mark(s, &now) : csp_store_skip(s, last, CSP_SKIP_OLD_STATE);
}

/* Yes for a round that can still be revealed, or begun. */
static sefl_status key_is_needed(void *ctx, uint64_t round, bool *yes)
{
    csp_round now;
    sefl_status st = csp_store_get(ctx, round, &now);
    *yes = now.state == CSP_NEW || now.state == CSP_SIGNED;
    return st;
}

sefl_status csp_disk_open(csp_disk *d, journal *j, account *a, const sefl_coins *coins)
{
    *d = (csp_disk){ j, a, coins };
    csp_store s = csp_disk_store(d);
    csp_highest top;
    SEFL_PASS(csp_store_highest(&s, &top));
    SEFL_PASS(refuse_old_records(d, top.header));
    SEFL_PASS(settle(d, &s, top.header));
    /* AS has the header of the highest round, so it has all releases before it. */
    for (uint64_t r = 1; r < top.header; r++)
        SEFL_PASS(wipe(d, CSP_OUTPUT, r));
    return journal_kem_sweep(j, key_is_needed, &s);
}

sefl_status csp_disk_bind_key(const csp_disk *d, const task *t)
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
               "the secret key %.16s... has served task %s, and a key serves one task: create a "
               "new key ('sefl key new --scheme paillier'), name its public half in the new task "
               "('sefl task new --key') and have both servers sign the task",
               name + 4, other);
done:
    buf_clear(&b);
    return st;
}
