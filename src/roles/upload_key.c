#include "roles/upload_key.h"

#include "base/ct.h"
#include "base/file.h"
#include "base/sha256.h"

#include <string.h>

#define MAGIC "SEFLUPK1"

enum {
    MAGIC_BYTES = 8,
    BODY = MAGIC_BYTES + 8 + SIGN_SEED_BYTES,
    FILE_BYTES = BODY + SHA256_BYTES
};

static sefl_status write_new(const char *path, uint64_t serial, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t file[FILE_BYTES];
    memcpy(file, MAGIC, MAGIC_BYTES);
    store_u64(file + MAGIC_BYTES, serial);
    SEFL_TRY(rng_fill(rng, file + MAGIC_BYTES + 8, SIGN_SEED_BYTES));
    sha256_of(file + BODY, span_of(file, BODY));
    SEFL_TRY(file_write_new(path, span_of(file, FILE_BYTES), 0600));
done:
    sefl_wipe(file, sizeof file);
    return st;
}

sefl_status upload_key_open(upload_key *out, const char *path, uint64_t unix_ms,
                            const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t file[FILE_BYTES + 1], digest[SHA256_BYTES];
    upload_key k = { 0 };
    /* never grows: no copy of the seed on the heap */
    sefl_buf b = { .p = file, .cap = sizeof file, .max = sizeof file };

    *out = k;
    if (!file_exists(path))
        SEFL_TRY(write_new(path, unix_ms > 0 ? unix_ms : 1, rng));
    SEFL_TRY(file_read(&b, path, FILE_BYTES));
    SEFL_CHECK(b.n == FILE_BYTES && memcmp(file, MAGIC, MAGIC_BYTES) == 0, SEFL_EPROTO,
               "%s is no upload key; delete it, and the client makes a new one", path);
    sha256_of(digest, span_of(file, BODY));
    k.serial = load_u64(file + MAGIC_BYTES);
    SEFL_CHECK(memcmp(digest, file + BODY, SHA256_BYTES) == 0 && k.serial > 0, SEFL_EPROTO,
               "%s was changed: its hash does not match; delete it, and the client makes a new one",
               path);
    SEFL_TRY(sign_key_from(&k.key, file + MAGIC_BYTES + 8));
    *out = k;
done:
    if (st == SEFL_ERANGE)
        st = sefl_fail(SEFL_EPROTO,
                       "%s is no upload key; delete it, and the client makes a new one", path);
    sefl_wipe(file, sizeof file);
    return st;
}

void upload_key_clear(upload_key *k)
{
    sign_key_free(k->key);
    *k = (upload_key){ 0 };
}
