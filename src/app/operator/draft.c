#include "operator/draft.h"

#include "base/file.h"
#include "base/hex.h"
#include "model/corpus/corpus.h"
#include "model/model_open.h"
#include "protocol/task_make.h"

#include <inttypes.h>

#define SET(s, ...) settings_setf((s), "draft", __VA_ARGS__)

sefl_status draft_hash(settings *t, const char *key, const char *path)
{
    uint8_t hash[SHA256_BYTES];
    char hex[HEX_CHARS(SHA256_BYTES)];
    SEFL_PASS(file_sha256(hash, NULL, path));
    return SET(t, "%s=%s", key, hex_write(hex, hash, sizeof hash));
}

vocab_settings draft_order(const settings *t)
{
    lm_config cfg;
    task_settings_model(&cfg, t, 0);
    return (vocab_settings){ .order = (vocab_order)settings_choice(t, "vocab.order"),
                             .block = lm_config_word_block(&cfg),
                             .max_words = settings_given(t, "model.vocab")
                                              ? (uint32_t)settings_u64(t, "model.vocab")
                                              : 0,
                             .kind = (vocab_kind)settings_choice(t, "vocab.kind") };
}

/* Counts each word of the list once: the list has no counts. */
static sefl_status count_list(vocab *v, const char *path)
{
    sefl_status st = SEFL_OK;
    vocab *list = NULL;
    SEFL_TRY(vocab_read(&list, path, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    for (uint32_t i = 0; i < vocab_size(list); i++)
        if (i != vocab_unk(list) && i != vocab_eos(list))
            SEFL_TRY(vocab_count(v, vocab_word(list, i)));
done:
    vocab_free(list);
    return st;
}

sefl_status draft_vocab(vocab **out, settings *t, const char *text, const char *also,
                        const char *path)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    const vocab_settings s = draft_order(t);
    SEFL_TRY(vocab_new(&v, s.kind));
    SEFL_TRY(corpus_count(v, &(corpus_file){ .path = text }, NULL));
    if (also)
        SEFL_TRY(count_list(v, also));
    SEFL_TRY(vocab_finish(v, &s));
    SEFL_TRY(draft_words(t, v, path));
    *out = v, v = NULL;
done:
    vocab_free(v);
    return st;
}

sefl_status draft_words(settings *t, const vocab *v, const char *path)
{
    SEFL_PASS(vocab_write(v, path, false));
    SEFL_PASS(SET(t, "model.vocab=%" PRIu32, vocab_size(v)));
    return draft_hash(t, "vocab.sha256", path);
}

sefl_status draft_model(settings *t, const vocab *v, uint64_t seed, const char *path)
{
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    model_meta meta = { 0 };
    lm_config cfg;
    task_settings_model(&cfg, t, vocab_size(v));
    SEFL_TRY(lm_new(&m, &cfg, NULL));
    lm_init(m, seed);
    meta.cfg = *lm_get_config(m);
    model_meta_set_vocab(&meta, v);
    SEFL_TRY(model_write(path, &meta, lm_theta(m)));
    SEFL_TRY(draft_hash(t, "init.sha256", path));
done:
    lm_free(m);
    return st;
}
