#include "simulate/experiment_start.h"

#include "base/alloc.h"
#include "model/model_open.h"
#include "protocol/task_make.h"

vocab_settings experiment_vocab(const experiment *e, const settings *set)
{
    lm_config cfg;
    task_settings_model(&cfg, set, 0);
    return (vocab_settings){ .order = (vocab_order)settings_choice(set, "vocab.order"),
                             .block = lm_config_word_block(&cfg),
                             .max_words = e->vocab_words,
                             .kind = (vocab_kind)settings_choice(set, "vocab.kind") };
}

sefl_status experiment_words(vocab **out, const experiment *e, const corpus_file *train,
                             const vocab_settings *vs)
{
    if (*e->vocab)
        return sefl_at(vocab_read(out, e->vocab, vs), "data.vocab");
    SEFL_PASS(vocab_new(out, vs->kind));
    SEFL_PASS(corpus_count(*out, train, NULL));
    return vocab_finish(*out, vs);
}

sefl_status experiment_init(float **theta, size_t *count, const char *path, lm_config cfg,
                            const vocab *words)
{
    model_meta meta;
    SEFL_PASS(sefl_at(model_read(&meta, theta, count, path), "model.init"));
    if (words)
        SEFL_PASS(sefl_at(model_check_vocab(&meta, words), "model.init: %s", path));
    else
        cfg.vocab = meta.cfg.vocab;
    return sefl_at(model_check_shape(&meta, &cfg), "model.init: %s", path);
}

sefl_status experiment_check_start(const experiment *e, const settings *set)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    vocab_settings vs = experiment_vocab(e, set);
    vocab *words = NULL;
    float *theta = NULL;
    size_t count;
    lm_config cfg;
    if (e->external)
        return SEFL_OK; /* no words; its shape is compared with the task, which needs its tensors */
    if (*e->vocab || (*e->data && *e->init)) {
        SEFL_TRY(corpus_paths_find(&paths, e->data));
        SEFL_TRY(
            experiment_words(&words, e, &(corpus_file){ .path = paths.path[CORPUS_TRAIN] }, &vs));
    }
    task_settings_model(&cfg, set, words ? vocab_size(words) : 0);
    if (*e->init)
        SEFL_TRY(experiment_init(&theta, &count, e->init, cfg, words));
done:
    sefl_free(theta);
    vocab_free(words);
    corpus_paths_clear(&paths);
    return st;
}
