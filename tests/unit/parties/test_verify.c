/* What `sefl verify` says about logs that a server signed: written with the servers' own keys. */
#include "agg_world.h"

#include "base/hex.h"
#include "base/sha256.h"
#include "mpc/noise/noise_audit.h"
#include "roles/audit/audit_log.h"
#include "roles/audit/audit_read.h"
#include "roles/audit/verify.h"

#include <sys/stat.h>

typedef struct scene {
    agg_world w;
    audit_log *log[2]; /* by role */
    char state[2][300], task[300];
    char said[8000];
    unsigned scenes;
    uint64_t file_max; /* of the logs */
} scene;

static scene s;

static void open_log(int role)
{
    CHECK_OK(audit_log_open(&s.log[role],
                            &(audit_log_config){ .folder = s.state[role],
                                                 .file_max = s.file_max,
                                                 .key = role == VERIFY_CSP ? s.w.csp : s.w.as,
                                                 .clock = &s.w.wall,
                                                 .log = &s.w.log }));
    CHECK_OK(audit_started(s.log[role], role == VERIFY_CSP ? "csp" : "aggregator", &s.w.t));
}

static void begin(void)
{
    static const char *const names[] = { [VERIFY_AGGREGATOR] = "as", [VERIFY_CSP] = "csp" };
    s.scenes++;
    for (int role = 0; role < 2; role++) {
        char name[40];
        snprintf(name, sizeof name, "%s-%u", names[role], s.scenes);
        snprintf(s.state[role], sizeof s.state[role], "%s", folder_path(name));
        assert_int_equal(mkdir(s.state[role], 0700), 0);
        open_log(role);
    }
}

static void add_hex(audit_log *a, const char *kind, uint64_t round, const uint8_t *digest,
                    const char *name, sefl_span bytes)
{
    sefl_buf hex = { 0 };
    CHECK_OK(wr_hex(&hex, bytes.p, bytes.n));
    CHECK_OK(wr_u8(&hex, 0));
    if (digest)
        audit_add(a, kind, lf_u64("round", round), lf_key("digest", digest),
                  lf_str(name, (const char *)hex.p));
    else
        audit_add(a, kind, lf_u64("round", round), lf_str(name, (const char *)hex.p));
    buf_clear(&hex);
}

static void opened(uint64_t round)
{
    uint8_t bytes[HEADER_MAX], book[32] = { 9 };
    sefl_buf b = { 0 };
    round_header h = aw_header(&s.w, round);
    memcpy(h.task, s.w.t.id, TASK_ID);
    memcpy(h.model, s.w.t.init_hash, sizeof h.model);
    envelope env = { .kind = SIGN_HEADER,
                     .content = span_of(bytes, round_header_write(bytes, &h)) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, s.w.as));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, s.w.csp));
    CHECK_OK(envelope_write(&b, &env));
    add_hex(s.log[VERIFY_AGGREGATOR], "round_opened", round, NULL, "header", buf_span(&b));
    add_hex(s.log[VERIFY_CSP], "round_opened", round, NULL, "header", env.content);
    for (int role = 0; role < 2; role++)
        audit_add(s.log[role], "charged", lf_u64("round", round), lf_u64("records", round + 1),
                  lf_key("ledger", book));
    buf_clear(&b);
}

/* CSP: with a checkpoint, as after each round. */
static void revealed(uint64_t round, uint64_t attempt, uint8_t output)
{
    uint8_t bytes[STATEMENT_MAX], digest[32] = { output };
    sefl_buf b = { 0 };
    round_statement st = { .round = round, .attempt = attempt, .clients = 3 };
    memcpy(st.task, s.w.t.id, TASK_ID);
    envelope env = { .kind = SIGN_STATEMENT,
                     .content = span_of(bytes, round_statement_write(bytes, &st)) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, s.w.as));
    CHECK_OK(envelope_write(&b, &env));
    add_hex(s.log[VERIFY_CSP], "revealed", round, digest, "statement", buf_span(&b));
    CHECK_OK(audit_log_sign(s.log[VERIFY_CSP]));
    buf_clear(&b);
}

static void replied(uint64_t round, uint64_t attempt, uint8_t output)
{
    uint8_t digest[32] = { output };
    audit_add(s.log[VERIFY_AGGREGATOR], "replied", lf_u64("round", round),
              lf_u64("attempt", attempt), lf_key("digest", digest));
}

static void used(uint64_t round)
{
    audit_add(s.log[VERIFY_AGGREGATOR], "revealed", lf_u64("round", round));
    audit_add(s.log[VERIFY_AGGREGATOR], "blocked", lf_u64("round", round), lf_str("why", "a test"));
    CHECK_OK(audit_log_sign(s.log[VERIFY_AGGREGATOR]));
}

static void restart(int role)
{
    audit_end(s.log[role]);
    open_log(role);
}

static void say(void *ctx, verify_verdict v, const char *what, const char *text)
{
    const size_t n = strlen(s.said);
    (void)ctx;
    if (v == VERIFY_WRONG)
        snprintf(s.said + n, sizeof s.said - n, "%s: %s\n", strrchr(what, '/') + 1, text);
}

/* The number of findings; each must have one of these two texts (NULL: none). */
static void ends_with(size_t wrong, const char *want, const char *also)
{
    verify *v = NULL;
    s.said[0] = 0;
    for (int role = 0; role < 2; role++)
        audit_end(s.log[role]);
    CHECK_OK(verify_new(&v, &(verify_config){ .say = say }));
    CHECK_OK(verify_trust(v, s.task));
    for (int role = 0; role < 2; role++)
        CHECK_OK(verify_server(
            v,
            &(verify_files){ .role = (verify_role)role, .state = s.state[role], .task = s.task }));
    CHECK_OK(verify_finish(v));
    if (verify_wrong(v) != wrong || (want && !strstr(s.said, want)) ||
        (also && !strstr(s.said, also)))
        fail_msg("%zu findings, not %zu (%s):\n%s", verify_wrong(v), wrong, want ? want : "none",
                 s.said);
    verify_free(v);
}

/* One reveal, also if its entry is repeated after a restart or a failure. */
static void one_reveal(void **unused)
{
    (void)unused;
    begin();
    opened(1);
    revealed(1, 1, 7);
    replied(1, 1, 7);
    used(1);
    ends_with(0, NULL, NULL);
    begin();
    opened(1);
    revealed(1, 2, 7);
    restart(VERIFY_CSP);
    revealed(1, 2, 7);
    revealed(1, 2, 7);
    replied(1, 2, 7);
    restart(VERIFY_AGGREGATOR);
    replied(1, 2, 7);
    used(1);
    ends_with(0, NULL, NULL);
}

/* Two outputs of one round: in CSP's log with and without a restart, or in AS's. */
static void two_reveals(void **unused)
{
    (void)unused;
    for (int again = 0; again < 2; again++) {
        begin();
        opened(1);
        revealed(1, 1, 7);
        if (again)
            restart(VERIFY_CSP);
        revealed(1, 2, 8);
        replied(1, 2, 8);
        used(1);
        ends_with(1, "(revealed): it contradicts line 5 about round 1", NULL);
    }
    begin();
    opened(1);
    revealed(1, 1, 7);
    revealed(1, 1, 8); /* the same attempt, fresh noise */
    replied(1, 1, 8);
    used(1);
    ends_with(1, "(revealed): it contradicts line 5", NULL);
    begin();
    opened(1);
    revealed(1, 2, 8);
    replied(1, 1, 7);
    replied(1, 2, 8);
    used(1);
    ends_with(1, "(replied): it contradicts line 5", NULL);
}

/* CSP's log lost a reveal whose output AS used; AS does not say which output it used. */
static void other_reply(void **unused)
{
    (void)unused;
    begin();
    opened(1);
    revealed(1, 2, 8);
    replied(1, 1, 7);
    used(1);
    ends_with(1, "contradicts", "the output of the reveal of round 1");
    begin();
    opened(1);
    revealed(1, 1, 7);
    used(1);
    ends_with(1, "no entry says which reply of CSP to round 1 was used", NULL);
}

/* A round that was revealed is not skipped. */
static void skipped(void **unused)
{
    (void)unused;
    begin();
    opened(1);
    revealed(1, 1, 7);
    replied(1, 1, 7);
    used(1);
    audit_add(s.log[VERIFY_CSP], "skipped", lf_u64("round", 1), lf_bool("charged", true));
    ends_with(1, "(skipped): it contradicts line 5 about round 1", NULL);
}

/* The logs begin new files; findings name the older ones, and their lines. */
static void many_files(void **unused)
{
    sefl_buf names = { 0 };
    struct stat none = { 0 };
    size_t n;
    char path[320];
    (void)unused;
    s.file_max = 1; /* every checkpoint */
    for (int twice = 0; twice < 2; twice++) {
        begin();
        for (uint64_t round = 1; round <= 3; round++) {
            opened(round);
            revealed(round, 1, 7);
            if (twice && round == 2)
                revealed(round, 2, 8);
            replied(round, 1 + (twice && round == 2), 7 + (uint8_t)(twice && round == 2));
            used(round);
            restart(VERIFY_AGGREGATOR);
        }
        ends_with((size_t)twice, twice ? "(revealed): it contradicts line 4 of " : NULL,
                  twice ? ".jsonl: line 2 (revealed)" : NULL);
    }
    snprintf(path, sizeof path, "%s/" AUDIT_LOG_NAME, s.state[VERIFY_CSP]);
    CHECK_OK(audit_older(&names, &n, path, &none));
    assert_true(n >= 5);
    assert_int_equal(unlink((const char *)names.p + strlen((const char *)names.p) + 1), 0);
    for (int role = 0; role < 2; role++)
        open_log(role);
    ends_with(1, "it is not the checkpoint that ends the file before", NULL);
    buf_clear(&names);
    s.file_max = 0;
}

/* AS acknowledged an output, and CSP's log says that CSP skipped the round: an old copy of CSP. */
static void lost_reveal(void **unused)
{
    (void)unused;
    begin();
    opened(1);
    replied(1, 1, 7);
    for (int role = 0; role < 2; role++)
        audit_add(s.log[role], "skipped", lf_u64("round", 1), lf_bool("charged", true));
    ends_with(1, "contradicts", "the output, which CSP skipped, of round 1");
}

/* AS writes the entry of an audit again if it could not store that the audit is over. The one
 * finding is the record itself, which another CSP signed. */
static void one_audit(void **unused)
{
    (void)unused;
    audit_record r = { .csp = { 1 } };
    uint8_t id[AUDIT_ID], bytes[AUDIT_RECORD], hash[SHA256_BYTES];
    char folder[sizeof s.state[0] + 8];
    begin();
    opened(1);
    revealed(1, 1, 7);
    replied(1, 1, 7);
    used(1);
    snprintf(folder, sizeof folder, "%s/audits", s.state[VERIFY_AGGREGATOR]);
    assert_int_equal(mkdir(folder, 0700), 0);
    CHECK_OK(audit_record_save(NULL, &r, folder));
    audit_record_write(bytes, &r);
    sha256_of(hash, span_of(bytes, sizeof bytes));
    audit_id(id, r.hello[0], r.hello[1]);
    for (unsigned i = 0; i < 2; i++)
        audit_add(s.log[VERIFY_AGGREGATOR], "audited", lf_key("session", id),
                  lf_str("outcome", "honest"), lf_key("record", hash));
    ends_with(1, "it names another CSP's key than the task", NULL);
}

/* AS: a round without uploads closes. */
static void closed(uint64_t round)
{
    uint8_t set[SHA256_BYTES];
    CHECK_OK(round_set_hash(set, s.w.t.id, round, NULL, 0));
    audit_add(s.log[VERIFY_AGGREGATOR], "round_closed", lf_u64("round", round),
              lf_u64("clients", 0), lf_key("set", set));
}

/* AS: what follows the close. */
static void finished(uint64_t round)
{
    const uint8_t root[SHA256_BYTES] = { 5 };
    audit_add(s.log[VERIFY_AGGREGATOR], "verdict", lf_u64("round", round), lf_u64("kept", 0),
              lf_u64("refused", 0), lf_key("root", root));
    replied(round, 1, 7);
    used(round);
}

/* AS's log is read within round 2. Then AS ends the round (grows), or not, as if somebody had cut its
 * log; CSP goes on to round 3. is_closed: the log that was read has the close of round 2. missing: it
 * lacks the end of round 1. */
static void read_while(size_t wrong, const char *want, bool is_closed, bool grows, bool missing)
{
    verify *v = NULL;
    audit_log *as;
    s.said[0] = 0;
    begin();
    as = s.log[VERIFY_AGGREGATOR];
    opened(1);
    if (!missing)
        closed(1), finished(1);
    revealed(1, 1, 7);
    opened(2);
    if (is_closed)
        closed(2);
    CHECK_OK(audit_log_sync(as));
    CHECK_OK(verify_new(&v, &(verify_config){ .say = say }));
    CHECK_OK(verify_trust(v, s.task));
    CHECK_OK(verify_server(v, &(verify_files){ .role = VERIFY_AGGREGATOR,
                                               .state = s.state[VERIFY_AGGREGATOR],
                                               .task = s.task }));
    if (grows) {
        if (!is_closed)
            closed(2);
        finished(2);
        CHECK_OK(audit_log_sync(as));
    }
    revealed(2, 1, 7);
    audit_add(s.log[VERIFY_CSP], "charged", lf_u64("round", 3), lf_u64("records", 4),
              lf_key("ledger", (const uint8_t[32]){ 9 }));
    revealed(3, 1, 7);
    audit_end(s.log[VERIFY_CSP]);
    CHECK_OK(verify_server(
        v, &(verify_files){ .role = VERIFY_CSP, .state = s.state[VERIFY_CSP], .task = s.task }));
    CHECK_OK(verify_finish(v));
    if (verify_wrong(v) != wrong || (want && !strstr(s.said, want)))
        fail_msg("%zu findings, not %zu (%s):\n%s", verify_wrong(v), wrong, want ? want : "none",
                 s.said);
    verify_free(v);
    audit_end(as);
}

/* Running servers: the last round of the log that was read may have gone on. Nothing else may. */
static void while_they_run(void **unused)
{
    (void)unused;
    read_while(0, NULL, false, true, false);
    read_while(0, NULL, true, true, false);
    read_while(1, "round 2 is missing", false, false, false);
    read_while(2, "the set of round 2", true, false, false);
    read_while(1, "round 1 is missing", false, true, true);
}

static int set_up(void **state)
{
    if (folder_make(state) != 0)
        return -1;
    aw_make(&s.w, (const char *const[]){ NULL });
    CHECK_OK(aw_try_open(&s.w));
    snprintf(s.task, sizeof s.task, "%s", folder_path("task.signed"));
    CHECK_OK(file_write_new(s.task, buf_span(&s.w.envelope), 0600));
    return 0;
}

static int clean_up(void **state)
{
    aw_free(&s.w);
    return folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_reveal),  cmocka_unit_test(two_reveals),
        cmocka_unit_test(other_reply), cmocka_unit_test(skipped),
        cmocka_unit_test(lost_reveal), cmocka_unit_test(many_files),
        cmocka_unit_test(one_audit),   cmocka_unit_test(while_they_run)
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
