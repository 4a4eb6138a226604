/* A client and its server in this process, over real mutual TLS. */
#ifndef CLIENT_SCENE_H
#define CLIENT_SCENE_H

#include "unit/parties/fake_as.h"

#include "roles/client/client_inside.h"
#include "unit/parties/update_fixture.h"

#include <fcntl.h>

static vocab *words;
static uint8_t me[32];

static inline void put_text(const char *name, const char *text)
{
    folder_put(name, text, strlen(text));
}

static inline int setup(void **state)
{
    int rc = folder_make(state);
    sample_begin();
    CHECK_OK(x509_make(folder_path("ca.pem"), folder_path("ca.key"),
                       &(x509_subject){ .name = "CA", .days = 60 }, NULL, NULL));
    CHECK_OK(x509_make(
        folder_path("as.pem"), folder_path("as.key"),
        &(x509_subject){
            .name = "as", .role = "aggregator", .hosts = "127.0.0.1,localhost", .days = 50 },
        folder_path("ca.pem"), folder_path("ca.key")));
    CHECK_OK(x509_make(folder_path("me.pem"), folder_path("me.key"),
                       &(x509_subject){ .name = "client-01", .role = "client", .days = 50 },
                       folder_path("ca.pem"), folder_path("ca.key")));
    CHECK_OK(sign_pub_write(sample_servers.as, folder_path("as.pub")));
    CHECK_OK(sign_pub_write(sample_servers.csp, folder_path("csp.pub")));
    put_text("text.txt", fixture_text);
    put_text("policy.yml", "{}\n");
    CHECK_OK(vocab_read_over(&words, span_of_str(fixture_words), "words",
                             &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    tls_id *id = NULL;
    CHECK_OK(tls_id_read(&id, folder_path("me.pem"), folder_path("me.key"), folder_path("ca.pem")));
    memcpy(me, tls_id_fingerprint(id), 32);
    tls_id_free(id);
    return rc;
}

static inline int teardown(void **state)
{
    vocab_free(words);
    sample_end();
    return folder_remove(state);
}

/* ---- one federation of two ------------------------------------------------------------------- */

typedef struct federation {
    fake_as as;
    settings set;
    client_config cfg;
    client *c;
    sefl_log log;
    char log_path[512];
    test_coins coins;
    sefl_coins from;
    unsigned made;    /* updates, as the observer saw them */
    unsigned nonzero; /* of them */
    int64_t largest;
    void (*show)(void *ctx, const client_view *v); /* for open_client */
    void *show_ctx;
    uint64_t patience_ms;                            /* for open_client */
    void (*model)(void *ctx, const client_model *m); /* for open_client, with show_ctx */
} federation;

static unsigned scenes;

static inline void watch(void *ctx, uint64_t round, const int64_t *X, size_t n)
{
    federation *s = ctx;
    bool any = false;
    (void)round;
    for (size_t i = 0; i < n; i++) {
        any = any || X[i] != 0;
        s->largest = X[i] > s->largest ? X[i] : s->largest;
    }
    s->made++;
    s->nonzero += any;
}

static inline void configure(federation *s)
{
    CHECK_OK(settings_resolve(&s->set, folder_path("")));
    CHECK_OK(client_config_make(&s->cfg, &s->set));
}

static inline void open_client(federation *s)
{
    configure(s);
    s->from = test_coins_of(&s->coins);
    s->coins.n = 0, s->coins.repeated = false;
    CHECK_OK(client_new(&s->c, &(client_options){ .config = &s->cfg,
                                                  .log = &s->log,
                                                  .coins = &s->from,
                                                  .show = s->show,
                                                  .model = s->model,
                                                  .show_ctx = s->show_ctx,
                                                  .patience_ms = s->patience_ms,
                                                  .observe = watch,
                                                  .observe_ctx = s }));
}

static inline void set(federation *s, const char *assignment)
{
    CHECK_OK(settings_set(&s->set, assignment, "test"));
}

/* Settings of the task in a, b, c. The client is not opened yet. */
static inline federation *begin(unsigned signers, const char *a, const char *b, const char *c)
{
    federation *s = NULL;
    char line[600];
    CHECK_OK(sefl_new(&s, 1, sizeof *s));
    scenes++;
    s->as.rounds = 3, s->as.round = 1, s->as.left_ms = 60000;
    fake_task(&s->as, signers, words, a, b, c);
    fake_model(&s->as, words);
    CHECK_OK(wr_raw(&s->as.vocab, fixture_words, strlen(fixture_words)));
    snprintf(line, sizeof line, "ledger-%u", scenes);
    snprintf(s->as.ledger, sizeof s->as.ledger, "%s", folder_path(line));
    (void)unlink(folder_path("text.txt.sefl-ledger")); /* each federation has its own text */
    CHECK_OK(text_ledger_create(s->as.ledger, folder_path("text.txt")));
    fake_start(&s->as);
    settings_init(&s->set, client_schema);
    snprintf(line, sizeof line, "server=127.0.0.1:%u", https_server_port(s->as.server));
    set(s, line);
    set(s, "proxy=none");
    set(s, "tls.cert=me.pem"), set(s, "tls.key=me.key"), set(s, "tls.peers=ca.pem");
    set(s, "aggregator_key=as.pub"), set(s, "csp_key=csp.pub");
    set(s, "policy=policy.yml"), set(s, "text=text.txt"), set(s, "threads=1");
    snprintf(line, sizeof line, "state=state-%u", scenes);
    set(s, line);
    snprintf(line, sizeof line, "ledger=ledger-%u", scenes);
    set(s, line);
    snprintf(line, sizeof line, "log-%u", scenes);
    snprintf(s->log_path, sizeof s->log_path, "%s", folder_path(line));
    int fd = open(s->log_path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    s->log = (sefl_log){ .level = LOG_DEBUG, .fd = fd, .json = true };
    return s;
}

static inline void end(federation *s)
{
    client_free(s->c);
    fake_stop(&s->as);
    settings_clear(&s->set);
    close(s->log.fd);
    sefl_free(s);
}

static inline char *log_of(federation *s)
{
    static sefl_buf b;
    buf_clear(&b);
    CHECK_OK(file_read(&b, s->log_path, 1 << 20));
    CHECK_OK(wr_u8(&b, 0));
    return (char *)b.p;
}

static inline uint64_t charged(const federation *s)
{
    ledger *l = NULL;
    uint64_t n = 0;
    CHECK_OK(ledger_open_read(&l, s->as.ledger));
    if (!ledger_task(l, 0, &n))
        n = 0;
    ledger_close(l);
    return n;
}

static inline client_store *store_of(const federation *s)
{
    client_store *st = NULL;
    CHECK_OK(client_store_open(&st, s->cfg.state, s->as.t.id, head_bytes(s->as.t.seal)));
    return st;
}

static inline void receipts_are_kept(const federation *s, uint64_t rounds)
{
    client_store *st = store_of(s);
    sefl_buf b = { 0 };
    for (uint64_t r = 1; r <= rounds; r++) {
        client_body body = { .bytes = s->as.body[r].n };
        fake_name(&s->as, body.hash, &s->as.body[r]);
        buf_reset(&b);
        CHECK_OK(client_store_receipt_read(st, &b, r));
        CHECK_OK(client_receipt_check(&s->as.t, buf_span(&b), r, me, &body));
        assert_int_equal(body.bytes, task_body_bytes(&s->as.t));
    }
    assert_int_equal(client_store_mark(st)->phase, CLIENT_DONE);
    assert_false(s->as.bad_head);
    buf_clear(&b);
    client_store_close(st);
}

#endif
