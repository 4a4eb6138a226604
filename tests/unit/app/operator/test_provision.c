/* Every party's own checks accept a provisioned federation; a failed provision leaves nothing. */
#include "protocol/task_make.h"
#include "support/check.h"
#include "support/folder.h"

#include "operator/provision.h"

#include "base/alloc.h"
#include "base/file.h"
#include "crypto/keyfile.h"
#include "model/model_open.h"
#include "net/tls.h"
#include "store/text_ledger.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static provision_config small(const char *folder, settings *s)
{
    settings_init(s, task_schema);
    CHECK_OK(settings_set(s, "model.embed=16", "--set"));
    CHECK_OK(settings_set(s, "model.hidden=16", "--set"));
    return (provision_config){
        .folder = folder_path(folder), .clients = 3, .words = 200, .seed = 3, .task = s
    };
}

static void read_pinned(pinned *p, const char *as, const char *csp)
{
    CHECK_OK(sign_pub_read(p->as, folder_path(as)));
    CHECK_OK(sign_pub_read(p->csp, folder_path(csp)));
}

static unsigned mode_of(const char *name)
{
    struct stat sb;
    assert_int_equal(stat(folder_path(name), &sb), 0);
    return sb.st_mode & 0777;
}

static void every_party_accepts_it(void **state)
{
    (void)state;
    settings s;
    provision_config c = small("fed", &s);
    provision_report r;
    CHECK_OK(provision_make(&r, &c, NULL));
    assert_int_equal(r.clients, 3);
    settings_clear(&s);

    /* the task, against what a client has pinned */
    sefl_buf file = { 0 };
    task t = { 0 };
    pinned p;
    read_pinned(&p, "fed/clients/client-02/aggregator.pub", "fed/clients/client-02/csp.pub");
    CHECK_OK(file_read(&file, folder_path("fed/public/task.signed"), 1 << 20));
    CHECK_OK(task_open(&t, buf_span(&file), &p));
    assert_memory_equal(t.id, r.task, sizeof t.id);
    assert_int_equal(t.values, r.values);
    assert_int_equal(t.enrolled, 3);
    assert_int_equal(t.enough, 3);
    assert_int_equal(t.threshold, 2);
    assert_false(t.claim);

    /* the signing keys are those of the pinned identities */
    sign_key *k = NULL;
    CHECK_OK(sign_key_read(&k, folder_path("fed/aggregator/sign.key")));
    assert_memory_equal(sign_key_pub(k), p.as, sizeof p.as);
    sign_key_free(k);
    CHECK_OK(sign_key_read(&k, folder_path("fed/csp/sign.key")));
    assert_memory_equal(sign_key_pub(k), p.csp, sizeof p.csp);
    sign_key_free(k);

    /* CSP's root opens with its lock; the task names no public key */
    sefl_buf lock = { 0 };
    uint8_t root[KEYFILE_ROOT_BYTES];
    buf_reset(&file);
    CHECK_OK(file_read(&file, folder_path("fed/csp/key.sealed"), KEYFILE_BYTES_MAX));
    CHECK_OK(file_read(&lock, folder_path("fed/csp/key.lock"), 1024));
    CHECK_OK(keyfile_root_read(root, buf_span(&file),
                               &(sealed_lock){ SEALED_BY_KEY_FILE, buf_span(&lock) }));
    assert_true(task_is_sealed(&t));
    assert_null(t.pub);
    assert_false(file_exists(folder_path("fed/public/key.pub")));
    buf_clear(&lock);

    /* words and initial model are those that the task names */
    vocab *v = NULL;
    uint8_t hash[SHA256_BYTES];
    CHECK_OK(vocab_read(&v, folder_path("fed/public/vocab.txt"),
                        &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    vocab_hash(v, hash);
    assert_memory_equal(hash, t.vocab_hash, sizeof hash);
    assert_int_equal(vocab_size(v), t.model.vocab);
    buf_reset(&file);
    CHECK_OK(file_read(&file, folder_path("fed/public/init.safetensors"), 1 << 24));
    sha256_of(hash, buf_span(&file));
    assert_memory_equal(hash, t.init_hash, sizeof hash);
    buf_reset(&file);
    CHECK_OK(file_read(&file, folder_path("fed/public/valid.txt"), 1 << 24));
    sha256_of(hash, buf_span(&file));
    assert_true(t.has_valid);
    assert_memory_equal(hash, t.valid_hash, sizeof hash);
    model_meta meta;
    nn_real *theta = NULL;
    size_t n = 0;
    CHECK_OK(model_read(&meta, &theta, &n, folder_path("fed/public/init.safetensors")));
    assert_int_equal(n, t.params);
    CHECK_OK(model_check_vocab(&meta, v));
    sefl_free(theta);
    vocab_free(v);

    /* ledgers, one a party: the servers' of the task's population, a client's of its text */
    ledger *l = NULL;
    CHECK_OK(ledger_open(&l, folder_path("fed/aggregator/ledger"), t.population, NULL));
    ledger_close(l);
    CHECK_OK(ledger_open(&l, folder_path("fed/csp/ledger"), t.population, NULL));
    ledger_close(l);
    CHECK_OK(text_ledger_open(&l, folder_path("fed/clients/client-03/ledger"),
                              folder_path("fed/clients/client-03/text")));
    ledger_close(l);
    CHECK_STATUS(text_ledger_open(&l, folder_path("fed/clients/client-03/ledger"),
                                  folder_path("fed/clients/client-01/text")),
                 SEFL_ESTATE);

    /* identities */
    tls_id *id = NULL;
    CHECK_OK(tls_id_read(&id, folder_path("fed/aggregator/cert.pem"),
                         folder_path("fed/aggregator/key.pem"),
                         folder_path("fed/aggregator/peers.pem")));
    tls_id_free(id);
    /* CSP's CA vouches for CSP and for no client of AS: two files, and the clients' file does not
     * contain CSP's */
    sefl_buf peers = { 0 }, csp_peers = { 0 }, ca = { 0 };
    CHECK_OK(file_read(&peers, folder_path("fed/aggregator/peers.pem"), 1 << 16));
    CHECK_OK(file_read(&csp_peers, folder_path("fed/aggregator/csp_peers.pem"), 1 << 16));
    CHECK_OK(file_read(&ca, folder_path("fed/ca/csp/ca.pem"), 1 << 16));
    assert_true(csp_peers.n == ca.n && memcmp(csp_peers.p, ca.p, ca.n) == 0);
    buf_reset(&ca);
    CHECK_OK(file_read(&ca, folder_path("fed/ca/aggregator/ca.pem"), 1 << 16));
    assert_true(peers.n == ca.n && memcmp(peers.p, ca.p, ca.n) == 0);
    buf_clear(&peers), buf_clear(&csp_peers), buf_clear(&ca);

    /* others cannot read secret files */
    assert_int_equal(mode_of("fed"), 0700);
    assert_int_equal(mode_of("fed/clients/client-01"), 0700);
    static const char *const secret[] = {
        "fed/csp/key.lock",       "fed/csp/key.sealed",
        "fed/csp/sign.key",       "fed/csp/key.pem",
        "fed/ca/csp/ca.key",      "fed/ca/aggregator/ca.key",
        "fed/aggregator/key.pem", "fed/clients/client-01/key.pem"
    };
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        assert_int_equal(mode_of(secret[i]), 0600);
    task_clear(&t);
    buf_clear(&file);

    /* once only */
    provision_config again = small("fed", &s);
    CHECK_STATUS(provision_make(&r, &again, NULL), SEFL_EEXIST);
    settings_clear(&s);
}

/* An empty folder is fine, and the same seed gives the same text and model, never the same keys. */
static void public_things_follow_the_seed(void **state)
{
    (void)state;
    settings s;
    provision_report r;
    provision_config c = small("fed2/", &s);
    assert_int_equal(mkdir(folder_path("fed2"), 0700), 0);
    CHECK_OK(provision_make(&r, &c, NULL));
    settings_clear(&s);
    static const char *const files[] = {
        "public/init.safetensors",          "public/vocab.txt", "public/valid.txt",
        "clients/client-02/text/train.txt", "csp/key.lock",     "csp/key.sealed"
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sefl_buf a = { 0 }, b = { 0 };
        char path[200];
        snprintf(path, sizeof path, "fed/%s", files[i]);
        CHECK_OK(file_read(&a, folder_path(path), 1 << 24));
        snprintf(path, sizeof path, "fed2/%s", files[i]);
        CHECK_OK(file_read(&b, folder_path(path), 1 << 24));
        bool same = a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
        assert_int_equal(same, i < 4);
        buf_clear(&a);
        buf_clear(&b);
    }
}

/* Scheme paillier: a key pair, whose public half is in the task. */
static void a_paillier_pair(void **state)
{
    (void)state;
    settings s;
    provision_report r;
    sefl_buf file = { 0 }, lock = { 0 };
    paillier_sec *sec = NULL;
    task t = { 0 };
    pinned p;
    provision_config c = small("pair", &s);
    c.key_bits = 2048;
    CHECK_STATUS(provision_make(&r, &c, NULL), SEFL_EINVAL); /* pad has no such key */
    assert_non_null(strstr(sefl_last_error(), "paillier"));
    CHECK_OK(settings_set(&s, "crypto.scheme=paillier", "--set"));
    CHECK_OK(provision_make(&r, &c, NULL));
    settings_clear(&s);
    read_pinned(&p, "pair/public/aggregator.pub", "pair/public/csp.pub");
    CHECK_OK(file_read(&file, folder_path("pair/public/task.signed"), 1 << 20));
    CHECK_OK(task_open(&t, buf_span(&file), &p));
    buf_reset(&file);
    CHECK_OK(file_read(&file, folder_path("pair/csp/key.sealed"), KEYFILE_BYTES_MAX));
    CHECK_OK(file_read(&lock, folder_path("pair/csp/key.lock"), 1024));
    CHECK_OK(keyfile_sec_read(&sec, buf_span(&file),
                              &(sealed_lock){ SEALED_BY_KEY_FILE, buf_span(&lock) }, NULL));
    assert_false(task_is_sealed(&t));
    assert_true(paillier_pub_equal(paillier_sec_pub(sec), t.pub));
    assert_true(file_exists(folder_path("pair/public/key.pub")));
    paillier_sec_free(sec);
    task_clear(&t);
    buf_clear(&file), buf_clear(&lock);
}

static bool stop_at(void *self, uint64_t done, uint64_t total)
{
    (void)total;
    return done < *(uint64_t *)self;
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    settings s;
    provision_report r;
    size_t before = folder_count();
    provision_config c = small("fed3", &s);
    for (uint64_t step = 0; step < 9; step += 3) { /* stopped between steps */
        sefl_progress p = { .report = stop_at, .self = &step };
        CHECK_STATUS(provision_make(&r, &c, &p), SEFL_ECANCELLED);
        assert_int_equal(folder_count(), before);
    }
    CHECK_OK(settings_set(&s, "rounds.threshold=9", "--set")); /* more than there are */
    assert_true(provision_make(&r, &c, NULL) != SEFL_OK);
    assert_int_equal(folder_count(), before);
    settings_clear(&s);
    c = small("fed3", &s);
    c.clients = 1;
    CHECK_STATUS(provision_make(&r, &c, NULL), SEFL_EINVAL);
    c.clients = 2;
    c.data = folder_path("not there");
    CHECK_STATUS(provision_make(&r, &c, NULL), SEFL_ENOTFOUND);
    assert_int_equal(folder_count(), before);
#if SEFL_FAULTS
    c.data = NULL;
    for (uint64_t n = 1; n < 60; n += 12) { /* disk full at some point */
        fault_arm(FAULT_WRITE, n);
        sefl_status st = provision_make(&r, &c, NULL);
        assert_true(fault_was_hit());
        fault_disarm();
        assert_true(st != SEFL_OK);
        assert_int_equal(folder_count(), before);
    }
#endif
    settings_clear(&s);
}

/* The user's own text: all of it is distributed, the validation text and its words are public. */
static void text_that_is_given(void **state)
{
    (void)state;
    settings s;
    provision_report r;
    sefl_buf text = { 0 };
    for (unsigned i = 0; i < 300; i++)
        CHECK_OK(wr_fmt(&text, "client word%u has a private word%u here\n", i % 40, i));
    assert_int_equal(mkdir(folder_path("own"), 0700), 0);
    folder_put("own/train.txt", text.p, text.n);
    provision_config c = small("fed4", &s);
    c.data = folder_path("own");
    CHECK_STATUS(provision_make(&r, &c, NULL), SEFL_EINVAL); /* no public words */
    assert_non_null(strstr(sefl_last_error(), "no validation text"));
    folder_put("own/valid.txt", "client word1 has a public word2 here\n", 37);
    c = (settings_clear(&s), small("fed4", &s));
    c.data = folder_path("own");
    CHECK_OK(provision_make(&r, &c, NULL));
    sefl_buf all = { 0 }, words = { 0 };
    for (unsigned i = 1; i <= 3; i++) {
        char path[100];
        snprintf(path, sizeof path, "fed4/clients/client-%02u/text/train.txt", i);
        CHECK_OK(file_read(&all, folder_path(path), 1 << 20));
    }
    assert_int_equal(all.n, text.n);
    CHECK_OK(file_read(&words, folder_path("fed4/public/vocab.txt"), 1 << 20));
    CHECK_OK(wr_u8(&words, 0));
    assert_non_null(strstr((char *)words.p, "public\n"));
    assert_null(strstr((char *)words.p, "private\n"));
    assert_null(strstr((char *)words.p, "word39\n"));
    buf_clear(&all);
    buf_clear(&words);
    buf_clear(&text);
    settings_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_party_accepts_it), cmocka_unit_test(public_things_follow_the_seed),
        cmocka_unit_test(a_paillier_pair),        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(text_that_is_given),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
