/* The task document: what it derives, what it refuses, and that only its exact bytes count. */
#define _GNU_SOURCE /* memmem */
#include "crypto/ahe/ahe.h"
#include "protocol/modes/mode.h"
#include "protocol/task_budget.h"
#include "unit/core/protocol/task_tests.h"

#include "crypto/seal/seal.h"
#include "mpc/noise/online.h"
#include "protocol/task_fields.h"
#include "protocol/task_make.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

static void test_reads_what_it_made(void **state)
{
    (void)state;
    sefl_buf doc = { 0 };
    task t;
    uint8_t id[32], ctx[32], want[32], raw[14 + 32 + 8];
    CHECK_OK(sample_document(&doc, "training.lr=0.5", "server.lr=0.25", "server.step=adam", NULL));
    CHECK_OK(task_read(&t, buf_span(&doc)));
    sha256_of(id, buf_span(&doc));
    assert_memory_equal(id, t.id, 32);
    assert_string_equal(t.name, "sample");
    assert_string_equal(t.population, "testers");
    assert_string_equal(t.model.body, "lstm");
    assert_int_equal(t.model.vocab, 50);
    assert_int_equal(t.init_hash[31], 0xff);
    assert_true(t.lr == 0.5 && t.server_lr == 0.25 && t.step_nano == 250000000);
    assert_int_equal(t.server_optim.kind, OPTIM_ADAM);
    assert_true(t.server_optim.beta2 == 0.99 && t.server_optim.epsilon == 1e-3);
    assert_int_equal(t.noise, TASK_NOISE_JOINT);
    assert_true(t.claim && t.epsilon == 8 && t.delta == 1e-6);
    assert_int_equal(t.clients_max, 8);
    assert_int_equal(t.values, t.params);
    assert_ptr_equal(t.ahe.scheme, &ahe_pad);
    assert_int_equal(t.ahe.values, t.params);
    assert_true(t.grid.q == t.ahe.pack.q && t.grid.h == t.ahe.pack.h);
    assert_int_equal(t.grid.value_max, t.ahe.pack.value_max);
    assert_true(t.publish_count && !t.amplified);
    assert_true(task_divisor(&t, 5) == 5);
    assert_memory_equal(&t.servers, &sample_servers, sizeof t.servers);
    assert_true(t.pub == NULL && task_is_sealed(&t));

    layout l;
    lm_config cfg = { .vocab = 50, .embed = 8, .hidden = 8, .layers = 1, .block = 4 };
    CHECK_OK(lm_config_layout(&cfg, &l));
    assert_int_equal(l.count, t.params);
    assert_int_equal(t.layout.n, l.n);
    layout_clear(&l);

    memcpy(raw, "sefl context 1", 14);
    memcpy(raw + 14, id, 32);
    store_u64(raw + 46, 3);
    sha256_of(want, span_of(raw, sizeof raw));
    task_context(ctx, &t, 3);
    assert_memory_equal(ctx, want, 32);
    noise_params p = task_noise_params(&t, 3, 2);
    assert_memory_equal(p.task, id, 32);
    assert_true(p.round == 3 && p.attempt == 2 && p.count == t.values);
    assert_true(p.k == t.ahe.pack.k && p.t == t.ahe.pack.t && p.g == t.ahe.pack.g);
    task_clear(&t);
    assert_null(t.pub);
    buf_clear(&doc);
}

/* A byte that does not matter to a JSON reader makes another task. */
static void test_exact_bytes_count(void **state)
{
    (void)state;
    sefl_buf doc = { 0 };
    task a, b;
    CHECK_OK(sample_document(&doc, NULL));
    CHECK_OK(task_read(&a, buf_span(&doc)));
    CHECK_OK(wr_u8(&doc, '\n'));
    CHECK_OK(task_read(&b, buf_span(&doc)));
    assert_memory_not_equal(a.id, b.id, 32);
    task_clear(&a);
    task_clear(&b);
    buf_clear(&doc);
}

/* ---- the form -------------------------------------------------------------------------------- */

/* Replaces the first `from` by `to`; "" appends nothing. */
static void replace(sefl_buf *out, const sefl_buf *doc, const char *from, const char *to)
{
    char *text = NULL, *at;
    out->n = 0;
    text = calloc(1, doc->n + 1);
    assert_non_null(text);
    memcpy(text, doc->p, doc->n);
    at = strstr(text, from);
    if (!at)
        fail_msg("the document has no %s", from);
    CHECK_OK(wr_raw(out, text, (size_t)(at - text)));
    CHECK_OK(wr_raw(out, to, strlen(to)));
    CHECK_OK(wr_raw(out, at + strlen(from), strlen(at) - strlen(from)));
    free(text);
}

static void test_strict_form(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *says;
        sefl_status st;
    } c[] = {
        { "\"block\": 4", "\"block\": 4.0", "model.block", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": 4e0", "floating-point", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": \"4\"", "model.block", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": -4", "model.block", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": 0", "model.block is 0", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": 18446744073709551616", "too big", SEFL_EPROTO },
        { "\"block\": 4", "\"blok\": 4", "did you mean model.block", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": 4, \"loss\": 1", "model.loss", SEFL_EPROTO },
        { "\"block\": 4,", "", "model.block is missing", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": 4, \"block\": 4", "duplicate", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": null", "model.block", SEFL_EPROTO },
        { "\"block\": 4", "\"block\": {}", "model.block", SEFL_EPROTO },
        { "\"tied\": false", "\"tied\": 0", "model.tied", SEFL_EPROTO },
        { "\"tied\": false", "\"tied\": \"false\"", "model.tied", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": 1", "privacy.clip", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": 1.5", "floating-point", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": \"1e0\"", "privacy.clip", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": \"-1\"", "privacy.clip", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": \"1,5\"", "privacy.clip", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": \"0.0000000001\"", "privacy.clip", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": \"\"", "privacy.clip", SEFL_EPROTO },
        { "\"clip\": \"1\"", "\"clip\": \"0\"", "privacy.clip", SEFL_EINVAL },
        { "\"clip\": \"1\"", "\"clip\": \"000000000000000000000001\"", "privacy.clip",
          SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \"0x10\"", "training.lr", SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \"inf\"", "training.lr", SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \"nan\"", "training.lr", SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \"1e999\"", "training.lr", SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \" 1\"", "training.lr", SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \"1e\"", "training.lr", SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \"1.\"", "training.lr", SEFL_EPROTO },
        { "\"lr\": \"20\"", "\"lr\": \"0\"", "training.lr", SEFL_EINVAL },
        { "\"noise\": \"joint\"", "\"noise\": \"Joint\"", "privacy.noise", SEFL_EPROTO },
        { "\"noise\": \"joint\"", "\"noise\": \"\"", "privacy.noise", SEFL_EPROTO },
        { "\"noise\": \"joint\"", "\"noise\": \"joint own\"", "privacy.noise", SEFL_EPROTO },
        { "\"name\": \"sample\"", "\"name\": \"\"", "name", SEFL_EPROTO },
        { "\"name\": \"sample\"", "\"name\": \"a\\u0000b\"", "NUL", SEFL_EPROTO },
        { "\"name\": \"sample\"", "\"name\": \"a\\nb\"", "name", SEFL_EPROTO },
        { "\"name\": \"sample\"", "\"name\": \"\xc3\xa4\"", "name", SEFL_EPROTO },
        { "\"name\": \"sample\"", "\"name\": \"\xff\"", "not UTF-8", SEFL_EPROTO },
        { "\"name\": \"sample\"", "\"model.block\": 4", "unknown member", SEFL_EPROTO },
        { "\"model\": {", "\"modell\": {", "unknown member modell", SEFL_EPROTO },
        { "\"sefl_task\": 5", "\"sefl_task\": 4", "of version 4, but this program reads version 5",
          SEFL_EUNSUPPORTED },
        { "\"sefl_task\": 5", "\"sefl_task\": 6", "version 6", SEFL_EUNSUPPORTED },
        { "\"sampling\": \"all\"", "\"sampling\": \"hidden\"", "privacy.sampling", SEFL_EPROTO },
        { "\"model\": {", "\"model\": {}, \"model\": {", "duplicate member model", SEFL_EPROTO },
        { "\"sefl_task\": 5", "\"sefl_task\": \"5\"", "sefl_task", SEFL_EPROTO },
        { "\"filter\": []", "\"filter\": 7", "list of at most 4", SEFL_EPROTO },
        { "\"filter\": []", "\"filter\": [1,1,1,1,1]", "list of at most 4", SEFL_EPROTO },
        { "\"filter\": []", "\"filter\": [4097]", "whole numbers from 0 to 4096", SEFL_EPROTO },
        { "\"filter\": []", "\"filter\": [-1]", "whole numbers from 0 to 4096", SEFL_EPROTO },
        { "\"filter\": []", "\"filter\": [\"7\"]", "whole numbers", SEFL_EPROTO },
        { "\"filter\": []", "\"filter\": [7, 0]", "ends with 0", SEFL_EINVAL },
        { "\"separation\": 1", "\"separation\": 0", "separation", SEFL_EPROTO },
        { "0000000001\"", "000000000g\"", "vocab.sha256", SEFL_EPROTO },
        { "00000000ff\"", "00000000FF\"", "init.sha256", SEFL_EPROTO },
        { "00000000ff\"", "0000000ff\"", "init.sha256", SEFL_EPROTO },
        { "\"key\": \"", "\"key\": \"A", "crypto.key", SEFL_EPROTO },
        { "\"key\": \"", "\"key\": \"AAAA", "crypto.key", SEFL_EPROTO },
        { "\"only\": []", "\"only\": \"\"", "training.only must be a list", SEFL_EPROTO },
        { "\"only\": []", "\"only\": [3]", "training.only", SEFL_EPROTO },
        { "\"only\": []", "\"only\": [\"\"]", "training.only", SEFL_EPROTO },
        { "\"only\": []", "\"only\": [\"a,b\"]", "training.only", SEFL_EPROTO },
        { "\"only\": []", "\"only\": [\"a b\"]", "training.only", SEFL_EPROTO },
        { "\"only\": []", "\"only\": [\"encoder\"]", "\"encoder\" fits no tensor", SEFL_EINVAL },
        { "\"body\": \"lstm\"", "\"body\": \"external\"", "model.tensors is missing", SEFL_EPROTO },
        { "\"body\": \"lstm\"", "\"body\": \"lstm\", \"tensors\": []", "model.tensors",
          SEFL_EPROTO },
        { "\"body\": \"lstm\"",
          "\"body\": \"lstm\", \"tensors\": [{\"name\": \"a\", \"shape\": [2], \"block\": 1}]",
          "model.tensors does not apply", SEFL_EPROTO },
        { "\"seal\": \"xwing\"", "\"seal\": \"none\"", "crypto.seal is none", SEFL_EINVAL },
        { "\"seal\": \"xwing\"", "\"seal\": \"X25519\"", "crypto.seal", SEFL_EPROTO },
        { "\"scheme\": \"pad\"", "\"scheme\": \"paillier\"", "crypto", SEFL_EINVAL },
        { "{\n", "[\n", "", SEFL_EPROTO },
        { "}\n}\n", "}\n}x", "unexpected data", SEFL_EPROTO },
        { "}\n}\n", "}\n", "", SEFL_EPROTO },
    };
    sefl_buf doc = { 0 }, bad = { 0 };
    task t;
    CHECK_OK(sample_document(&doc, NULL));
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        replace(&bad, &doc, c[i].from, c[i].to);
        sefl_status st = task_read(&t, buf_span(&bad));
        if (st != c[i].st || !strstr(sefl_last_error(), c[i].says))
            fail_msg("%s -> %s: %s: %s", c[i].from, c[i].to, sefl_status_name(st),
                     sefl_last_error());
        assert_null(t.pub);
    }
    /* a quotation in a message cannot contain control characters */
    CHECK_STATUS(task_read(&t, span_of_str("{ \x1b[31m")), SEFL_EPROTO);
    assert_null(strchr(sefl_last_error(), 0x1b));
    CHECK_STATUS(task_read(&t, span_of_str("")), SEFL_EPROTO);
    CHECK_STATUS(task_read(&t, span_of_str("17")), SEFL_EPROTO);
    assert_non_null(strstr(sefl_last_error(), "not a task ('sefl task new'"));
    CHECK_STATUS(task_read(&t, span_of_str("[]")), SEFL_EPROTO);
    CHECK_STATUS(task_read(&t, span_of_str("{}")), SEFL_EPROTO);
    /* no number with a fraction anywhere, whatever the member */
    for (size_t i = 0; i < task_field_count; i++) {
        const char *point = strchr(task_fields[i].path, '.');
        char text[128];
        if (point)
            snprintf(text, sizeof text, "{\"%.*s\": {\"%s\": 0.5}}",
                     (int)(point - task_fields[i].path), task_fields[i].path, point + 1);
        else
            snprintf(text, sizeof text, "{\"%s\": 0.5}", task_fields[i].path);
        CHECK_STATUS(task_read(&t, span_of_str(text)), SEFL_EPROTO);
        assert_non_null(strstr(sefl_last_error(), "floating-point"));
        assert_non_null(strstr(sefl_last_error(), task_fields[i].path));
    }
    buf_clear(&doc);
    buf_clear(&bad);
}

/* Truncated anywhere, or larger than allowed. */
static void test_truncation(void **state)
{
    (void)state;
    sefl_buf doc = { 0 };
    task t;
    CHECK_OK(sample_document(&doc, NULL));
    for (size_t n = 0; n + 1 < doc.n; n++) /* the last byte is a line feed */
        CHECK_STATUS(task_read(&t, span_of(doc.p, n)), SEFL_EPROTO);
    while (doc.n <= TASK_BYTES_MAX)
        CHECK_OK(wr_u8(&doc, ' '));
    CHECK_STATUS(task_read(&t, buf_span(&doc)), SEFL_EPROTO);
    doc.n--;
    CHECK_OK(task_read(&t, buf_span(&doc)));
    task_clear(&t);
    buf_clear(&doc);
}

static void test_locale_changes_nothing(void **state)
{
    (void)state;
    task t;
    static const char *const commas[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR",
                                          "nl_NL.UTF-8" };
    bool found = false;
    for (size_t i = 0; i < sizeof commas / sizeof commas[0] && !found; i++)
        found = setlocale(LC_NUMERIC, commas[i]) != NULL && strtod("0,5", NULL) == 0.5;
    if (!found)
        skip(); /* no locale with a decimal comma is installed */
    CHECK_OK(sample_task(&t, "training.lr=0.125", "privacy.delta=0.0000025", NULL));
    assert_true(t.lr == 0.125 && t.delta == 2.5e-6);
    setlocale(LC_NUMERIC, "C");
    task_clear(&t);
}

/* ---- the rules ------------------------------------------------------------------------------- */

/* training.lr: 0 becomes the usual learning rate of the optimiser and the body. */
static void test_usual_learning_rate(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        double lr;
    } k[] = {
        { NULL, NULL, 20 },
        { "training.lr=0.00e1", NULL, 20 },
        { "training.optimiser=momentum", NULL, 20 },
        { "training.optimiser=adam", "training.lr=0", 0.001 },
        { "model.body=transformer", NULL, 5 },
        { "model.body=transformer", "training.optimiser=adam", 0.001 },
        { "training.lr=0.00e1", "training.lr=0.5", 0.5 },
        { "training.lr=1e-3", NULL, 1e-3 },
    };
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        task t;
        CHECK_OK(sample_task(&t, k[i].a, k[i].b, NULL));
        assert_true(t.lr == k[i].lr);
        task_clear(&t);
    }
}

/* Up to four assignments that make an invalid task, and the word that the refusal must contain. */
static void test_rules(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *c, *d;
        sefl_status st;
        const char *says;
    } r[] = {
        { "rounds.threshold=1", 0, 0, 0, SEFL_EINVAL, "rounds.threshold is 1" },
        { "rounds.threshold=9", 0, 0, 0, SEFL_EINVAL, "above rounds.clients_max" },
        { "rounds.threshold=9", "rounds.clients_max=20", 0, 0, SEFL_EINVAL, "rounds.enrolled" },
        { "rounds.enough=2", 0, 0, 0, SEFL_EINVAL, "rounds.enough" },
        { "rounds.patience=2",
          "valid.sha256=0000000000000000000000000000000000000000000000000000000000000000", 0, 0,
          SEFL_EINVAL, "valid.sha256 names no validation text" },
        { "rounds.enough=9", 0, 0, 0, SEFL_EINVAL, "rounds.enough" },
        { "privacy.rate=0.5", 0, 0, 0, SEFL_EINVAL, "privacy.rate" },
        { "privacy.sampling=open", 0, 0, 0, SEFL_EINVAL, "privacy.rate" },
        { "privacy.sampling=open", "privacy.rate=0", 0, 0, SEFL_EINVAL, "privacy.rate" },
        { "privacy.sampling=open", "privacy.rate=0.25", 0, 0, SEFL_EINVAL, "would be skipped" },
        { "privacy.sampling=open", "privacy.rate=0.5", "rounds.clients_max=7", 0, SEFL_EINVAL,
          "rounds.clients_max" },
        { "rounds.separation=2", "privacy.sampling=open", "privacy.rate=0.5", 0, SEFL_EINVAL,
          "rounds.separation" },
        { "rounds.separation=101", "rounds.count=100", 0, 0, SEFL_EINVAL, "never take part" },
        { "rounds.separation=3", "rounds.threshold=3", 0, 0, SEFL_EINVAL,
          "rounds.enrolled / rounds.separation is 2" },
        { "privacy.filter=4097", 0, 0, 0, SEFL_EINVAL, "privacy.filter is" },
        { "privacy.filter=100,", 0, 0, 0, SEFL_EINVAL, "privacy.filter is" },
        { "privacy.filter=-1", 0, 0, 0, SEFL_EINVAL, "privacy.filter is" },
        { "privacy.filter=100 200", 0, 0, 0, SEFL_EINVAL, "privacy.filter is" },
        { "privacy.filter=4000,97", 0, 0, 0, SEFL_EINVAL, "adds up to 4097" },
        { "privacy.filter=2048,1025", 0, 0, 0, SEFL_EINVAL, "rises 2 rounds later" },
        { "privacy.filter=3000", "privacy.sampling=open", "privacy.rate=0.5", 0, SEFL_EINVAL,
          "privacy.sampling must be all" },
        { "privacy.clip_quantile=1", 0, 0, 0, SEFL_EINVAL, "privacy.clip_quantile is 1" },
        { "privacy.clip_quantile=0.5", "privacy.noise=none", "privacy.claim=none", 0, SEFL_EINVAL,
          "privacy.clip_quantile" },
        { "privacy.clip_quantile=0.5", "privacy.weights=capped", "privacy.weight_cap=5", 0,
          SEFL_EINVAL, "privacy.clip_quantile" },
        { "privacy.clip_quantile=0.5", "privacy.unit=record", "privacy.records_max=10", 0,
          SEFL_EINVAL, "privacy.clip_quantile" },
        { "privacy.clip_quantile=0.5", "privacy.filter=3000", 0, 0, SEFL_EINVAL,
          "together with privacy.filter" },
        { "privacy.clip_quantile=0.5", "privacy.clip=0.000001", 0, 0, SEFL_EINVAL,
          "privacy.clip is" },
        { "privacy.filter=3000", "server.step=adam", 0, 0, SEFL_EINVAL, "server Adam" },
        { "privacy.filter=3000", "privacy.weights=capped", "privacy.weight_cap=5", 0, SEFL_EINVAL,
          "privacy.weights must be equal" },
        { "privacy.filter=3000", "privacy.noise=none", "privacy.z=0", "privacy.claim=none",
          SEFL_EINVAL, "no noise" },
        { "privacy.filter=3000", "rounds.count=131073", "privacy.claim=none", 0, SEFL_EINVAL,
          "at most 131072" },
        { "privacy.filter=4096", "privacy.z=1", "rounds.count=20", "privacy.epsilon=1000",
          SEFL_EINVAL, "nothing can be claimed" },
        { "privacy.noise=none", "privacy.z=0", 0, 0, SEFL_EINVAL, "claim none" },
        { "privacy.noise=none", "privacy.z=1", "privacy.claim=none", 0, SEFL_EINVAL, "privacy.z" },
        { "privacy.z=0", "privacy.claim=none", 0, 0, SEFL_EINVAL, "privacy.z" },
        { "privacy.z=0.249", 0, 0, 0, SEFL_EINVAL, "claim none" },
        { "privacy.claim=none", "privacy.epsilon=1", 0, 0, SEFL_EINVAL, "privacy.epsilon" },
        { "privacy.claim=none", "privacy.delta=1e-6", 0, 0, SEFL_EINVAL, "privacy.delta" },
        { "privacy.epsilon=0", 0, 0, 0, SEFL_EINVAL, "epsilon" },
        { "privacy.delta=0", 0, 0, 0, SEFL_EINVAL, "delta" },
        { "privacy.delta=1", 0, 0, 0, SEFL_EINVAL, "delta" },
        { "privacy.epsilon=1", "privacy.z=1", 0, 0, SEFL_ERANGE, "first round alone costs" },
        { "privacy.epsilon=12", "privacy.z=1", "rounds.count=100", 0, SEFL_EINVAL,
          "of the task's 100 rounds: raise privacy.z to" },
        { "privacy.unit=record", 0, 0, 0, SEFL_EINVAL, "privacy.records_max" },
        { "privacy.unit=record", "privacy.records_max=10", "training.steps=2", 0, SEFL_EINVAL,
          "training.steps" },
        { "privacy.unit=record", "privacy.records_max=10", "training.epochs=1", 0, SEFL_EINVAL,
          "training.epochs" },
        { "privacy.unit=record", "privacy.records_max=10", "training.optimiser=adam", 0,
          SEFL_EINVAL, "training.optimiser" },
        { "privacy.unit=record", "privacy.records_max=10", "privacy.weights=capped",
          "privacy.weight_cap=5", SEFL_EINVAL, "privacy.weights" },
        { "privacy.unit=record", "privacy.records_max=10", "privacy.noise=none",
          "privacy.claim=none", SEFL_EINVAL, "privacy.unit" },
        { "privacy.records_max=10", 0, 0, 0, SEFL_EINVAL, "privacy.records_max" },
        { "privacy.record_words=2", 0, 0, 0, SEFL_EINVAL, "privacy.record_words is 2: must be 0" },
        { "privacy.record_turns=2", 0, 0, 0, SEFL_EINVAL, "privacy.record_turns is 2: must be 0" },
        { "privacy.unit=record", "privacy.records_max=10", "privacy.record_turns=6", 0, SEFL_EINVAL,
          "privacy.record_turns is 6: must be from 1 to rounds.count (5)" },
        { "privacy.unit=record", "privacy.records_max=10", "privacy.record_turns=4",
          "rounds.separation=2", SEFL_EINVAL, "rounds.separation must be 1" },
        { "privacy.unit=record", "privacy.records_max=10", "privacy.record_turns=4",
          "rounds.max_per_client=4", SEFL_EINVAL, "rounds.max_per_client must be 0" },
        { "privacy.unit=record", "privacy.records_max=10", "privacy.record_turns=4",
          "privacy.filter=3000", SEFL_EINVAL, "privacy.filter must be empty" },
        { "privacy.record_rate=1", 0, 0, 0, SEFL_EINVAL, "privacy.record_turns for records" },
        { "privacy.sampling=hidden", 0, 0, 0, SEFL_EINVAL, "privacy.sampling all or open" },
        { "privacy.weights=capped", 0, 0, 0, SEFL_EINVAL, "privacy.weight_cap" },
        { "privacy.weight_cap=7", 0, 0, 0, SEFL_EINVAL, "privacy.weight_cap" },
        { "training.epochs=0", 0, 0, 0, SEFL_EINVAL, "training.epochs" },
        { "training.epochs=1", "training.steps=1", 0, 0, SEFL_EINVAL, "training.epochs" },
        { "model.tied=true", "model.block_embed=2", 0, 0, SEFL_EINVAL, "block_embed is 2" },
        { "training.lr_last=1", 0, 0, 0, SEFL_EINVAL, "training.lr_last" },
        { "training.schedule=cosine", 0, 0, 0, SEFL_EINVAL, "learn nothing" },
        { "training.warmup=5", 0, 0, 0, SEFL_EINVAL, "training.warmup" },
        { "training.lr=20", "training.weight_decay=0.05", 0, 0, SEFL_EINVAL,
          "training.weight_decay" },
        { "privacy.unit=record", "privacy.records_max=10", "training.weight_decay=0.001", 0,
          SEFL_EINVAL, "training.weight_decay" },
        { "training.dropout=1", 0, 0, 0, SEFL_EINVAL, "training.dropout" },
        { "training.beta1=1", 0, 0, 0, SEFL_EINVAL, "training.momentum" },
        { "server.epsilon=0", 0, 0, 0, SEFL_EINVAL, "server.momentum" },
        { "server.lr=0", 0, 0, 0, SEFL_EINVAL, "server.lr" },
        { "model.tied=true", "model.embed=16", 0, 0, SEFL_EINVAL, "model" },
        { "privacy.z=0.001", "privacy.claim=none", "rounds.enrolled=10000000",
          "crypto.scheme=paillier", SEFL_ERANGE, "clients" },
        { "privacy.z=1000", "model.vocab=1000000", 0, 0, SEFL_ERANGE, "coordinates" },
        { "privacy.z=2000", 0, 0, 0, SEFL_EINVAL, "noise multiplier" },
    };
    task t;
    for (size_t i = 0; i < sizeof r / sizeof r[0]; i++) {
        const char *a[] = { r[i].a, r[i].b, r[i].c, r[i].d };
        sefl_status st = sample_task(&t, a[0], a[1], a[2], a[3], NULL);
        if (st != r[i].st || !strstr(sefl_last_error(), r[i].says))
            fail_msg("%s %s %s %s: %s: %s", a[0], a[1] ? a[1] : "", a[2] ? a[2] : "",
                     a[3] ? a[3] : "", sefl_status_name(st), st ? sefl_last_error() : "");
    }
    pinned one = sample_servers, kept = sample_servers;
    memcpy(one.csp, one.as, sizeof one.as);
    sample_servers = one;
    CHECK_STATUS(sample_task(&t, NULL), SEFL_EINVAL);
    assert_non_null(strstr(sefl_last_error(), "must be different parties"));
    sample_servers = kept;
}

/* The learning rate of every round, against values computed by hand. */
static void test_learning_rate(void **state)
{
    (void)state;
    static const struct {
        const char *set[3];
        double lr[5];
    } s[] = {
        { { 0 }, { 8, 8, 8, 8, 8 } },
        { { "training.schedule=linear", "training.lr_last=2" }, { 8, 6.5, 5, 3.5, 2 } },
        { { "training.schedule=linear", "training.lr_last=16" }, { 8, 10, 12, 14, 16 } },
        { { "training.schedule=cosine", "training.lr_last=2" },
          { 8, 7.121320343559643, 5, 2.878679656440357, 2 } },
        { { "training.warmup=3" }, { 2, 4, 6, 8, 8 } },
        { { "training.warmup=1", "training.schedule=linear", "training.lr_last=2" },
          { 4, 8, 6, 4, 2 } },
        { { "training.warmup=4", "training.schedule=cosine", "training.lr_last=2" },
          { 1.6, 3.2, 4.8, 6.4, 8 } },
    };
    for (size_t i = 0; i < sizeof s / sizeof s[0]; i++) {
        task t;
        CHECK_OK(sample_task(&t, "training.lr=8", "rounds.count=5", s[i].set[0], s[i].set[1],
                             s[i].set[2], NULL));
        for (uint64_t r = 1; r <= 5; r++)
            if (fabs(task_lr(&t, r) - s[i].lr[r - 1]) > 1e-14)
                fail_msg("schedule %zu, round %d: %.17g", i, (int)r, task_lr(&t, r));
        assert_true(task_lr(&t, 6) == task_lr(&t, 5));
        task_clear(&t);
    }
}

/* Sealed uploads: the default scheme is pad, with xwing. */
static void test_sealed(void **state)
{
    (void)state;
    static const struct {
        const char *setting, *name;
        size_t head;
    } c[] = { { "crypto.seal=xwing", "xwing", 1304 }, { "crypto.seal=x25519", "x25519", 216 } };
    sefl_buf doc = { 0 }, bad = { 0 }, words = { 0 };
    uint8_t client[32] = { 7 }, got[32], want[32], raw[10 + 32 + 8 + 32] = "sefl pad 1";
    settings s;
    task t;
    settings_init(&s, task_schema);
    assert_string_equal(settings_text(&s, "crypto.scheme"), "pad");
    assert_string_equal(settings_text(&s, "crypto.seal"), "xwing");
    settings_clear(&s);
    for (size_t i = 0; i < 2; i++) {
        doc.n = 0;
        CHECK_OK(sample_document(&doc, "crypto.scheme=pad", c[i].setting, NULL));
        CHECK_OK(task_read(&t, buf_span(&doc)));
        assert_true(task_is_sealed(&t) && t.pub == NULL && t.ahe.scheme == &ahe_pad);
        assert_string_equal(t.seal->name, c[i].name);
        assert_int_equal(task_body_bytes(&t), c[i].head + 32 + ahe_body_bytes(&t.ahe));
        memcpy(raw + 10, t.id, 32);
        store_u64(raw + 42, 3);
        memcpy(raw + 50, client, 32);
        sha256_of(want, span_of(raw, sizeof raw));
        task_upload_context(got, &t, 3, client);
        assert_memory_equal(got, want, 32);
        words.n = 0;
        CHECK_OK(task_explain(&words, &t));
        assert_true(has(&words, "the guarantee against a server, below, holds against it too"));
        assert_true(has(&words, "who takes part in each round"));
        assert_false(has(&words, "MAY LEARN"));
        task_clear(&t);
    }
    replace(&bad, &doc, "\"key\": \"", "\"key\": \"AAAA");
    CHECK_STATUS(task_read(&t, buf_span(&bad)), SEFL_EPROTO);
    CHECK_STATUS(sample_document(&doc, "crypto.scheme=pad", "crypto.seal=none", NULL), SEFL_EINVAL);
    CHECK_STATUS(sample_document(&doc, "crypto.scheme=paillier", "crypto.seal=xwing", NULL),
                 SEFL_EINVAL);

    doc.n = words.n = 0;
    CHECK_OK(sample_document(&doc, "crypto.scheme=paillier", NULL));
    CHECK_OK(task_read(&t, buf_span(&doc)));
    assert_true(!task_is_sealed(&t) && t.pub != NULL);
    assert_int_equal(task_body_bytes(&t), 32 + ahe_body_bytes(&t.ahe));
    task_upload_context(got, &t, 3, client);
    task_context(want, &t, 3);
    assert_memory_equal(got, want, 32);
    CHECK_OK(task_explain(&words, &t));
    assert_true(has(&words, "requires an AS that follows the protocol"));
    task_clear(&t);
    buf_clear(&doc);
    buf_clear(&bad);
    buf_clear(&words);
}

/* ---- signed ---------------------------------------------------------------------------------- */

static void test_open(void **state)
{
    (void)state;
    sefl_buf doc = { 0 }, signed_ = { 0 };
    task t;
    envelope env = { .kind = SIGN_TASK };
    CHECK_OK(sample_document(&doc, NULL));
    env.content = buf_span(&doc);
    CHECK_OK(envelope_sign(&env, SIGNER_AS, sample_as));
    CHECK_OK(envelope_write(&signed_, &env));
    CHECK_STATUS(task_open(&t, buf_span(&signed_), &sample_servers), SEFL_EAUTH);
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, sample_csp));
    signed_.n = 0;
    CHECK_OK(envelope_write(&signed_, &env));
    CHECK_OK(task_open(&t, buf_span(&signed_), &sample_servers));
    task_clear(&t);

    /* every byte of the document is under both signatures */
    for (size_t i = 13; i < 13 + doc.n; i += 7) {
        signed_.p[i] ^= 1;
        CHECK_STATUS(task_open(&t, buf_span(&signed_), &sample_servers), SEFL_EAUTH);
        signed_.p[i] ^= 1;
    }
    pinned other = sample_servers;
    other.csp[3] ^= 1;
    CHECK_STATUS(task_open(&t, buf_span(&signed_), &other), SEFL_EAUTH);

    /* signed by the pinned keys, but the document names others */
    pinned kept = sample_servers;
    sample_servers.csp[0] ^= 1;
    doc.n = 0;
    CHECK_OK(sample_document(&doc, NULL));
    sample_servers = kept;
    env = (envelope){ .kind = SIGN_TASK, .content = buf_span(&doc) };
    CHECK_OK(envelope_sign(&env, SIGNER_AS, sample_as));
    CHECK_OK(envelope_sign(&env, SIGNER_CSP, sample_csp));
    signed_.n = 0;
    CHECK_OK(envelope_write(&signed_, &env));
    CHECK_STATUS(task_open(&t, buf_span(&signed_), &sample_servers), SEFL_EAUTH);
    assert_non_null(strstr(sefl_last_error(), "servers.csp"));
    buf_clear(&doc);
    buf_clear(&signed_);
}

/* ---- in plain words -------------------------------------------------------------------------- */

/* The rounds that the target allows, compared with the accountant round by round. */
static void test_explain(void **state)
{
    (void)state;
    static const char *const limits[] = { "rounds.max_per_client=0", "rounds.max_per_client=2" };
    static const uint64_t want[] = { 0, 40 }; /* 0: counted below */
    for (size_t i = 0; i < 2; i++) {
        sefl_buf words = { 0 };
        char text[64];
        task t;
        dp_claim c;
        uint64_t n = 0;
        CHECK_OK(sample_task(&t, limits[i], "rounds.count=40", "privacy.epsilon=12", "privacy.z=1",
                             "privacy.early_end=true", NULL));
        for (n = 0; n < 40; n++) {
            dp_event ev = task_event(&t, n + 1);
            CHECK_OK(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = t.delta }));
            if (c.epsilon > 12)
                break;
        }
        assert_true(n > 1 && n < 40);
        CHECK_OK(task_explain(&words, &t));
        snprintf(text, sizeof text, "The target allows %d of the 40 rounds",
                 (int)(want[i] ? want[i] : n));
        assert_true(has(&words, text));
        assert_false(has(&words, "no differential privacy claimed"));
        buf_clear(&words);
        task_clear(&t);
    }
    task t;
    sefl_buf words = { 0 };
    CHECK_OK(sample_task(&t, "privacy.filter=2048,512", "rounds.separation=2", "rounds.count=40",
                         "rounds.max_per_client=5", NULL));
    CHECK_OK(task_explain(&words, &t));
    assert_true(has(&words, "takes back 50.0 %, 12.5 % of the noise of the rounds before it"));
    assert_true(has(&words, "40 rounds count as one with noise"));
    assert_true(has(&words, "up to the last round (40)"));
    assert_true(has(&words, "a client waits until 2 rounds later"));
    assert_false(has(&words, "no amplification by"));
    buf_clear(&words);
    task_clear(&t);
    CHECK_OK(sample_task(&t, "privacy.noise=none", "privacy.claim=none", NULL));
    TEST_FAULTS(FAULT_ALLOC, buf_clear(&words); st = task_explain(&words, &t), (void)0);
    assert_true(has(&words, "AS and every client learn the exact average"));
    assert_true(has(&words, "no differential privacy claimed"));
    buf_clear(&words);
    task_clear(&t);
}

/* ---- external models and training.only ------------------------------------------------------- */

static sefl_status external(sefl_buf *doc, const char *tensors, const char *more)
{
    static const char *const base[] = {
        "name=sample",
        "population=testers",
        "model.body=external",
        "rounds.enrolled=8",
        "rounds.threshold=3",
        "rounds.count=5",
        "init.sha256=00000000000000000000000000000000000000000000000000000000000000ff",
    };
    sefl_status st = SEFL_OK;
    settings s;
    settings_init(&s, task_schema);
    doc->n = 0;
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
        SEFL_TRY(settings_set(&s, base[i], "sample"));
    SEFL_TRY(settings_setf(&s, "sample", "model.tensors=%s", tensors));
    if (more)
        SEFL_TRY(settings_set(&s, more, "sample"));
    SEFL_TRY(task_make(doc, &s, NULL, &sample_servers));
done:
    settings_clear(&s);
    return st;
}

static const char tensors_sample[] = "fc.weight=10x16/4, fc.bias=10, lora.a=10x2, scale=scalar";

static void test_external(void **state)
{
    (void)state;
    sefl_buf doc = { 0 }, words = { 0 };
    task t;
    CHECK_OK(external(&doc, tensors_sample, NULL));
    assert_false(has(&doc, "vocab"));
    assert_false(has(&doc, "epochs"));
    assert_false(has(&doc, "valid"));
    CHECK_OK(task_read(&t, buf_span(&doc)));
    assert_true(t.external && !t.has_valid && t.layout.n == 4);
    assert_string_equal(t.model.body, "external");
    assert_true(t.layout.tensor[0].block == 4 && t.layout.tensor[3].rank == 0);
    assert_true(t.params == t.layout.count && t.values == t.params && t.ahe.values == t.values);
    CHECK_OK(task_explain(&words, &t));
    assert_true(has(&words, "A model of 4 tensors"));
    assert_true(has(&words, "each client's own program"));
    assert_true(has(&words, "all data of one client"));
    assert_false(has(&words, "text"));
    assert_false(has(&words, "word"));
    task_clear(&t);

    /* the noise falls on the trained values only; the weight has its own slot */
    CHECK_OK(external(&doc, tensors_sample, "training.only=lora.*, scale"));
    CHECK_OK(task_read(&t, buf_span(&doc)));
    assert_string_equal(t.only, "lora.*,scale");
    assert_true(t.values == 21 && t.params > 21 && t.grid.dim == 21 && t.ahe.values == 21);
    assert_int_equal(task_noise_params(&t, 1, 1).count, 21);
    words.n = 0;
    CHECK_OK(task_explain(&words, &t));
    assert_true(has(&words, "Only these tensors are trained (2 of 4, 21 values)"));
    task_clear(&t);
    CHECK_OK(external(&doc, "a=3, b=4", "model.block=4")); /* no matrix has room for a block */

    /* model.block is for matrices without a block of their own */
    CHECK_OK(external(&doc, "a=8x8, b=8x8/2, c=3x8, d=64", "model.block=4"));
    CHECK_OK(task_read(&t, buf_span(&doc)));
    assert_true(t.layout.tensor[0].block == 4 && t.layout.tensor[1].block == 2 &&
                t.layout.tensor[2].block == 1 && t.layout.tensor[3].block == 1);
    task_clear(&t);
    buf_clear(&doc);
    buf_clear(&words);
}

static void test_external_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *tensors, *more, *says;
    } bad[] = {
        { "", NULL, "model.tensors is empty" },
        { "a=3, a=3", NULL, "occurs twice" },
        { "a=3/2", NULL, "only a matrix" },
        { "a=3", "training.only=b", "\"b\" fits no tensor" },
        { "a=3", "training.only=a,,b", "training.only" },
        { "a=3", "training.lr=1", "training.lr does not apply: model.body is external" },
        { "a=3", "model.embed=8", "model.embed does not apply" },
        { "a=3", "vocab.order=frequency", "vocab.order does not apply" },
        { "a=3", "rounds.patience=2", "rounds.patience" },
        { "a=3", "privacy.unit=record", "privacy.unit is record" },
    };
    sefl_buf doc = { 0 }, out = { 0 };
    task t;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(external(&doc, bad[i].tensors, bad[i].more), SEFL_EINVAL);
        if (!strstr(sefl_last_error(), bad[i].says))
            fail_msg("%s: %s", bad[i].says, sefl_last_error());
    }
    CHECK_STATUS(sample_document(&doc, "model.tensors=a=3", NULL), SEFL_EINVAL);
    static const struct {
        const char *from, *to;
    } c[] = {
        { "\"shape\": [3]", "\"shape\": [0]" },
        { "\"shape\": [3]", "\"shape\": [3.0]" },
        { "\"shape\": [3]", "\"shape\": [\"3\"]" },
        { "\"shape\": [3]", "\"shape\": 3" },
        { "\"shape\": [3]", "\"shape\": [1, 1, 1, 1, 3]" },
        { "\"shape\": [3]", "\"shape\": [4294967296]" },
        { "\"shape\": [3]", "\"shape\": [2147483648, 2]" },
        { "\"block\": 1", "\"block\": 0" },
        { "\"block\": 1", "\"block\": 2" },
        { "\"block\": 1", "\"block\": 1, \"trained\": true" },
        { ", \"block\": 1", "" },
        { "\"shape\": [3], \"block\": 1", "\"block\": 1, \"shape\": [3]" },
        { "\"name\": \"a\"", "\"name\": \"\"" },
        { "\"name\": \"a\"", "\"name\": \"a\\u001b\"" },
        { "\"name\": \"a\"", "\"name\": \"a=b\"" },
        { "\"name\": \"a\"", "\"name\": 3" },
        { "{ \"name\": \"a\", \"shape\": [3], \"block\": 1 }", "" },
        { "{ \"name\": \"a\", \"shape\": [3], \"block\": 1 }", "[]" },
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        CHECK_OK(external(&doc, "a=3", NULL));
        replace(&out, &doc, c[i].from, c[i].to);
        sefl_status st = task_read(&t, buf_span(&out));
        if (st != SEFL_EPROTO || !strstr(sefl_last_error(), "model.tensors"))
            fail_msg("%s: %s: %s", c[i].to, sefl_status_name(st), sefl_last_error());
        assert_true(t.layout.tensor == NULL && t.only == NULL);
    }
    buf_clear(&doc);
    buf_clear(&out);
}

/* A part of a built-in model: fewer values in an update, so less noise for the same z. */
static void test_only(void **state)
{
    (void)state;
    sefl_buf words = { 0 };
    task all, some;
    CHECK_OK(sample_task(&all, NULL));
    CHECK_OK(sample_task(&some, "training.only=decoder.*", NULL));
    assert_true(some.params == all.params && some.values < all.values);
    assert_int_equal(some.values, layout_find(&all.layout, "decoder.weight")->count + 50);
    assert_true(some.grid.dim == some.values && task_event(&some, 1).dim <= some.values);
    assert_string_equal(some.model.only, "decoder.*");
    CHECK_OK(task_explain(&words, &some));
    assert_true(has(&words, "    decoder.*\n"));
    task_clear(&some);
    CHECK_OK(sample_task(&some, "training.only=decoder.bias", "privacy.weights=capped",
                         "privacy.weight_cap=9", NULL));
    assert_true(some.values == 51 && task_trained(&some) == 50);
    buf_clear(&words);
    CHECK_OK(task_explain(&words, &some));
    assert_true(has(&words, "contains the client's word count, counted up to 9. AS learns only"));
    assert_true(has(&words, "sends no loss, vocabulary or gradient norm of its text."));
    task_clear(&some);
    task_clear(&all);
    buf_clear(&words);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void test_faults(void **state)
{
    (void)state;
    sefl_buf doc = { 0 };
    task t;
    CHECK_OK(sample_document(&doc, NULL));
    TEST_FAULTS(FAULT_ALLOC, st = task_read(&t, buf_span(&doc)), task_clear(&t));
    doc.n = 0;
    TEST_FAULTS(FAULT_ALLOC, st = sample_document(&doc, NULL), (void)0);
    doc.n = 0;
    TEST_FAULTS(FAULT_ALLOC, st = external(&doc, tensors_sample, "training.only=lora.*"), (void)0);
    buf_clear(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_it_made),
        cmocka_unit_test(test_exact_bytes_count),
        cmocka_unit_test(test_strict_form),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_locale_changes_nothing),
        cmocka_unit_test(test_usual_learning_rate),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_learning_rate),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_external_refusals),
        cmocka_unit_test(test_only),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
