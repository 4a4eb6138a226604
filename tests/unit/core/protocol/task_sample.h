/* A small task for tests: 2048-bit key from a file of the fuzz corpus, signing keys from a seed.
 *
 *     sample_begin();
 *     CHECK_OK(sample_document(&doc, "privacy.noise=own", "rounds.count=5", NULL));
 *     CHECK_OK(sample_task(&t, NULL));                     // task_clear
 *     sample_end(); */
#ifndef TESTS_TASK_SAMPLE_H
#define TESTS_TASK_SAMPLE_H

#include "crypto/ahe/paillier.h"
#include "protocol/task_make.h"
#include "support/check.h"

#include "base/file.h"
#include "protocol/task.h"

#include <string.h>

static sign_key *sample_as, *sample_csp;
static pinned sample_servers;
static ahe_pub *sample_pub;

static inline void sample_begin(void)
{
    static seeded gen;
    sefl_buf b = { 0 };
    seeded_init(&gen, 1, "sample task");
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(sign_key_new(&sample_as, &rng));
    CHECK_OK(sign_key_new(&sample_csp, &rng));
    memcpy(sample_servers.as, sign_key_pub(sample_as), SIGN_PUB_BYTES);
    memcpy(sample_servers.csp, sign_key_pub(sample_csp), SIGN_PUB_BYTES);
    /* the file has a byte in front that tells its harness which reader to try */
    CHECK_OK(file_read(&b, SEFL_SOURCE_DIR "/tests/fuzz/corpus/crypto.paillier_key/pub2048", 4096));
    CHECK_OK(paillier_pub_read(&sample_pub, span_of(b.p + 1, b.n - 1)));
    buf_clear(&b);
}

static inline void sample_end(void)
{
    sign_key_free(sample_as);
    sign_key_free(sample_csp);
    paillier_pub_free(sample_pub);
}

/* Assignments end with NULL. Appends to doc. */
static inline sefl_status sample_document_v(sefl_buf *doc, va_list ap)
{
    static const char *const base[] = {
        "name=sample",
        "population=testers",
        "model.vocab=50",
        "model.embed=8",
        "model.hidden=8",
        "model.layers=1",
        "model.block=4",
        "vocab.sha256=0000000000000000000000000000000000000000000000000000000000000001",
        "init.sha256=00000000000000000000000000000000000000000000000000000000000000ff",
        "valid.sha256=000000000000000000000000000000000000000000000000000000000000000e",
        "rounds.enrolled=8",
        "rounds.threshold=3",
        "rounds.count=5",
    };
    sefl_status st = SEFL_OK;
    settings s;
    settings_init(&s, task_schema);
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
        SEFL_TRY(settings_set(&s, base[i], "sample"));
    for (const char *a = va_arg(ap, const char *); a; a = va_arg(ap, const char *))
        SEFL_TRY(settings_set(&s, a, "sample"));
    SEFL_TRY(task_make(doc, &s, sample_pub, &sample_servers));
done:
    settings_clear(&s);
    return st;
}

static inline sefl_status sample_document(sefl_buf *doc, ...)
{
    va_list ap;
    va_start(ap, doc);
    sefl_status st = sample_document_v(doc, ap);
    va_end(ap);
    return st;
}

static inline sefl_status sample_task(task *t, ...)
{
    sefl_buf doc = { 0 };
    va_list ap;
    va_start(ap, t);
    sefl_status st = sample_document_v(&doc, ap);
    va_end(ap);
    *t = (task){ 0 };
    if (st == SEFL_OK)
        st = task_read(t, buf_span(&doc));
    buf_clear(&doc);
    return st;
}

#endif
