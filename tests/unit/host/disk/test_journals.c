#include "support/check.h"
#include "support/csp_desk.h"
#include "support/folder.h"
#include "support/store_place.h"

#include "base/alloc.h"
#include "base/file.h"
#include "store/disk/as_disk.h"
#include "store/disk/upload_keys.h"

#include <string.h>

static const uint8_t set_a[32] = { 1 }, set_b[32] = { 2 };
static const uint8_t id_a[NOISE_ID] = { 3 }, id_b[NOISE_ID] = { 4 }, digest[32] = { 5 };

/* ---- CSP ----------------------------------------------------------------------------------- */

/* The ledger is beside the folder; the first call creates it. */
static sefl_status desk_open_as(desk *d, const char *name, const task *t)
{
    char path[300];
    *d = (desk){ 0 };
    snprintf(path, sizeof path, "%s.ledger", folder_path(name));
    if (!file_exists(path))
        SEFL_PASS(ledger_create(path, t->population));
    return desk_open_task(d, folder_path(name), path, t);
}

static sefl_status desk_open(desk *d, const char *name)
{
    task t = desk_task();
    return desk_open_as(d, name, &t);
}

static void desk_again(desk *d, const char *name)
{
    desk_close(d);
    CHECK_OK(desk_open(d, name));
}

static void check_highest(desk *d, uint64_t s, uint64_t o, uint64_t k)
{
    csp_highest top;
    CHECK_OK(csp_store_highest(&d->t, &top));
    assert_true(top.header == s && top.revealed == o && top.skipped == k);
}

static void check_kept(desk *d, uint64_t round, const char *want)
{
    uint8_t id[NOISE_ID], dig[32], is[32];
    sefl_buf b = { 0 };
    CHECK_OK(csp_store_kept(&d->t, round, id, &b, dig));
    assert_memory_equal(id, id_a, sizeof id);
    assert_int_equal(b.n, strlen(want));
    assert_memory_equal(b.p, want, b.n);
    sha256_of(is, buf_span(&b));
    assert_memory_equal(dig, is, sizeof dig);
    buf_clear(&b);
}

static void csp_rounds(void **state)
{
    (void)state;
    desk d;
    csp_round r, one = signed_round(1), two = signed_round(2);
    sefl_buf b = { 0 };
    uint8_t id[NOISE_ID], dig[32];
    CHECK_OK(desk_open(&d, "csp"));
    check_highest(&d, 0, 0, 0);
    CHECK_OK(csp_store_get(&d.t, 1, &r));
    assert_true(r.state == CSP_NEW && r.round == 1);
    CHECK_OK(csp_store_get(&d.t, UINT64_MAX, &r));
    assert_true(r.state == CSP_NEW);
    CHECK_STATUS(desk_reveal(&d.t, 1, id_a, "the output"), SEFL_ESTATE); /* not signed */
    CHECK_STATUS(csp_store_skip(&d.t, 1, 2), SEFL_ESTATE);
    CHECK_OK(csp_store_sign(&d.t, &one));
    CHECK_STATUS(csp_store_sign(&d.t, &one), SEFL_ESTATE);
    CHECK_STATUS(csp_store_forget(&d.t, 1), SEFL_ESTATE);
    CHECK_STATUS(csp_store_kept(&d.t, 1, id, &b, dig), SEFL_ENOTFOUND);
    CHECK_STATUS(desk_reveal(&d.t, 1, id_a, "the output"), SEFL_ESTATE); /* not charged */
    assert_non_null(strstr(sefl_last_error(), "not charged"));
    check_highest(&d, 1, 0, 0);

    desk_again(&d, "csp");
    CHECK_OK(csp_store_get(&d.t, 1, &r));
    assert_memory_equal(&r, &one, sizeof r);
    CHECK_OK(csp_store_charge(&d.t, 1));
    CHECK_OK(csp_store_charge(&d.t, 1));
    CHECK_OK(desk_reveal(&d.t, 1, id_a, "the output"));
    CHECK_STATUS(desk_reveal(&d.t, 1, id_b, "other"), SEFL_ESTATE);
    CHECK_STATUS(csp_store_skip(&d.t, 1, 2), SEFL_ESTATE);
    CHECK_STATUS(csp_store_sign(&d.t, &one), SEFL_ESTATE);
    check_kept(&d, 1, "the output");

    desk_again(&d, "csp");
    check_kept(&d, 1, "the output");
    check_highest(&d, 1, 1, 0);
    CHECK_OK(journal_fact_get(d.j, 1, "reveal", &b));
    assert_int_equal(b.n, NOISE_ID + 32 + 1);
    CHECK_OK(csp_store_sign(&d.t, &two));
    CHECK_OK(csp_store_forget(&d.t, 1));
    CHECK_OK(csp_store_forget(&d.t, 1));
    CHECK_STATUS(csp_store_kept(&d.t, 1, id, &b, dig), SEFL_ENOTFOUND);
    CHECK_OK(csp_store_get(&d.t, 1, &r));
    assert_int_equal(r.state, CSP_REVEALED); /* the mark stays */
    CHECK_STATUS(desk_reveal(&d.t, 1, id_b, "the output"), SEFL_ESTATE);
    CHECK_OK(csp_store_skip(&d.t, 2, 3));
    CHECK_STATUS(csp_store_skip(&d.t, 2, 3), SEFL_ESTATE);
    CHECK_OK(csp_store_charge(&d.t, 2));
    CHECK_STATUS(desk_reveal(&d.t, 2, id_b, "the output"), SEFL_ESTATE);
    check_highest(&d, 2, 1, 2);

    ledger_head m, ours;
    CHECK_OK(d.t.ledger.head(d.t.ledger.ctx, &m));
    CHECK_OK(account_port(d.a).head(d.a, &ours));
    assert_memory_equal(&m, &ours, sizeof m);
    assert_int_equal(d.t.ledger.compare(d.t.ledger.ctx, &m), LEDGER_SAME);
    desk_close(&d);
    buf_clear(&b);
}

/* Records that an earlier version wrote are refused by name, and nothing is changed. */
static void csp_old_records(void **state)
{
    (void)state;
    static const char *const old[] = { "statement", "digest", "refused 0" };
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        desk d;
        char name[24];
        csp_round r, one = signed_round(1), two = signed_round(2);
        snprintf(name, sizeof name, "old-%zu", i);
        CHECK_OK(desk_open(&d, name));
        CHECK_OK(csp_store_sign(&d.t, &one));
        CHECK_OK(journal_fact_put(d.j, 1, old[i], span_of(digest, 32)));
        desk_close(&d);
        CHECK_STATUS(desk_open(&d, name), SEFL_EUNSUPPORTED);
        assert_non_null(strstr(sefl_last_error(), "an earlier version of sefl"));
        csp_store raw = csp_disk_store(&d.jc);
        CHECK_OK(csp_store_get(&raw, 1, &r));
        assert_int_equal(r.state, CSP_SIGNED);
        CHECK_OK(csp_store_skip(&raw, 1, 0));
        CHECK_OK(csp_store_sign(&raw, &two)); /* the round after it has none */
        desk_again(&d, name);
        desk_close(&d);
    }
}

/* A crash between the next header and the erasure of the previous round: the next start erases
 * it. */
static void csp_forgets_later(void **state)
{
    (void)state;
    desk d;
    csp_round one = signed_round(1), two = signed_round(2);
    uint8_t id[NOISE_ID], dig[32];
    sefl_buf b = { 0 };
    CHECK_OK(desk_open(&d, "later"));
    CHECK_OK(csp_store_sign(&d.t, &one));
    CHECK_OK(csp_store_charge(&d.t, 1));
    CHECK_OK(desk_reveal(&d.t, 1, id_a, "output"));
    desk_again(&d, "later");
    check_kept(&d, 1, "output"); /* nobody has the next header yet */
    CHECK_OK(csp_store_sign(&d.t, &two));
    check_kept(&d, 1, "output");
    desk_again(&d, "later");
    CHECK_STATUS(csp_store_kept(&d.t, 1, id, &b, dig), SEFL_ENOTFOUND);
    desk_close(&d);
}

/* The journal is deleted, or an old copy restored, while the ledger stays. */
static void csp_journal_lost(void **state)
{
    (void)state;
    desk d;
    csp_round one = signed_round(1), two = signed_round(2);
    char now[300], old[310];
    snprintf(now, sizeof now, "%s", folder_path("lost"));
    snprintf(old, sizeof old, "%s.old", now);
    CHECK_OK(desk_open(&d, "lost"));
    CHECK_OK(csp_store_sign(&d.t, &one));
    CHECK_OK(csp_store_charge(&d.t, 1));
    CHECK_OK(desk_reveal(&d.t, 1, id_a, "output"));
    CHECK_OK(csp_store_sign(&d.t, &two));
    CHECK_OK(csp_store_charge(&d.t, 2)); /* and a crash before the mark: fine */
    desk_again(&d, "lost");
    desk_close(&d);
    assert_int_equal(rename(now, old), 0);
    if (store_is_pg())
        store_drop(now);
    CHECK_STATUS(desk_open(&d, "lost"), SEFL_ESTATE);
    assert_non_null(strstr(sefl_last_error(), "charged 2 rounds"));
    assert_non_null(strstr(sefl_last_error(), "old copy"));
    desk_close(&d);
    CHECK_STATUS(desk_open(&d, "lost"), SEFL_ESTATE); /* still */
    desk_close(&d);
}

/* ---- CSP, sealed rounds ---------------------------------------------------------------------- */

static const uint8_t kem_a[CSP_KEY_BYTES] = { 0xa }, kem_b[CSP_KEY_BYTES] = { 0xb };

static void check_key(desk *d, uint64_t round, const uint8_t *want)
{
    uint8_t got[CSP_KEY_BYTES];
    CHECK_STATUS(csp_store_key_get(&d->t, round, got), want ? SEFL_OK : SEFL_ENOTFOUND);
    if (want)
        assert_memory_equal(got, want, sizeof got);
}

/* Generated again only before the header is signed; wiped on request, and at the next start if a
 * crash prevented the wipe of a marked round; no key of another task remains. */
static void csp_keys(void **state)
{
    (void)state;
    desk d;
    csp_round one = signed_round(1), two = signed_round(2), r;
    char first[300];
    CHECK_OK(desk_open(&d, "keys"));
    check_key(&d, 1, NULL);
    CHECK_OK(csp_store_key_make(&d.t, 1, kem_a));
    check_key(&d, 1, kem_a);
    CHECK_OK(csp_store_key_make(&d.t, 1, kem_b));
    desk_again(&d, "keys"); /* the round is new: it may start with this key */
    check_key(&d, 1, kem_b);
    CHECK_OK(csp_store_sign(&d.t, &one));
    CHECK_STATUS(csp_store_key_make(&d.t, 1, kem_a), SEFL_ESTATE);
    desk_again(&d, "keys");
    check_key(&d, 1, kem_b);
    CHECK_OK(csp_store_get(&d.t, 1, &r));
    assert_int_equal(r.signed_ms, 1001);
    CHECK_OK(csp_store_charge(&d.t, 1));
    CHECK_OK(desk_reveal(&d.t, 1, id_a, "output"));
    CHECK_OK(csp_store_get(&d.t, 1, &r));
    assert_int_equal(r.signed_ms, 1001);
    check_key(&d, 1, kem_b);
    desk_again(&d, "keys"); /* died before the wipe */
    check_key(&d, 1, NULL);
    CHECK_STATUS(csp_store_key_make(&d.t, 1, kem_a), SEFL_ESTATE);
    check_kept(&d, 1, "output"); /* which has its own key */

    CHECK_OK(csp_store_key_make(&d.t, 2, kem_a));
    CHECK_OK(csp_store_sign(&d.t, &two));
    CHECK_OK(csp_store_key_wipe(&d.t, 2)); /* lost: the round is skipped then */
    CHECK_OK(csp_store_key_wipe(&d.t, 2));
    check_key(&d, 2, NULL);
    CHECK_STATUS(csp_store_key_make(&d.t, 2, kem_a), SEFL_ESTATE);
    CHECK_OK(csp_store_skip(&d.t, 2, CSP_SKIP_EXPIRED));
    CHECK_OK(csp_store_get(&d.t, 2, &r));
    assert_int_equal(r.skip, CSP_SKIP_EXPIRED);
    assert_int_equal(r.signed_ms, 1002);

    CHECK_OK(csp_store_key_make(&d.t, 3, kem_a));
    csp_round three = signed_round(3);
    CHECK_OK(csp_store_sign(&d.t, &three));
    CHECK_OK(csp_store_skip(&d.t, 3, 1));
    check_key(&d, 3, kem_a);
    desk_again(&d, "keys");
    check_key(&d, 3, NULL);

    CHECK_OK(csp_store_key_make(&d.t, 4, kem_a));
    snprintf(first, sizeof first, "%s/task-1/round-4.kem", folder_path("keys"));
    assert_true(store_is_pg() ? store_count(folder_path("keys"), "round_key WHERE kind = 1") == 1
                              : file_exists(first));
    desk_close(&d);
    task other = desk_task();
    other.id[0] = 99;
    CHECK_OK(desk_open_as(&d, "keys", &other));
    assert_false(file_exists(first));
    if (store_is_pg())
        assert_int_equal(store_count(folder_path("keys"), "round_key WHERE kind = 1"), 0);
    desk_close(&d);
}

/* A set of n kept clients from `from` on, and m refused. */
static csp_set a_set(uint32_t from, uint32_t n, uint32_t m)
{
    csp_set s = { .digest = { 1 }, .root = { 2 }, .clients = n + m, .kept_n = n, .refused_n = m };
    CHECK_OK(sefl_new(&s.kept, n, sizeof *s.kept));
    CHECK_OK(sefl_new(&s.refused, m, sizeof *s.refused));
    for (uint32_t i = 0; i < n; i++) {
        s.kept[i].client[30] = (uint8_t)((from + i) >> 8);
        s.kept[i].client[31] = (uint8_t)(from + i);
        store_u32(s.kept[i].body, i);
    }
    for (uint32_t i = 0; i < m; i++)
        s.refused[i] = (head_refusal){ .index = i, .reason = (uint8_t)(1 + i % 8) };
    return s;
}

static void same_set(const csp_set *a, const csp_set *b)
{
    assert_memory_equal(a->digest, b->digest, 32);
    assert_memory_equal(a->root, b->root, 32);
    assert_true(a->clients == b->clients && a->kept_n == b->kept_n && a->refused_n == b->refused_n);
    assert_memory_equal(a->kept, b->kept, a->kept_n * sizeof *a->kept);
    for (uint32_t i = 0; i < a->refused_n; i++)
        assert_true(a->refused[i].index == b->refused[i].index &&
                    a->refused[i].reason == b->refused[i].reason);
}

static void check_taken(desk *d, uint32_t client, uint64_t want)
{
    csp_set s = a_set(client, 1, 0);
    uint64_t got = 99, last = 99;
    CHECK_OK(d->t.taken(d->t.ctx, s.kept[0].client, &got, &last));
    assert_int_equal(last > 0, want > 0);
    assert_int_equal(got, want);
    csp_set_clear(&s);
}

static void csp_sets(void **state)
{
    (void)state;
    desk d;
    csp_set got, s = a_set(1, 300, 3), none = a_set(0, 0, 0), many = a_set(200, 2, 200001);
    CHECK_OK(desk_open(&d, "sets"));
    CHECK_STATUS(csp_store_set_put(&d.t, 1, &s), SEFL_ESTATE); /* not signed */
    for (uint64_t round = 1; round <= 4; round++) {
        csp_round r = signed_round(round);
        CHECK_OK(csp_store_sign(&d.t, &r));
        CHECK_STATUS(csp_store_set_get(&d.t, round, &got), SEFL_ENOTFOUND);
        const csp_set *one = round == 1 ? &s : round == 2 ? &many : round == 3 ? &none : &s;
        CHECK_OK(csp_store_set_put(&d.t, round, one));
        CHECK_STATUS(csp_store_set_put(&d.t, round, one), SEFL_ESTATE);
        desk_again(&d, "sets");
        CHECK_OK(csp_store_set_get(&d.t, round, &got));
        same_set(&got, one);
        csp_set_clear(&got);
        if (round == 1) { /* revealed and erased: the participants stay recorded */
            CHECK_OK(csp_store_charge(&d.t, 1));
            CHECK_OK(desk_reveal(&d.t, 1, id_a, "o"));
            CHECK_OK(csp_store_set_get(&d.t, round, &got));
            csp_set_clear(&got);
            CHECK_OK(csp_store_forget(&d.t, 1));
            check_taken(&d, 1, 1);
            check_taken(&d, 0, 0);
            check_taken(&d, 301, 0);
        } else if (round == 2) { /* skipped after its charge: it counts */
            CHECK_OK(csp_store_charge(&d.t, 2));
            CHECK_OK(csp_store_skip(&d.t, 2, 1));
            check_taken(&d, 200, 2);
            check_taken(&d, 202, 1);
        } else { /* skipped before: it does not */
            CHECK_OK(csp_store_skip(&d.t, round, 1));
            check_taken(&d, 200, 2);
            check_taken(&d, 202, 1);
        }
        CHECK_STATUS(csp_store_set_put(&d.t, round, one), SEFL_ESTATE);
    }
    csp_set two = a_set(7, 2, 0); /* a duplicate client is our own bug: nothing is stored */
    csp_round five = signed_round(5);
    memcpy(two.kept[1].client, two.kept[0].client, 32);
    CHECK_OK(csp_store_sign(&d.t, &five));
    assert_int_not_equal(csp_store_set_put(&d.t, 5, &two), SEFL_OK);
    CHECK_STATUS(csp_store_set_get(&d.t, 5, &got), SEFL_ENOTFOUND);
    CHECK_OK(csp_store_set_put(&d.t, 5, &s));
    desk_close(&d);
    csp_set_clear(&s), csp_set_clear(&none), csp_set_clear(&many), csp_set_clear(&two);
}

static void csp_vouchers(void **state)
{
    (void)state;
    desk d;
    static const uint8_t ann[32] = { 1 }, bob[32] = { 2 };
    uint8_t key[SIGN_PUB_BYTES];
    uint64_t serial;
    CHECK_OK(desk_open(&d, "vouchers"));
    void *x = d.t.ctx;
    CHECK_STATUS(d.t.voucher_get(x, ann, &serial, key), SEFL_ENOTFOUND);
    CHECK_OK(d.t.voucher_put(x, ann, 5, kem_a));
    CHECK_OK(d.t.voucher_put(x, ann, 5, kem_a));                  /* sent again */
    CHECK_STATUS(d.t.voucher_put(x, ann, 5, kem_b), SEFL_ESTATE); /* the same serial, another key */
    CHECK_STATUS(d.t.voucher_put(x, ann, 4, kem_b), SEFL_ESTATE);
    CHECK_STATUS(d.t.voucher_put(x, bob, 9, kem_a), SEFL_ESTATE); /* another client's key */
    CHECK_STATUS(d.t.voucher_get(x, bob, &serial, key), SEFL_ENOTFOUND);
    desk_again(&d, "vouchers"), x = d.t.ctx;
    CHECK_OK(d.t.voucher_get(x, ann, &serial, key));
    assert_int_equal(serial, 5);
    assert_memory_equal(key, kem_a, sizeof key);
    CHECK_OK(d.t.voucher_put(x, ann, 6, kem_b)); /* a new one */
    CHECK_STATUS(d.t.voucher_put(x, ann, 5, kem_a), SEFL_ESTATE);
    CHECK_STATUS(d.t.voucher_put(x, bob, 9, kem_a), SEFL_ESTATE); /* that another client had once */
    CHECK_OK(d.t.voucher_put(x, ann, 7, kem_a));                  /* except for its owner */
    CHECK_OK(d.t.voucher_put(x, bob, 1, set_a));
    desk_close(&d);
    task other = desk_task(); /* they outlive the task */
    other.id[0] = 99;
    CHECK_OK(desk_open_as(&d, "vouchers", &other));
    CHECK_OK(d.t.voucher_get(d.t.ctx, ann, &serial, key));
    assert_int_equal(serial, 7);
    desk_close(&d);
}

/* A client that keeps vouching for new keys cannot fill the disk. */
static void csp_voucher_flood(void **state)
{
    (void)state;
    desk d;
    static const uint8_t ann[32] = { 1 }, bob[32] = { 2 };
    uint8_t key[SIGN_PUB_BYTES] = { 0 };
    uint64_t serial;
    CHECK_OK(desk_open(&d, "flood"));
    void *x = d.t.ctx;
    for (uint32_t i = 1; i <= UPLOAD_KEYS_MAX; i++) {
        store_u32(key, i);
        CHECK_OK(d.t.voucher_put(x, ann, i, key));
    }
    CHECK_OK(d.t.voucher_put(x, ann, UPLOAD_KEYS_MAX, key)); /* sent again */
    CHECK_OK(upload_key_forget(d.j, ann));
    CHECK_OK(d.t.voucher_put(x, ann, 1000, key)); /* one of those that it has had */
    store_u32(key, 5000);
    CHECK_STATUS(d.t.voucher_put(x, ann, 5000, key), SEFL_ESTATE);
    for (uint32_t i = 1; i <= UPLOAD_KEYS_MAX; i++) /* nobody else is affected */
        CHECK_OK(d.t.voucher_put(x, bob, i, key));
    CHECK_STATUS(d.t.voucher_put(x, bob, 5000, key), SEFL_ESTATE); /* one key, many serials */
    CHECK_OK(d.t.voucher_get(x, ann, &serial, key));
    assert_int_equal(serial, 1000);
    assert_int_equal(load_u32(key), UPLOAD_KEYS_MAX);
    desk_close(&d);
}

/* The predicted head of a charge equals the head after it. */
static void csp_charge_head(void **state)
{
    (void)state;
    desk d;
    ledger_head now, would, then;
    CHECK_OK(desk_open(&d, "heads"));
    for (uint64_t round = 1; round <= 2; round++) { /* with a record of the task, and without */
        CHECK_OK(d.t.ledger.head(d.t.ledger.ctx, &now));
        CHECK_OK(d.t.ledger.head_after(d.t.ledger.ctx, round, &would));
        CHECK_OK(d.t.ledger.head(d.t.ledger.ctx, &then));
        assert_memory_equal(&now, &then, sizeof now); /* nothing is written */
        CHECK_OK(csp_store_charge(&d.t, round));
        CHECK_OK(d.t.ledger.head(d.t.ledger.ctx, &then));
        assert_memory_equal(&would, &then, sizeof now);
        CHECK_OK(d.t.ledger.head_after(d.t.ledger.ctx, round, &would));
        assert_memory_equal(&would, &then, sizeof now); /* charged before */
    }
    desk_close(&d);
}

/* The steps of round 1: each is the state of CSP's folder at one moment. */
enum { EMPTY, SIGNED, MARKED, CHARGED, OPENED, NEXT_SIGNED, STEPS };

static void one_step(desk *d, int step)
{
    csp_round one = signed_round(1), two = signed_round(2);
    if (step == SIGNED) {
        CHECK_OK(csp_store_key_make(&d->t, 1, kem_a));
        CHECK_OK(csp_store_sign(&d->t, &one));
    } else if (step == MARKED) /* as if it had died before the charge */
        CHECK_OK(journal_fact_put(d->j, 1, "charging", span_of("1", 1)));
    else if (step == CHARGED)
        CHECK_OK(csp_store_charge(&d->t, 1));
    else if (step == OPENED)
        CHECK_OK(desk_reveal(&d->t, 1, id_a, "output"));
    else if (step == NEXT_SIGNED)
        CHECK_OK(csp_store_sign(&d->t, &two));
}

/* A copy of the state folder from every step, restored at every later one, while the ledger stays:
 * CSP refuses the task, or skips the round permanently, or the round is revealed with the same
 * output. CSP reveals it only if nothing was charged, or if the copy has the charge and nothing was
 * revealed; only then does the copy's sealing key survive the start. */
static void csp_old_copies(void **state)
{
    (void)state;
    char now[300], copy[STEPS][320];
    snprintf(now, sizeof now, "%s", folder_path("old"));
    for (int then = 0; then < STEPS; then++) {
        desk d;
        CHECK_OK(desk_open(&d, "old"));
        one_step(&d, then);
        desk_close(&d);
        snprintf(copy[then], sizeof copy[then], "%s-%d", now, then);
        store_copy(copy[then], now);
        for (int from = 0; from < then; from++) {
            csp_round r;
            store_copy(now, copy[from]);
            sefl_status st = desk_open(&d, "old");
            /* a shared store has the ledger too, but not its copy beside the folder */
            if (then >= CHARGED && from < (store_is_pg() ? CHARGED : SIGNED)) {
                CHECK_STATUS(st, SEFL_ESTATE);
                assert_non_null(strstr(sefl_last_error(), "old copy"));
                desk_close(&d);
                continue;
            }
            CHECK_OK(st);
            CHECK_OK(csp_store_get(&d.t, 1, &r));
            if (from == OPENED) {
                assert_int_equal(r.state, CSP_REVEALED);
                check_kept(&d, 1, "output");
                check_key(&d, 1, NULL);
            } else if (then >= OPENED || (then == CHARGED && from == SIGNED)) {
                assert_int_equal(r.state, CSP_SKIPPED);
                assert_int_equal(r.skip, CSP_SKIP_OLD_STATE);
                CHECK_OK(csp_store_charge(&d.t, 1));
                CHECK_STATUS(desk_reveal(&d.t, 1, id_b, "x"), SEFL_ESTATE);
                check_key(&d, 1, NULL);
            } else {
                check_key(&d, 1, from == EMPTY ? NULL : kem_a);
                assert_int_equal(r.state, from == EMPTY ? CSP_NEW : CSP_SIGNED);
            }
            desk_close(&d);
        }
        store_copy(now, copy[then]);
    }
}

/* The same, while AS goes to another task and back, as it may with a folder of tasks. The copy was
 * taken while AS held back a charged round; the round was revealed since. */
static void csp_earlier_task(void **state)
{
    (void)state;
    desk d;
    char now[300], copy[320];
    csp_round r;
    task other = desk_task();
    other.id[0] = 99;
    snprintf(now, sizeof now, "%s", folder_path("turns"));
    snprintf(copy, sizeof copy, "%s-copy", now);
    CHECK_OK(desk_open(&d, "turns"));
    one_step(&d, SIGNED);
    one_step(&d, CHARGED);
    desk_close(&d);
    store_copy(copy, now);
    CHECK_OK(desk_open(&d, "turns"));
    one_step(&d, OPENED);
    desk_close(&d);
    CHECK_OK(desk_open_as(&d, "turns", &other));
    one_step(&d, SIGNED);
    one_step(&d, CHARGED);
    one_step(&d, OPENED);
    desk_close(&d);
    store_copy(now, copy); /* the ledger and the notes beside it stay */
    CHECK_STATUS(desk_open_as(&d, "turns", &other), SEFL_ESTATE);
    desk_close(&d);
    if (store_is_pg()) { /* the copy of the ledger has the other task's charge */
        CHECK_STATUS(desk_open(&d, "turns"), SEFL_ESTATE);
        assert_non_null(strstr(sefl_last_error(), "old copy"));
        desk_close(&d);
        return;
    }
    CHECK_OK(desk_open(&d, "turns"));
    CHECK_OK(csp_store_get(&d.t, 1, &r));
    assert_int_equal(r.state, CSP_SKIPPED);
    assert_int_equal(r.skip, CSP_SKIP_OLD_STATE);
    check_key(&d, 1, NULL);
    CHECK_STATUS(desk_reveal(&d.t, 1, id_b, "x"), SEFL_ESTATE);
    desk_close(&d);
}

/* Died in the middle of a reveal: after the charge, the round is revealed at the next attempt;
 * after the note beside the ledger, it is revealed with that output. */
static void csp_opening_interrupted(void **state)
{
    (void)state;
    desk d;
    csp_round r;
    journal_round row;
    CHECK_OK(desk_open(&d, "half"));
    for (int step = SIGNED; step <= CHARGED; step++) {
        one_step(&d, step);
        desk_again(&d, "half");
        CHECK_OK(csp_store_get(&d.t, 1, &r));
        assert_int_equal(r.state, CSP_SIGNED);
    }
    one_step(&d, OPENED);
    CHECK_OK(journal_round_get(d.j, 1, &row));
    row.state = CSP_SIGNED;
    CHECK_OK(journal_round_put(d.j, &row));
    desk_again(&d, "half");
    check_kept(&d, 1, "output");
    CHECK_OK(csp_store_get(&d.t, 1, &r));
    assert_int_equal(r.state, CSP_REVEALED);
    desk_close(&d);
}

/* The mark cannot be written: CSP writes it before another attempt, whose output would replace the
 * one that the note names. If one did, a crash before its REVEAL (cut 0), before its note (1) or
 * later (2) is no reveal of the first. */
static void csp_marked_later(void **state)
{
    (void)state;
    for (int cut = 0; cut < 3; cut++) {
        desk d;
        csp_round r;
        journal_round row;
        char name[24];
        sefl_buf b = { 0 };
        snprintf(name, sizeof name, "later-%d", cut);
        CHECK_OK(desk_open(&d, name));
        for (int step = SIGNED; step <= OPENED; step++)
            one_step(&d, step);
        CHECK_OK(journal_round_get(d.j, 1, &row));
        row.state = CSP_SIGNED;
        CHECK_OK(journal_round_put(d.j, &row));
        CHECK_OK(journal_fact_get(d.j, 1, "reveal", &b));
        CHECK_OK(csp_store_get(&d.t, 1, &r));
        assert_int_equal(r.state, CSP_SIGNED);
        CHECK_OK(csp_store_resume(&d.t, &r));
        assert_int_equal(r.state, CSP_REVEALED);
        check_kept(&d, 1, "output");

        CHECK_OK(journal_round_put(d.j, &row));
        csp_store other = d.t;
        if (cut < 2)
            other.note = NULL;
        CHECK_OK(desk_reveal(&other, 1, id_b, "another output"));
        if (cut == 0)
            CHECK_OK(journal_fact_put(d.j, 1, "reveal", buf_span(&b)));
        CHECK_OK(journal_round_put(d.j, &row));
        CHECK_OK(csp_store_get(&d.t, 1, &r));
        if (cut == 0) { /* in the same process another attempt may follow */
            CHECK_OK(csp_store_resume(&d.t, &r));
            assert_int_equal(r.state, CSP_SIGNED);
        }
        desk_again(&d, name);
        CHECK_OK(csp_store_get(&d.t, 1, &r));
        assert_int_equal(r.state, cut < 2 ? CSP_SKIPPED : CSP_REVEALED);
        desk_close(&d);
        buf_clear(&b);
    }
}

/* An output that can be read and is not what CSP stored is gone for good. */
static void csp_damaged_output(void **state)
{
    (void)state;
    desk d;
    uint8_t id[NOISE_ID], dig[32];
    sefl_buf b = { 0 };
    CHECK_OK(desk_open(&d, "damaged"));
    for (int step = SIGNED; step <= OPENED; step++)
        one_step(&d, step);
    check_kept(&d, 1, "output");
    CHECK_OK(d.t.put(d.t.ctx, CSP_OUTPUT, 1, span_of_str("outputs")));
    CHECK_STATUS(csp_store_kept(&d.t, 1, id, &b, dig), SEFL_ENOTFOUND);
    assert_int_equal(b.n, 0);
    CHECK_OK(journal_file_put(d.j, 1, "output", span_of_str("no sealed bytes")));
    CHECK_STATUS(csp_store_kept(&d.t, 1, id, &b, dig), SEFL_ENOTFOUND);
#if SEFL_FAULTS
    if (!store_is_pg()) {
        fault_arm(FAULT_READ, 1);
        CHECK_STATUS(csp_store_kept(&d.t, 1, id, &b, dig), SEFL_EIO);
        fault_disarm();
    }
#endif
    desk_close(&d);
}

static sefl_status whole_round(desk *d, uint64_t round, const csp_set *s)
{
    sefl_status st = SEFL_OK;
    csp_set got = { 0 };
    csp_round r = signed_round(round), now;
    SEFL_TRY(csp_store_get(&d->t, round, &now));
    if (now.state == CSP_NEW) {
        SEFL_TRY(csp_store_key_make(&d->t, round, kem_a));
        SEFL_TRY(csp_store_sign(&d->t, &r));
    }
    st = csp_store_set_get(&d->t, round, &got);
    if (st == SEFL_ENOTFOUND)
        st = csp_store_set_put(&d->t, round, s);
    SEFL_TRY(st);
    SEFL_TRY(csp_store_charge(&d->t, round));
    if (now.state != CSP_REVEALED)
        SEFL_TRY(desk_reveal(&d->t, round, id_a, "output"));
    SEFL_TRY(csp_store_key_wipe(&d->t, round));
    SEFL_TRY(d->t.voucher_put(d->t.ctx, s->kept[0].client, round, kem_a));
    SEFL_TRY(csp_store_forget(&d->t, round));
done:
    csp_set_clear(&got);
    return st;
}

static void csp_faults(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    desk d;
    uint64_t round = 1;
    csp_set s = a_set(1, 2, 1);
    CHECK_OK(desk_open(&d, "faults"));
    for (size_t k = 0; k < 4; k++)
        for (uint64_t nth = 1;; nth++, round++) {
            csp_round now;
            fault_arm(kinds[k], nth);
            sefl_status st = whole_round(&d, round, &s);
            bool hit = fault_was_hit();
            fault_disarm();
            assert_int_equal(hit, st != SEFL_OK);
            CHECK_OK(csp_store_get(&d.t, round, &now));
            CHECK_OK(whole_round(&d, round, &s)); /* continues */
            if (!hit)
                break;
        }
    desk_close(&d);
    for (size_t k = 0; k < 4; k++)
        TEST_FAULTS(kinds[k], st = desk_open(&d, "faults");
                    if (st != SEFL_OK) desk_close(&d), desk_close(&d));
    csp_set_clear(&s);
#endif
}

/* ---- AS ------------------------------------------------------------------------------------ */

static as_mask a_mask(uint64_t attempt, const uint8_t set[32], uint8_t seed)
{
    as_mask m = { .attempt = attempt, .seed = { seed }, .coins = { seed }, .slice = { seed } };
    memcpy(m.set, set, 32);
    return m;
}

/* Stores a reply of round 3, unless another one is stored. */
static bool is_reply(const as_store *t, uint64_t attempt, const uint8_t is[SHA256_BYTES])
{
    bool same;
    CHECK_OK(as_store_replied(t, 3, attempt, is, &same));
    return same;
}

static void as_rounds(void **state)
{
    (void)state;
    journal *j;
    as_disk disk;
    sefl_coins coins = coins_system();
    as_mask m, got = { 0 };
    sefl_buf back = { 0 };
    const uint8_t shares[2000] = { 9 }; /* of the slice 9, 0, ... */
    CHECK_OK(store_open(&j, folder_path("as"), "aggregator", set_a));
    disk = (as_disk){ .j = j, .coins = &coins };
    as_store t = as_disk_store(&disk);
    CHECK_OK(t.put(t.ctx, AS_SHARES, 3, 5, span_of(shares, sizeof shares)));
    CHECK_STATUS(as_store_masked(&t, 3, &got), SEFL_ENOTFOUND);
    m = a_mask(5, set_a, 9);
    CHECK_OK(as_store_mask(&t, 3, &m));
    m = a_mask(5, set_a, 8);
    CHECK_STATUS(as_store_mask(&t, 3, &m), SEFL_ESTATE);
    m.attempt = 4;
    CHECK_STATUS(as_store_mask(&t, 3, &m), SEFL_ESTATE);
    m = a_mask(6, set_b, 8); /* never on another set */
    CHECK_STATUS(as_store_mask(&t, 3, &m), SEFL_ESTATE);
    for (int i = 0; i < 3; i++) { /* no seed and no slice twice */
        m = a_mask(6, set_a, 8);
        (i == 0 ? m.seed : i == 1 ? m.coins : m.slice)[0] = 9;
        CHECK_STATUS(as_store_mask(&t, 3, &m), SEFL_ESTATE);
    }
    assert_true(is_reply(&t, 5, id_a));
    assert_true(is_reply(&t, 5, id_a));
    assert_false(is_reply(&t, 5, id_b)); /* one reply to an attempt */
    journal_close(j);

    CHECK_OK(store_open(&j, folder_path("as"), "aggregator", set_a));
    disk = (as_disk){ .j = j, .coins = &coins };
    CHECK_OK(as_store_masked(&t, 3, &got));
    m = a_mask(5, set_a, 9);
    assert_int_equal(got.attempt, 5);
    assert_memory_equal(got.set, m.set, sizeof m.set);
    assert_memory_equal(got.seed, m.seed, sizeof m.seed);
    assert_memory_equal(got.coins, m.coins, sizeof m.coins);
    assert_memory_equal(got.slice, m.slice, sizeof m.slice);
    as_mask_clear(&got);
    CHECK_OK(as_store_shares(&t, 3, &m, &back));
    assert_int_equal(back.n, sizeof shares);
    assert_memory_equal(back.p, shares, sizeof shares);
    m.slice[0] = 8; /* of another slice */
    CHECK_STATUS(as_store_shares(&t, 3, &m, &back), SEFL_ENOTFOUND);
    assert_int_equal(back.n, 0);
    assert_false(is_reply(&t, 5, id_b));
    assert_true(is_reply(&t, 5, id_a));
    uint8_t known[SHA256_BYTES];
    CHECK_OK(as_store_reply(&t, 3, known));
    assert_memory_equal(known, id_a, sizeof known);
    CHECK_STATUS(as_store_reply(&t, 4, known), SEFL_ENOTFOUND);
    m = a_mask(6, set_a, 8); /* the next attempt */
    CHECK_OK(as_store_mask(&t, 3, &m));
    CHECK_OK(as_store_masked(&t, 3, &got));
    assert_int_equal(got.attempt, 6);
    as_mask_clear(&got);
    assert_false(is_reply(&t, 6, id_b)); /* a round has one reply */
    assert_false(is_reply(&t, 6, id_a));
    CHECK_OK(journal_round_wipe(j, 3));
    CHECK_STATUS(as_store_masked(&t, 3, &got), SEFL_ENOTFOUND);
    m = a_mask(5, set_a, 9);
    CHECK_STATUS(as_store_shares(&t, 3, &m, &back), SEFL_ENOTFOUND);
    journal_close(j);
}

static void as_faults(void **state)
{
    (void)state;
#if SEFL_FAULTS
    static const fault_kind kinds[] = { FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_READ };
    journal *j;
    as_disk disk;
    sefl_coins coins = coins_system();
    uint64_t round = 0;
    CHECK_OK(store_open(&j, folder_path("as-faults"), "aggregator", set_a));
    disk = (as_disk){ .j = j, .coins = &coins };
    as_store t = as_disk_store(&disk);
    for (size_t k = 0; k < 4; k++)
        for (uint64_t nth = 1;; nth++) {
            as_mask m = a_mask(1, set_a, 1), got = { 0 };
            bool same;
            round++;
            fault_arm(kinds[k], nth);
            sefl_status st = as_store_mask(&t, round, &m);
            if (st == SEFL_OK)
                st = as_store_masked(&t, round, &got);
            as_mask_clear(&got);
            if (st == SEFL_OK)
                st = as_store_replied(&t, round, 1, id_a, &same);
            bool hit = fault_was_hit();
            fault_disarm();
            assert_int_equal(hit, st != SEFL_OK);
            if (!hit)
                break;
        }
    journal_close(j);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csp_rounds),        cmocka_unit_test(csp_old_records),
        cmocka_unit_test(csp_forgets_later), cmocka_unit_test(csp_journal_lost),
        cmocka_unit_test(csp_faults),        cmocka_unit_test(csp_keys),
        cmocka_unit_test(csp_sets),          cmocka_unit_test(csp_vouchers),
        cmocka_unit_test(csp_voucher_flood), cmocka_unit_test(csp_charge_head),
        cmocka_unit_test(csp_old_copies),    cmocka_unit_test(csp_opening_interrupted),
        cmocka_unit_test(csp_marked_later),  cmocka_unit_test(csp_damaged_output),
        cmocka_unit_test(csp_earlier_task),  cmocka_unit_test(as_rounds),
        cmocka_unit_test(as_faults),
    };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
