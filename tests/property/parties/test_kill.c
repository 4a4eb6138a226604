/* kill -9 of both servers at any moment of whole rounds, on their real journals and ledgers. A
 * child runs AS, with the driver of the rounds (sum/as_rounds.h), and CSP as two threads over a
 * pair in memory, until the task is over; every coin is the system's. The parent kills it at a
 * seeded moment, and the next child continues. At any moment:
 *  - what CSP once marked as revealed never changes: one distinct output per round, sent again
 *    unchanged;
 *  - an output implies a charge in both ledgers; at the end both have one charge per round and
 *    agree;
 *  - without noise the result is the plain sum; a result that is released twice is the same;
 *  - a result implies that the round's sealing key is gone, a signed round that it is there; the
 *    verdict on a set is the same in every life;
 *  - correlated noise: what both servers keep of a released round adds up to its noise, is the same
 *    in every life until it is destroyed, and the next round takes back all of it or nothing;
 *  - nothing stands in the way of the next start. */
#include "support/folder.h"
#include "unit/core/sum/link_rounds.h"

#include "base/file.h"
#include "store/disk/as_disk.h"
#include "store/disk/csp_disk.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, PROGRESS_FD = 77 };
static char root[256];

static const char *at(const char *fmt, unsigned long long n)
{
    static char path[4][400];
    static unsigned next;
    char *out = path[next++ % 4], name[100];
    snprintf(name, sizeof name, fmt, n);
    snprintf(out, sizeof path[0], "%s/%s", root, name);
    return out;
}

/* ---- one server's journal and ledger --------------------------------------------------------- */

typedef struct books {
    journal *j;
    account *a;
} books;

static sefl_status books_open(books *b, const char *role, const task *t)
{
    sefl_status st = SEFL_OK;
    char path[300];
    snprintf(path, sizeof path, "%s/%s.ledger", root, role);
    *b = (books){ 0 };
    SEFL_TRY(journal_open(&b->j, at(role, 0), role, t->id));
    SEFL_TRY(account_disk_open(&b->a, b->j, path, t));
done:
    return st;
}

static void books_close(books *b)
{
    account_close(b->a);
    journal_close(b->j);
}

/* ---- the child ----------------------------------------------------------------------------- */

typedef struct federation {
    world *w;
    ahe_sum *sums[ROUNDS + 1];
    int64_t total[ROUNDS + 1][W_VALUES];
    struct {
        ahe_seed seed;
        uint8_t units[32];
    } update[ROUNDS + 1][W_CLIENTS];
} federation;

static void must(sefl_status st, const char *what)
{
    if (st != SEFL_OK) {
        fprintf(stderr, "child: %s: %s: %s\n", what, sefl_status_name(st), sefl_last_error());
        _exit(6);
    }
}
#define MUST(call) must((call), #call)

static void progress(void)
{
    uint8_t byte = 0;
    if (write(PROGRESS_FD, &byte, 1) != 1)
        _exit(7);
}

typedef struct life {
    world_run x; /* first */
    federation *f;
} life;

/* The round's clients have its seeds and units from now on. */
static void load_updates(federation *f, uint64_t round)
{
    for (int i = 0; i < W_CLIENTS; i++) {
        f->w->client[i].seed = f->update[round][i].seed;
        memcpy(f->w->client[i].units, f->update[round][i].units, 32);
    }
}

static void open_round(void *me, const round_header *h)
{
    life *l = me;
    load_updates(l->f, h->round);
    world_run_open(me, h);
    l->x.run.up.closed = l->f->sums[h->round];
}

/* Correlated noise: where a child kills itself. */
typedef enum place { NOWHERE, AS_BEFORE, AS_AFTER, CSP_BEFORE, CSP_AFTER, PLACES } place;
static place die_at;
static uint64_t die_in; /* round */

static void here(place p, uint64_t round)
{
    if (p == die_at && round == die_in)
        raise(SIGKILL);
}

/* AS keeps noise of released rounds alone, and only after the release. */
static sefl_status before_record(void *me, as_record what, uint64_t round, uint64_t attempt,
                                 sefl_span bytes)
{
    (void)me, (void)attempt, (void)bytes;
    progress();
    if (what == AS_HISTORY && !file_exists(at("released-%llu", round)))
        must(SEFL_ESTATE, "what AS keeps is stored before the release");
    if (what == AS_HISTORY)
        here(AS_BEFORE, round);
    return SEFL_OK;
}

/* CSP keeps noise only after the mark. */
static csp_store csp_under;
static sefl_status csp_put(void *ctx, csp_record what, uint64_t round, sefl_span bytes)
{
    csp_round now;
    if (what != CSP_HISTORY)
        return csp_under.put(ctx, what, round, bytes);
    MUST(csp_store_get(&csp_under, round, &now));
    if (now.state != CSP_REVEALED)
        must(SEFL_ESTATE, "what CSP keeps is stored before the mark");
    here(CSP_BEFORE, round);
    SEFL_PASS(csp_under.put(ctx, what, round, bytes));
    here(CSP_AFTER, round);
    return SEFL_OK;
}

static void after_step(void *me)
{
    life *l = me;
    sefl_buf b = { 0 };
    progress();
    if (die_at == AS_AFTER &&
        l->x.run.under.get(l->x.run.under.ctx, AS_HISTORY, die_in, &b) == SEFL_OK)
        here(AS_AFTER, die_in);
    buf_clear(&b);
}

/* A kill between the file and the machine's step: the driver releases the same result again. */
static sefl_status release(void *me, uint64_t round, const int64_t *w)
{
    sefl_span result = span_of(w, ((const life *)me)->f->w->t.values * sizeof *w);
    sefl_buf before = { 0 };
    if (!file_exists(at("released-%llu", round)))
        return file_write_new(at("released-%llu", round), result, 0600);
    MUST(file_read(&before, at("released-%llu", round), result.n));
    if (before.n != result.n || memcmp(before.p, result.p, result.n) != 0)
        must(SEFL_ESTATE, "another result");
    buf_clear(&before);
    return SEFL_OK;
}

static void child(federation *f)
{
    world *w = f->w;
    books as, cs;
    csp_disk jc;
    life l;
    as_run *run = &l.x.run;
    w->named[0] = w->named[1] = coins_system();
    MUST(shares_twins_init(&w->twins, &w->named[0], &w->named[1]));
    w->shares[0] = w->twins.as, w->shares[1] = w->twins.csp;
    MUST(books_open(&as, "aggregator", &w->t));
    MUST(books_open(&cs, "csp", &w->t));
    as_disk disk = { .j = as.j, .coins = &w->named[0] };
    MUST(csp_disk_open(&jc, cs.j, cs.a, &w->named[1]));
    csp_store tc = csp_under = csp_disk_store(&jc);
    tc.put = csp_put;
    for (int i = 0; i < W_CLIENTS && task_is_sealed(&w->t); i++)
        MUST(tc.voucher_put(tc.ctx, w->client[i].id, 1, sign_key_pub(w->client[i].key)));
    progress();
    w->disk = &tc;
    world_run_init(&l.x, w);
    l.f = f;
    run->under = as_disk_store(&disk);
    run->c.account = as.a;
    run->c.changed = after_step;
    run->open = open_round, run->put = before_record, run->release = release;
    MUST(as_run_all(run));
    MUST(l.x.c.st); /* CSP's */
    progress();
    _exit(0); /* like another kill: nothing is closed */
}

/* ---- what the parent sees ------------------------------------------------------------------ */

/* Hash of (id, output) of a revealed round; zeros if it is not revealed or its output is erased. */
typedef struct seen {
    bool opened[ROUNDS + 1], forgotten[ROUNDS + 1], decided[ROUNDS + 1];
    uint8_t output[ROUNDS + 1][32];
    uint8_t root[ROUNDS + 1][32];                 /* of the verdict */
    bool has_noise[ROUNDS + 1], lost[ROUNDS + 1]; /* lost: one server never stored it */
    bool took_back[ROUNDS + 1];
    int64_t noise[ROUNDS + 1][W_VALUES]; /* of a released round, in units of 2^-F */
} seen;

/* A released value less its aggregate and its fresh noise, in units of 2^-F. */
static int64_t taken_back(const federation *f, const seen *s, uint64_t r, const uint8_t *w,
                          size_t i)
{
    const pack *p = &f->w->t.ahe.pack;
    const unsigned F = 52 - p->k;
    const uint64_t released = 2 * load_u64(w + 8 * i) + 1;
    const uint64_t back =
        (released << (F - 1)) - ((uint64_t)f->total[r][i] << (F - p->t)) - (uint64_t)s->noise[r][i];
    return (int64_t)(back << 12) >> 12;
}

/* Correlated noise, if both servers still have what they kept of the round. */
static void look_at_noise(federation *f, const as_store *ta, const csp_store *tc, uint64_t r,
                          seen *s)
{
    const task *t = &f->w->t;
    sefl_buf a = { 0 }, c = { 0 }, w = { 0 };
    if (file_exists(at("released-%llu", r)) && ta->get(ta->ctx, AS_HISTORY, r, &a) == SEFL_OK &&
        tc->get(tc->ctx, CSP_HISTORY, r, &c) == SEFL_OK) {
        assert_true(a.n == c.n && a.n == NOISE_ID + t->values * 8);
        assert_memory_equal(a.p, c.p, NOISE_ID); /* of one reveal */
        for (size_t i = 0; i < t->values; i++) {
            int64_t n =
                (int64_t)(load_u64(a.p + NOISE_ID + 8 * i) + load_u64(c.p + NOISE_ID + 8 * i));
            int64_t most = (int64_t)2048 << (52 - t->ahe.pack.k);
            assert_true(n > -most && n < most);
            assert_true(!s->has_noise[r] || s->noise[r][i] == n);
            s->noise[r][i] = n;
        }
        s->has_noise[r] = true;
    }
    if (s->has_noise[r] && (r == 1 || s->has_noise[r - 1] || s->lost[r - 1])) {
        int64_t most = 0;
        CHECK_OK(file_read(&w, at("released-%llu", r), 8 * W_VALUES));
        for (size_t i = 0; i < t->values; i++)
            most |= taken_back(f, s, r, w.p, i);
        assert_true(most == 0 || !s->lost[r - 1]);
        s->took_back[r] = most != 0;
        for (size_t i = 0; i < t->values && most != 0; i++) {
            int64_t off = taken_back(f, s, r, w.p, i) +
                          (int64_t)((__int128)t->filter.gamma[0] * s->noise[r - 1][i] / 4096);
            assert_true(r > 1 && off >= -2 && off <= 2);
        }
    }
    buf_clear(&a), buf_clear(&c), buf_clear(&w);
}

/* AS has CSP's verdict: it keeps the whole set, and is the same in every life. */
static void look_at_verdict(federation *f, const as_store *t, uint64_t round, seen *s)
{
    const world *w = f->w;
    sefl_coins none = { 0 };
    round_entry leaves[W_CLIENTS];
    uint8_t seed[COUNTED_SEED], want[32];
    as_verdict v;
    sefl_status st = as_store_verdict_get(t, round, &v);
    if (st == SEFL_ENOTFOUND) {
        assert_false(s->decided[round]);
        return;
    }
    CHECK_OK(st);
    load_updates(f, round);
    w_heads x = { .w = w };
    (void)world_set(&x, leaves);
    CHECK_OK(as_store_tree(t, round, &none, seed)); /* drawn before the verdict */
    CHECK_OK(counted_root(want, &(counted_facts){ .task = w->t.id,
                                                  .round = round,
                                                  .tree_seed = seed,
                                                  .clients_max = w->t.clients_max,
                                                  .leaves = leaves,
                                                  .n = W_CLIENTS }));
    assert_int_equal(v.kept, W_CLIENTS);
    assert_memory_equal(v.root, want, 32);
    if (s->decided[round])
        assert_memory_equal(v.root, s->root[round], 32);
    memcpy(s->root[round], v.root, 32);
    s->decided[round] = true;
    as_verdict_clear(&v);
}

static void look(federation *f, seen *s)
{
    const world *w = f->w;
    books as, cs;
    csp_disk jc;
    sefl_coins coins = coins_system();
    CHECK_OK(books_open(&as, "aggregator", &w->t));
    CHECK_OK(books_open(&cs, "csp", &w->t));
    for (uint64_t round = 1; round <= ROUNDS; round++) /* before anything tidies up */
        assert_false(file_exists(at("released-%llu", round)) &&
                     file_exists(at("csp/task-1/round-%llu.kem", round)));
    CHECK_OK(csp_disk_open(&jc, cs.j, cs.a, &coins));
    csp_store t = csp_disk_store(&jc);
    as_disk disk = { .j = as.j, .coins = &coins };
    as_store ta = as_disk_store(&disk);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        csp_round r;
        bool charged[2];
        sefl_buf b = { 0 };
        uint8_t id[NOISE_ID], digest[32], hash[32];
        CHECK_OK(csp_store_get(&t, round, &r));
        CHECK_OK(account_has(as.a, round, &charged[0]));
        CHECK_OK(account_has(cs.a, round, &charged[1]));
        assert_true(charged[0] || !charged[1]); /* AS charges first */
        if (task_is_sealed(&w->t) && r.state != CSP_NEW) {
            uint8_t key[CSP_KEY_BYTES];
            assert_int_equal(csp_store_key_get(&t, round, key),
                             r.state == CSP_SIGNED ? SEFL_OK : SEFL_ENOTFOUND);
        }
        if (task_is_sealed(&w->t))
            look_at_verdict(f, &ta, round, s);
        if (w->t.filter.b > 0)
            look_at_noise(f, &ta, &t, round, s);
        if (r.state != CSP_REVEALED) {
            assert_true(!s->opened[round] && !file_exists(at("released-%llu", round)));
            continue;
        }
        assert_true(charged[0] && charged[1]);
        sefl_status st = csp_store_kept(&t, round, id, &b, digest);
        if (st == SEFL_ENOTFOUND) {
            assert_true(file_exists(at("released-%llu", round)));
            s->forgotten[round] = true;
        } else {
            CHECK_OK(st);
            assert_false(s->forgotten[round]);
            CHECK_OK(wr_raw(&b, id, sizeof id));
            sha256_of(hash, buf_span(&b));
            if (s->opened[round])
                assert_memory_equal(hash, s->output[round], 32); /* forever the same */
            memcpy(s->output[round], hash, 32);
        }
        s->opened[round] = true;
        buf_clear(&b);
    }
    books_close(&as);
    books_close(&cs);
}

/* Kills the child after `steps` steps and so many microseconds; true if it finished first. */
static bool run_child(federation *f, uint64_t steps, uint64_t us)
{
    int fd[2], status;
    uint8_t byte;
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(fd[0]);
        if (dup2(fd[1], PROGRESS_FD) != PROGRESS_FD)
            _exit(3);
        close(fd[1]);
        child(f);
    }
    close(fd[1]);
    while (steps > 0 && read(fd[0], &byte, 1) == 1)
        steps--;
    if (steps == 0)
        usleep((useconds_t)us);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(fd[0]);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static void check_end(federation *f)
{
    world *w = f->w;
    books as, cs;
    ledger_head m;
    ledger_total total;
    CHECK_OK(books_open(&as, "aggregator", &w->t));
    CHECK_OK(books_open(&cs, "csp", &w->t));
    CHECK_OK(account_port(as.a).head(as.a, &m));
    assert_int_equal(account_port(cs.a).compare(cs.a, &m), LEDGER_SAME);
    CHECK_OK(account_spent(cs.a, 0, &total));
    assert_int_equal(total.rounds, ROUNDS);
    for (uint64_t r = 1; r <= ROUNDS; r++) {
        sefl_buf b = { 0 };
        CHECK_OK(file_read(&b, at("released-%llu", r), sizeof f->total[0]));
        if (w->t.noise == TASK_NOISE_NONE)
            assert_memory_equal(b.p, f->total[r], w->t.values * sizeof(int64_t));
        buf_clear(&b);
        assert_false(file_exists(at("aggregator/task-1/round-%llu", r))); /* all secrets are gone */
        assert_false(file_exists(at("csp/task-1/round-%llu", r)));
        assert_false(file_exists(at("aggregator/task-1/round-%llu.past", r)));
        assert_false(file_exists(at("csp/task-1/round-%llu.past", r)));
    }
    books_close(&as);
    books_close(&cs);
}

static void federation_begin(federation *f, const char *scheme, task_noise noise, unsigned gamma)
{
    *f = (federation){ .w = world_new(scheme, noise, 120) };
    if (gamma > 0)
        world_filter(f->w, (dp_filter){ .b = 1, .gamma = { (uint16_t)gamma } });
    snprintf(f->w->t.population, sizeof f->w->t.population, "people");
    f->w->t.rounds = ROUNDS;
    for (uint64_t r = 1; r <= ROUNDS; r++) {
        world_sum(f->w, r);
        f->sums[r] = f->w->sum, f->w->sum = NULL;
        memcpy(f->total[r], f->w->total, sizeof f->total[r]);
        for (int i = 0; i < W_CLIENTS; i++) {
            f->update[r][i].seed = f->w->client[i].seed;
            memcpy(f->update[r][i].units, f->w->client[i].units, 32);
        }
    }
}

static void federation_end(federation *f)
{
    for (uint64_t r = 1; r <= ROUNDS; r++)
        ahe_sum_free(&f->w->t.ahe, f->sums[r]);
    world_free(f->w);
}

static void new_folder(const char *name, unsigned long i)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s-%lu", name, i);
    snprintf(root, sizeof root, "%s", folder_path(folder));
    CHECK_OK(file_make_folder(root, 0700));
    CHECK_OK(ledger_create(at("aggregator.ledger", 0), "people"));
    CHECK_OK(ledger_create(at("csp.ledger", 0), "people"));
}

static void run_federation(const char *name, const char *scheme, task_noise noise, unsigned gamma,
                           const sefl_rng *rng, unsigned long trials)
{
    federation f;
    unsigned kills = 0;
    federation_begin(&f, scheme, noise, gamma);
    for (unsigned long i = 0; i < trials; i++) {
        seen s = { 0 };
        bool done = false;
        new_folder(name, i);
        while (!done) {
            uint64_t steps, us;
            CHECK_OK(rng_below(rng, &steps, 18));
            CHECK_OK(rng_below(rng, &us, noise == TASK_NOISE_JOINT ? 15000 : 1500));
            done = run_child(&f, steps + (i & 1), us);
            kills += !done;
            look(&f, &s);
        }
        check_end(&f);
    }
    print_message("%s: %lu tasks of %d rounds, %u kills\n", name, trials, ROUNDS, kills);
    assert_true(kills > 0 || trials < 10); /* on a busy machine a child may finish first */
    federation_end(&f);
}

/* Both servers die before or after one of them stores what it keeps of round 1, again in round 2
 * after both have stored it, and then run to the end. Round 2 takes the noise of round 1 back only if
 * both stored it. */
static void killed_at_history(void **state)
{
    (void)state;
    federation f;
    federation_begin(&f, "pad", TASK_NOISE_JOINT, 3000);
    for (place p = AS_BEFORE; p < PLACES; p++) {
        seen s = { 0 };
        new_folder("history", p);
        die_at = p, die_in = 1;
        assert_false(run_child(&f, UINT64_MAX, 0));
        s.lost[1] = p == AS_BEFORE || p == CSP_BEFORE;
        look(&f, &s);
        assert_true(s.has_noise[1] == (p == AS_AFTER));
        die_at = AS_AFTER, die_in = 2;
        assert_false(run_child(&f, UINT64_MAX, 0));
        look(&f, &s);
        assert_true(s.has_noise[2]);
        if (p != CSP_AFTER) /* then AS may have died between its integers and the release */
            assert_true(s.took_back[2] == (p == AS_AFTER));
        die_at = NOWHERE;
        assert_true(run_child(&f, UINT64_MAX, 0));
        look(&f, &s);
        check_end(&f);
    }
    federation_end(&f);
}

static void killed(void **state)
{
    (void)state;
    seeded g;
    test_seed(&g, "kills of both servers");
    sefl_rng rng = seeded_rng(&g);
    run_federation("paillier", "paillier", TASK_NOISE_NONE, 0, &rng, test_count(2, 30));
    run_federation("none", "pad", TASK_NOISE_NONE, 0, &rng, test_count(6, 100));
    run_federation("own", "pad", TASK_NOISE_OWN, 0, &rng, test_count(4, 100));
    run_federation("joint", "pad", TASK_NOISE_JOINT, 0, &rng, test_count(1, 30));
    run_federation("filter", "pad", TASK_NOISE_JOINT, 3000, &rng, test_count(3, 60));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(killed_at_history),
                                        cmocka_unit_test(killed) };
    return cmocka_run_group_tests(tests, folder_make_quick, folder_remove);
}
