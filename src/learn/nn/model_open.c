#include "model/model_open.h"

#include "base/alloc.h"
#include "base/hex.h"

#include <inttypes.h>
#include <string.h>

sefl_status model_open(lm **out, model_meta *meta, const char *path, uint32_t batch, uint32_t steps,
                       pool *p)
{
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    nn_real *theta = NULL;
    size_t count;
    SEFL_TRY(model_read(meta, &theta, &count, path));
    meta->cfg.batch = batch;
    meta->cfg.steps = steps;
    SEFL_TRY(lm_new(&m, &meta->cfg, p));
    meta->cfg = *lm_get_config(m);
    memcpy(lm_theta(m), theta, count * sizeof *theta);
    *out = m, m = NULL;
done:
    sefl_free(theta);
    lm_free(m);
    return st;
}

sefl_status model_check_vocab(const model_meta *meta, const vocab *v)
{
    uint8_t digest[SHA256_BYTES];
    char want[2 * SHA256_BYTES + 1], have[2 * SHA256_BYTES + 1];
    SEFL_NEED(vocab_size(v) == meta->cfg.vocab, SEFL_EINVAL,
              "the vocabulary has %" PRIu32 " words, the model %" PRIu32, vocab_size(v),
              meta->cfg.vocab);
    if (!meta->has_vocab)
        return SEFL_OK;
    SEFL_NEED(vocab_kind_of(v) == meta->kind, SEFL_EINVAL,
              "the model was trained with a vocabulary of kind %s, this one is of kind %s",
              vocab_kind_name(meta->kind), vocab_kind_name(vocab_kind_of(v)));
    vocab_hash(v, digest);
    hex_write(want, meta->vocab_hash, SHA256_BYTES);
    hex_write(have, digest, SHA256_BYTES);
    SEFL_NEED(memcmp(digest, meta->vocab_hash, sizeof digest) == 0, SEFL_EINVAL,
              "the model was trained with another vocabulary: sha256 %.16s..., this one has "
              "%.16s... (the order of the words counts)",
              want, have);
    return SEFL_OK;
}

void model_meta_set_vocab(model_meta *meta, const vocab *v)
{
    meta->has_vocab = true;
    meta->kind = vocab_kind_of(v);
    meta->order = vocab_order_of(v);
    vocab_hash(v, meta->vocab_hash);
}
