/* What a member gets: the final model, models of rounds, and its own evaluation of them. */
#include "unit/parties/client_scene.h"

#include "base/hex.h"

#include <math.h>

typedef struct seen {
    federation *s;
    unsigned models, finals, judged;
    client_model last;
    char path[PATH_MAX], words[PATH_MAX];
} seen;

static void note(void *ctx, const client_model *m)
{
    seen *n = ctx;
    n->models++;
    n->finals += m->final;
    n->judged += !isnan(m->perplexity);
    n->last = *m;
    snprintf(n->path, sizeof n->path, "%s", m->path ? m->path : "");
    snprintf(n->words, sizeof n->words, "%s", m->words ? m->words : "");
}

static federation *begin_seen(seen *n, const char *a)
{
    *n = (seen){ .s = begin(3, "privacy.epsilon=20", a, NULL) };
    n->s->model = note;
    n->s->show_ctx = n;
    return n->s;
}

static void has_hash(const char *path, const uint8_t hash[32])
{
    uint8_t there[32];
    CHECK_OK(file_sha256(there, NULL, path));
    assert_memory_equal(there, hash, 32);
}

/* The path of a model that the client keeps; the buffer is overwritten by the next call. */
static const char *kept(const federation *s, uint64_t round)
{
    static char out[PATH_MAX];
    const uint8_t *id = s->as.t.id;
    char hex[HEX_CHARS(8)];
    snprintf(out, sizeof out, "%s/models/sample-%s/round-%d.safetensors", s->cfg.state,
             hex_write(hex, id, 8), (int)round);
    return out;
}

/* The path of a model that is kept beside another one of its round. */
static const char *beside(const federation *s, uint64_t round, const uint8_t hash[32])
{
    static char out[PATH_MAX];
    char hex[HEX_CHARS(8)];
    const char *path = kept(s, round);
    snprintf(out, sizeof out, "%.*s-%s.safetensors", (int)(strlen(path) - strlen(".safetensors")),
             path, hex_write(hex, hash, 8));
    return out;
}

static void the_final_model(void **state)
{
    (void)state;
    seen n;
    federation *s = begin_seen(&n, NULL);
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 3);
    assert_int_equal(s->as.finals, 1);
    assert_int_equal(n.models, 1);
    assert_true(n.last.final && n.last.round == 3 && isnan(n.last.perplexity));
    assert_string_equal(n.path, kept(s, 3));
    has_hash(n.path, s->as.model_hash[1]);
    has_hash(n.words, s->as.t.vocab_hash);
    assert_non_null(strstr(log_of(s), "\"event\":\"final model\",\"round\":3,\"file\":\""));
    assert_null(strstr(log_of(s), "perplexity"));
    assert_false(file_exists(kept(s, 2)));
    client_free(s->c);
    /* a client that starts again after the end has it already; one that lost it fetches it */
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.finals, 1);
    assert_int_equal(n.finals, 2);
    client_free(s->c);
    CHECK_OK(file_write_atomic(n.path, span_of_str("damaged"), 0644));
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.finals, 2);
    assert_string_equal(n.path, beside(s, 3, s->as.model_hash[1])); /* nothing is replaced */
    has_hash(n.path, s->as.model_hash[1]);
    end(s);
    /* a client that joins after the last round */
    s = begin_seen(&n, NULL);
    s->as.round = 4;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 0);
    has_hash(kept(s, 3), s->as.model_hash[1]);
    end(s);
}

/* AS states a second final model, which CSP does not sign: the first one stays. */
static void nothing_is_replaced(void **state)
{
    (void)state;
    seen n;
    federation *s = begin_seen(&n, NULL);
    for (int i = 0; i < 3; i++) {
        s->as.other_final = i == 1;
        open_client(s);
        CHECK_OK(client_run(s->c));
        client_free(s->c);
        fake_quiet(&s->as);
        assert_string_equal(n.path, i == 1 ? beside(s, 3, s->as.model_hash[0]) : kept(s, 3));
        has_hash(n.path, s->as.model_hash[i != 1]);
        assert_int_equal(strstr(log_of(s), "another model of this round") != NULL, i > 0);
    }
    has_hash(kept(s, 3), s->as.model_hash[1]);
    has_hash(beside(s, 3, s->as.model_hash[0]), s->as.model_hash[0]);
    s->as.other_final = true; /* not even the second one */
    CHECK_OK(file_write_atomic(beside(s, 3, s->as.model_hash[0]), span_of_str("x"), 0644));
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EEXIST);
    end(s);
    /* both servers signed what round 2 released: the header of round 3 */
    s = begin_seen(&n, NULL);
    s->as.end_round = 2;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.finals + n.models, 0);
    assert_non_null(strstr(log_of(s), "another model as the final one"));
    end(s);
}

static void stop_after_two(void *ctx, const client_view *v)
{
    seen *n = ctx;
    pthread_mutex_lock(&n->s->as.lock);
    bool enough = n->s->as.finals >= 2 && strstr(v->doing, "waiting for the server");
    pthread_mutex_unlock(&n->s->as.lock);
    if (enough)
        client_stop(n->s->c);
}

static void a_wrong_hash_is_not_kept(void **state)
{
    (void)state;
    seen n;
    federation *s = begin_seen(&n, NULL);
    s->as.bad_final = 1000;
    s->show = stop_after_two;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(n.models, 0);
    assert_false(file_exists(kept(s, 3)));
    assert_non_null(strstr(log_of(s), "not the bytes that the servers signed"));
    client_free(s->c);
    fake_quiet(&s->as);
    s->as.bad_final = 1; /* once more, then the right one */
    s->show = NULL;
    open_client(s);
    CHECK_OK(client_run(s->c));
    has_hash(kept(s, 3), s->as.model_hash[1]);
    end(s);
}

/* A download that was cut, by the network or a kill, continues. */
static void a_cut_download_continues(void **state)
{
    (void)state;
    seen n;
    char path[PATH_MAX];
    sefl_buf model = { 0 };
    federation *s = begin_seen(&n, NULL);
    open_client(s);
    CHECK_OK(client_run(s->c));
    client_free(s->c);
    fake_quiet(&s->as);
    (void)unlink(kept(s, 3));
    CHECK_OK(file_read(&model, s->as.model[1], 1 << 20));
    client_store *st = store_of(s);
    const char *final = client_store_path(st, CLIENT_FINAL);
    CHECK_OK(file_path(path, "%s.part", final));
    CHECK_OK(file_write_atomic(path, span_of(model.p, model.n / 2), 0644));
    CHECK_OK(file_path(path, "%s.part.etag", final));
    CHECK_OK(file_write_atomic(path, span_of_str("m"), 0644));
    CHECK_OK(file_path(path, "%s/final-0123456789abcdef.part", s->cfg.state)); /* another task's */
    CHECK_OK(file_write_atomic(path, span_of_str("old"), 0644));
    client_store_close(st);
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.ranged, 1);
    has_hash(kept(s, 3), s->as.model_hash[1]);
    assert_false(file_exists(path));
    buf_clear(&model);
    end(s);
}

/* Only a signed end ends a client: whatever else says that the task is over counts as no answer. */
static void only_a_signed_end_ends_it(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        seen n;
        federation *s = begin_seen(&n, NULL);
        s->as.bad_end = i == 0;
        s->as.bare_end = i == 1;
        open_client(s);
        CHECK_OK(client_run(s->c));
        assert_int_equal(s->as.receipts, 3);
        has_hash(kept(s, 3), s->as.model_hash[1]);
        assert_non_null(strstr(log_of(s), i ? "cannot parse the round news"
                                            : "the end of the task lacks the aggregator's"));
        end(s);
    }
}

static void no_round_was_released(void **state)
{
    (void)state;
    seen n;
    federation *s = begin_seen(&n, NULL);
    s->as.no_end = true;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.finals + n.models, 0);
    assert_non_null(strstr(log_of(s), "no final model: no round was released"));
    end(s);
}

/* A client whose rounds are used up waits for the end, and takes no part any more. */
static void a_spent_client_waits(void **state)
{
    (void)state;
    seen n;
    federation *s = begin_seen(&n, "rounds.max_per_client=1");
    s->as.ends_alone = true;
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.receipts, 1);
    assert_int_equal(s->as.models, 1);
    assert_int_equal(charged(s), 1);
    has_hash(kept(s, 3), s->as.model_hash[1]);
    assert_string_equal(client_over(s->c), "all rounds are done");
    end(s);
}

static void each_or_none(void **state)
{
    (void)state;
    seen n;
    federation *s = begin_seen(&n, NULL);
    s->as.moves = true;
    set(s, "models_keep=each");
    open_client(s);
    CHECK_OK(client_run(s->c));
    has_hash(kept(s, 1), s->as.model_hash[1]); /* round 2 starts from it */
    has_hash(kept(s, 2), s->as.model_hash[0]);
    has_hash(kept(s, 3), s->as.model_hash[1]);
    assert_int_equal(n.models, 3);
    end(s);
    s = begin_seen(&n, NULL);
    set(s, "models_keep=none");
    open_client(s);
    CHECK_OK(client_run(s->c));
    assert_int_equal(s->as.finals + n.models, 0);
    end(s);
    /* where nothing can be written, rounds go on, but the end fails */
    s = begin_seen(&n, NULL);
    set(s, "models_keep=each");
    set(s, "models=policy.yml");
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EEXIST);
    assert_int_equal(s->as.receipts, 3);
    assert_non_null(strstr(log_of(s), "the model was not kept"));
    end(s);
}

/* ---- the owner's own text -------------------------------------------------------------------- */

enum { LINES = 200 };

/* Different lines, of 6 words each. */
static void many_lines(sefl_buf *out, int from, int to)
{
    static const char *const some[] = { "the", "a", "cat", "dog", "mat", "sat", "ran", "on" };
    for (int i = from; i < to; i++)
        CHECK_OK(wr_fmt(out, "%s %s %s %s %s and\n", some[i & 7], some[i >> 3 & 7],
                        some[i >> 6 & 7], some[(i * 5) & 7], some[(i * 3 + 1) & 7]));
}

static void read_lines(corpus *out, const sefl_buf *text)
{
    CHECK_OK(corpus_read_over(out, words, &(corpus_file){ .path = "lines" }, buf_span(text)));
}

static bool contains(const corpus *c, const uint32_t *line, size_t n)
{
    for (size_t i = 0; i < c->lines; i++)
        if (c->line[i + 1] - c->line[i] == n &&
            memcmp(c->token + c->line[i], line, n * sizeof *line) == 0)
            return true;
    return false;
}

static void a_part_is_held_out(void **state)
{
    (void)state;
    sefl_buf text = { 0 };
    corpus all = { 0 }, train = { 0 }, held = { 0 }, more = { 0 }, held2 = { 0 };
    many_lines(&text, 0, LINES);
    read_lines(&all, &text), read_lines(&train, &text);
    CHECK_OK(client_hold_out(&train, &held, 0.1));
    assert_int_equal(train.tokens + held.tokens, all.tokens);
    assert_int_equal(train.lines + held.lines, LINES);
    assert_int_equal(train.docs + held.docs, LINES);
    assert_true(held.lines > LINES / 20 && held.lines < LINES / 5);
    assert_int_equal(train.line[train.lines], train.tokens);
    assert_int_equal(train.doc[train.docs], train.lines);
    for (size_t i = 0; i < all.lines; i++) {
        const uint32_t *line = all.token + all.line[i];
        const size_t n = all.line[i + 1] - all.line[i];
        assert_true(contains(&train, line, n) != contains(&held, line, n)); /* on one side */
    }
    /* with more text, and with copies, each line stays on its side */
    many_lines(&text, 0, LINES + 100);
    read_lines(&more, &text);
    CHECK_OK(client_hold_out(&more, &held2, 0.1));
    for (size_t i = 0; i < held.lines; i++)
        assert_true(contains(&held2, held.token + held.line[i], held.line[i + 1] - held.line[i]));
    for (size_t i = 0; i < held2.lines; i++)
        assert_false(
            contains(&more, held2.token + held2.line[i], held2.line[i + 1] - held2.line[i]));
    corpus_clear(&held2);
    corpus_clear(&held);
    /* one document: its lines; a text that is too short: a sentence */
    all.docs = 1, all.doc[1] = all.lines;
    CHECK_OK(client_hold_out(&all, &held, 0.3));
    assert_true(all.docs == 1 && held.docs == 1 && held.lines > LINES / 5);
    corpus_clear(&held);
    CHECK_STATUS(client_hold_out(&all, &held, 1e-9), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "eval_share"));
    TEST_FAULTS(FAULT_ALLOC, corpus_clear(&held); st = client_hold_out(&more, &held, 0.5), (void)0);
    corpus_clear(&all), corpus_clear(&train), corpus_clear(&held), corpus_clear(&more);
    buf_clear(&text);
}

static void own_evaluation(void **state)
{
    (void)state;
    seen n;
    char path[PATH_MAX];
    sefl_buf text = { 0 }, result = { 0 };
    struct stat sb;
    many_lines(&text, 0, LINES);
    for (int i = 0; i < 2; i++) {
        federation *s = begin_seen(&n, NULL);
        folder_put("own.txt", text.p, text.n);
        s->as.moves = true;
        set(s, "eval=own");
        set(s, "models_keep=none");
        put_text("text.txt", i ? fixture_text : (CHECK_OK(wr_u8(&text, 0)), (char *)text.p));
        text.n -= i == 0;
        if (i == 1)
            set(s, "eval_text=own.txt");
        open_client(s);
        CHECK_OK(client_run(s->c));
        assert_int_equal(n.judged, 4); /* three rounds and the end */
        assert_true(n.last.final && n.last.perplexity > 1 && n.last.perplexity < 100);
        assert_int_equal(*n.path, 0);
        assert_true(i ? n.last.own_words == LINES * 7 : n.last.own_words < LINES * 7 / 5);
        CHECK_OK(file_path(path, "%s/eval.jsonl", s->cfg.state));
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(sb.st_mode & 0777, 0600);
        buf_reset(&result);
        CHECK_OK(file_read(&result, path, 1 << 16));
        CHECK_OK(wr_u8(&result, 0));
        unsigned lines = 0;
        for (const char *p = (char *)result.p; (p = strchr(p, '\n')); p++)
            lines++;
        assert_int_equal(lines, 4); /* the final model differs from that of round 3 */
        assert_non_null(strstr((char *)result.p, "\"round\":3,\"final\":true,\"perplexity\":"));
        assert_non_null(strstr(log_of(s), "\"perplexity\":"));
        end(s);
    }
    put_text("text.txt", fixture_text);
    /* settings that do not fit together */
    federation *s = begin_seen(&n, NULL);
    set(s, "eval=own"), set(s, "trainer=cat");
    CHECK_OK(settings_resolve(&s->set, folder_path("")));
    CHECK_STATUS(client_config_make(&s->cfg, &s->set), SEFL_EINVAL);
    set(s, "trainer="), set(s, "eval_share=0");
    CHECK_STATUS(client_config_make(&s->cfg, &s->set), SEFL_EINVAL);
    set(s, "eval_share=0.01"); /* of six lines */
    open_client(s);
    CHECK_STATUS(client_run(s->c), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "too short to hold out"));
    end(s);
    buf_clear(&text);
    buf_clear(&result);
}

static void unknown_words(void **state)
{
    (void)state;
    static const char strange[] = "el gato sat on the mat\nthe dog ran to the cat and a cat\n";
    for (int i = 0; i < 2; i++) {
        seen n;
        federation *s = begin_seen(&n, NULL);
        s->as.rounds = 1;
        put_text("text.txt", i ? strange : fixture_text);
        open_client(s);
        CHECK_OK(client_run(s->c));
        const char *warned = strstr(log_of(s), "not in the task's vocabulary");
        assert_int_equal(warned != NULL, i); /* 2 of 15 words, or 1 of 35 */
        if (i)
            assert_non_null(strstr(warned, "\"unknown\":\"13 %\""));
        assert_null(strstr(log_of(s), "gato"));
        end(s);
    }
    put_text("text.txt", fixture_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_final_model),
        cmocka_unit_test(nothing_is_replaced),
        cmocka_unit_test(a_wrong_hash_is_not_kept),
        cmocka_unit_test(a_cut_download_continues),
        cmocka_unit_test(only_a_signed_end_ends_it),
        cmocka_unit_test(no_round_was_released),
        cmocka_unit_test(a_spent_client_waits),
        cmocka_unit_test(each_or_none),
        cmocka_unit_test(a_part_is_held_out),
        cmocka_unit_test(own_evaluation),
        cmocka_unit_test(unknown_words),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
