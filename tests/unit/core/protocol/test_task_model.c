#define _GNU_SOURCE
/* The clip in a model's file: written, read, of another task, and hostile. */
#include "support/check.h"
#include "support/folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model/file/model_file.h"
#include "protocol/task_model.h"

#include <string.h>

static task some_task(double quantile)
{
    task t = { .clip_quantile = quantile, .clip_nano = 2000000000 };
    t.model = (lm_config){
        .body = "lstm", .vocab = 12, .embed = 4, .hidden = 4, .layers = 1, .block = 2
    };
    memset(t.id, 7, sizeof t.id);
    CHECK_OK(lm_config_check(&t.model));
    CHECK_OK(lm_config_layout(&t.model, &t.layout));
    t.params = t.layout.count;
    return t;
}

/* Reads the file: its clip, or the status. */
static sefl_status clip_of(const task *t, const char *path, uint64_t *clip)
{
    float *theta = NULL;
    sefl_status st = task_model_read_clip(&theta, clip, t, path);
    assert_true((theta != NULL) == (st == SEFL_OK));
    sefl_free(theta);
    return st;
}

static void clips(void **state)
{
    (void)state;
    task t = some_task(0.5), fixed = some_task(0);
    float *theta = NULL;
    uint64_t clip;
    uint8_t hash[SHA256_BYTES];
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("m.safetensors"));
    CHECK_OK(sefl_new(&theta, t.params, sizeof *theta));
    CHECK_OK(task_model_write(path, &t, theta, 1234567890, hash));
    CHECK_OK(clip_of(&t, path, &clip));
    assert_int_equal(clip, 1234567890);
    CHECK_OK(clip_of(&fixed, path, &clip));
    assert_int_equal(clip, 0);
    t.id[0]++; /* the initial model of another task */
    CHECK_OK(clip_of(&t, path, &clip));
    assert_int_equal(clip, t.clip_nano);
    t.id[0]--;
    CHECK_OK(task_model_write(path, &t, theta, 0, hash));
    CHECK_OK(clip_of(&t, path, &clip));
    assert_int_equal(clip, t.clip_nano);

    /* a server that signs a model with another clip */
    CHECK_OK(task_model_write(path, &t, theta, t.clip_nano / 1024 - 1, hash));
    CHECK_STATUS(clip_of(&t, path, &clip), SEFL_EPROTO);
    CHECK_OK(task_model_write(path, &t, theta, t.clip_nano * 1024 + 1024, hash));
    CHECK_STATUS(clip_of(&t, path, &clip), SEFL_EPROTO);
    CHECK_OK(task_model_write(path, &t, theta, UINT64_MAX, hash));
    CHECK_STATUS(clip_of(&t, path, &clip), SEFL_EPROTO);

    /* and with a text that is none */
    static const char *const bad[] = { "1234567890x0707070707070707", "0000000000 0707070707070707",
                                       "-234567890 0707070707070707", "1234567890 07070707070707zz",
                                       "0234567890 0707070707070707" };
    CHECK_OK(task_model_write(path, &t, theta, 1234567890, hash));
    sefl_buf b = { 0 };
    CHECK_OK(file_read(&b, path, 1 << 20));
    uint8_t *at = memmem(b.p, b.n, "1234567890 07", 13);
    assert_non_null(at);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(at, bad[i], strlen(bad[i]));
        CHECK_OK(file_write_atomic(path, buf_span(&b), 0600));
        CHECK_STATUS(clip_of(&t, path, &clip), SEFL_EPROTO);
        CHECK_STATUS(clip_of(&fixed, path, &clip), SEFL_EPROTO);
    }
    buf_clear(&b);
    sefl_free(theta);
    layout_clear(&t.layout), layout_clear(&fixed.layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(clips) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
