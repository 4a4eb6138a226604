#include "cli/sample.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/utf8.h"
#include "model/corpus/bpe.h"
#include "model/model_open.h"
#include "seeded/seeded.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

enum { WORDS = 60 };
#define TEMPERATURE 0.8

/* Appends the words, separated by spaces. */
static sefl_status write_words(sefl_buf *text, const vocab *v, const uint32_t *token, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sefl_span w = vocab_word(v, token[i]);
        const bool first = text->n == 0 || text->p[text->n - 1] == '\n';
        if (token[i] == vocab_eos(v))
            SEFL_PASS(wr_u8(text, '\n'));
        else
            SEFL_PASS(wr_fmt(text, "%s%.*s", first ? "" : " ", (int)w.n, (const char *)w.p));
    }
    return SEFL_OK;
}

/* Appends the bytes of BPE tokens; `?` stands for bytes that are not text, as a model may write
 * half a character. */
static sefl_status write_tokens(sefl_buf *text, const vocab *v, const uint32_t *token, size_t n)
{
    SEFL_PASS(bpe_decode(text, v, token, n));
    for (size_t at = 0; (at += utf8_good(span_of(text->p + at, text->n - at))) < text->n;)
        text->p[at] = '?';
    return SEFL_OK;
}

/* Sets the prompt's tokens, after an <eos>: a text begins after the end of a line. */
static sefl_status encode_prompt(uint32_t *token, size_t *n, const vocab *v, sefl_span prompt)
{
    sefl_status st = SEFL_OK;
    bpe_encoder *e = NULL;
    const uint32_t *ids;
    sefl_span word;
    size_t tokens;
    token[(*n)++] = vocab_eos(v);
    if (vocab_kind_of(v) == VOCAB_BPE) {
        SEFL_TRY(bpe_encoder_new(&e, v));
        SEFL_TRY(bpe_encode(e, prompt, &ids, &tokens));
        for (size_t i = 0; i < tokens; i++)
            token[(*n)++] = ids[i];
    } else {
        while (utf8_word(&prompt, &word))
            token[(*n)++] = vocab_id(v, word);
    }
done:
    bpe_encoder_free(e);
    return st;
}

sefl_status sample_words(sefl_buf *text, lm *m, const vocab *v, sefl_span prompt, size_t words,
                         double temperature, uint64_t seed)
{
    sefl_status st = SEFL_OK;
    uint32_t *token = NULL;
    size_t n = 0;
    seeded gen;
    SEFL_TRY(sefl_new(&token, 1 + prompt.n + words, sizeof *token));
    SEFL_TRY(encode_prompt(token, &n, v, prompt));
    seeded_init(&gen, seed, "generate");
    SEFL_TRY(lm_generate(m, token + n, words, token, n, temperature, vocab_unk(v), &gen));
    SEFL_TRY(
        (vocab_kind_of(v) == VOCAB_BPE ? write_tokens : write_words)(text, v, token + n, words));
done:
    sefl_free(token);
    return st;
}

/* Returns the last round that released a model; 0: none. */
static uint64_t last_released(const run_log *l)
{
    for (size_t i = l->n; i-- > 0;)
        if (!l->at[i].skipped && !l->at[i].blocked)
            return l->at[i].round;
    return 0;
}

/* A task of a queue: models/NAME-ID has its metrics.jsonl and its models, tasks/NAME its words. */
static bool find_queued(char model[PATH_MAX], char words[PATH_MAX], const report *r, uint64_t round)
{
    const char *slash = strrchr(r->folder, '/'), *name = slash ? slash + 1 : r->folder;
    const char *dash = strrchr(name, '-');
    return dash &&
           file_path(model, "%s/round-%" PRIu64 ".safetensors", r->folder, round) == SEFL_OK &&
           file_path(words, "%s/../../tasks/%.*s/vocab.txt", r->folder, (int)(dash - name), name) ==
               SEFL_OK &&
           file_exists(model) && file_exists(words);
}

/* Finds the model and its word list. */
static bool find_files(char model[PATH_MAX], char words[PATH_MAX], const report *r, uint64_t round)
{
    static const char *const places[][2] = {
        { "model", "vocab.txt" },            /* a simulation */
        { "models", "../public/vocab.txt" }, /* an aggregator */
        { "models", "vocab.txt" },
        { "../models", "../../public/vocab.txt" }, /* an aggregator's state */
        { "aggregator/models", "public/vocab.txt" },
        { "federation/aggregator/models", "federation/public/vocab.txt" },
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (file_path(model, "%s/%s/round-%" PRIu64 ".safetensors", r->folder, places[i][0],
                      round) == SEFL_OK &&
            file_path(words, "%s/%s", r->folder, places[i][1]) == SEFL_OK && file_exists(model) &&
            file_exists(words))
            return true;
    return find_queued(model, words, r, round);
}

sefl_status sample_file(sefl_buf *text, const char *model, const char *words)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    pool *p = NULL;
    lm *m = NULL;
    model_meta meta;
    SEFL_TRY(
        vocab_read(&v, words, &(vocab_settings){ .order = VOCAB_APPEARANCE, .kind = VOCAB_ANY }));
    SEFL_TRY(pool_new(&p, 1));
    SEFL_TRY(model_open(&m, &meta, model, 1, 0, p));
    SEFL_TRY(model_check_vocab(&meta, v));
    SEFL_TRY(sample_words(text, m, v, span_of_str(""), WORDS, TEMPERATURE, 0));
done:
    lm_free(m);
    pool_free(p);
    vocab_free(v);
    return st;
}

sefl_status sample_run(report *r)
{
    sefl_status st = SEFL_OK;
    char model[PATH_MAX], words[PATH_MAX];
    uint64_t round = last_released(&r->log);
    sefl_buf text = { 0 };
    if (round == 0 || !find_files(model, words, r, round))
        return SEFL_OK;
    st = sample_file(&text, model, words);
    if (st != SEFL_OK && st != SEFL_ENOMEM) {
        st = SEFL_OK; /* an external model, or the word list of another one */
        goto done;
    }
    SEFL_TRY(st);
    while (text.n > 0 && text.p[text.n - 1] == '\n')
        text.n--;
    SEFL_TRY(wr_u8(&text, 0));
    SEFL_TRY(sefl_strdup(&r->sample, (const char *)text.p));
    r->sample_round = round;
done:
    buf_clear(&text);
    return st;
}
