#include "protocol/task_model.h"

#include "base/alloc.h"
#include "model/file/model_file.h"

#include <string.h>

sefl_status task_model_read(float **theta, const task *t, const char *path)
{
    uint64_t clip;
    return task_model_read_clip(theta, &clip, t, path);
}

sefl_status task_model_read_clip(float **theta, uint64_t *clip, const task *t, const char *path)
{
    sefl_status st = SEFL_OK;
    model_meta meta;
    size_t count = 0;
    *theta = NULL;
    *clip = 0;
    if (t->external)
        return model_read_tensors(theta, &t->layout, path);
    SEFL_TRY(model_read(&meta, theta, &count, path));
    if (model_check_shape(&meta, &t->model) != SEFL_OK)
        SEFL_TRY(sefl_fail_at(SEFL_EPROTO, "%s", path));
    SEFL_CHECK(count == t->params, SEFL_EPROTO, "%s has %zu values, the task's model %zu", path,
               count, t->params);
    SEFL_CHECK(!meta.has_vocab || memcmp(meta.vocab_hash, t->vocab_hash, SHA256_BYTES) == 0,
               SEFL_EPROTO, "%s was trained with another vocabulary than the task's", path);
    if (t->clip_quantile > 0) {
        const bool ours = meta.clip > 0 && memcmp(meta.clip_task, t->id, MODEL_CLIP_TASK) == 0;
        *clip = ours ? meta.clip : t->clip_nano;
        SEFL_CHECK(task_clip_fits(t, *clip), SEFL_EPROTO,
                   "%s: its clip is outside the task's range", path);
    }
done:
    if (st != SEFL_OK)
        sefl_free(*theta), *theta = NULL;
    return st;
}

sefl_status task_model_write(const char *path, const task *t, const float *theta, uint64_t clip,
                             uint8_t hash[SHA256_BYTES])
{
    if (t->external)
        return model_write_tensors(path, &t->layout, theta, hash);
    model_meta meta = { .cfg = t->model, .has_vocab = true, .kind = t->kind, .order = t->order };
    memcpy(meta.vocab_hash, t->vocab_hash, sizeof meta.vocab_hash);
    meta.clip = clip;
    memcpy(meta.clip_task, t->id, sizeof meta.clip_task);
    return model_write_hash(path, &meta, theta, hash);
}
