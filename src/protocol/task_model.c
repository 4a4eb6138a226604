#include "protocol/task_model.h"

#include "base/alloc.h"
#include "model/file/model_file.h"

#include <string.h>

sefl_status task_model_read(float **theta, const task *t, const char *path)
{
    sefl_status st = SEFL_OK;
    model_meta meta;
    size_t count = 0;
    *theta = NULL;
    if (t->external)
        return model_read_tensors(theta, &t->layout, path);
    SEFL_TRY(model_read(&meta, theta, &count, path));
    if (model_check_shape(&meta, &t->model) != SEFL_OK)
        SEFL_TRY(sefl_fail_at(SEFL_EPROTO, "%s", path));
    SEFL_CHECK(count == t->params, SEFL_EPROTO, "%s has %zu values, the task's model %zu", path,
               count, t->params);
    SEFL_CHECK(!meta.has_vocab || memcmp(meta.vocab_hash, t->vocab_hash, SHA256_BYTES) == 0,
               SEFL_EPROTO, "%s was trained with another vocabulary than the task's", path);
done:
    if (st != SEFL_OK)
        sefl_free(*theta), *theta = NULL;
    return st;
}

sefl_status task_model_write(const char *path, const task *t, const float *theta,
                             uint8_t hash[SHA256_BYTES])
{
    if (t->external)
        return model_write_tensors(path, &t->layout, theta, hash);
    model_meta meta = { .cfg = t->model, .has_vocab = true, .kind = t->kind, .order = t->order };
    memcpy(meta.vocab_hash, t->vocab_hash, sizeof meta.vocab_hash);
    return model_write_hash(path, &meta, theta, hash);
}
