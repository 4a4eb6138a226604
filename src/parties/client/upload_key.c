#include "roles/client/upload_key.h"

#include "base/ct.h"
#include "base/file.h"
#include "base/random.h"
#include "base/sha256.h"

#include <string.h>

#define MAGIC "SEFLUPK2"

enum {
    MAGIC_BYTES = 8,
    CLIENT_AT = MAGIC_BYTES,
    SERIAL_AT = CLIENT_AT + 32,
    SEED_AT = SERIAL_AT + 8,
    BODY = SEED_AT + SIGN_SEED_BYTES,
    FILE_BYTES = BODY + SHA256_BYTES
};

static sefl_status write_key(const char *path, const uint8_t client[32], uint64_t serial,
                             const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t file[FILE_BYTES];
    memcpy(file, MAGIC, MAGIC_BYTES);
    memcpy(file + CLIENT_AT, client, 32);
    store_u64(file + SERIAL_AT, serial);
    SEFL_TRY(rng_fill(rng, file + SEED_AT, SIGN_SEED_BYTES));
    sha256_of(file + BODY, span_of(file, BODY));
    SEFL_TRY(file_write_atomic(path, span_of(file, FILE_BYTES), 0600));
done:
    sefl_wipe(file, sizeof file);
    return st;
}

static sefl_status read_key(uint8_t file[FILE_BYTES + 1], const char *path)
{
    uint8_t digest[SHA256_BYTES];
    /* never grows: no copy of the seed on the heap */
    sefl_buf b = { .p = file, .cap = FILE_BYTES + 1, .max = FILE_BYTES + 1 };
    sefl_status st = file_read(&b, path, FILE_BYTES);
    SEFL_PASS(st == SEFL_ERANGE ? SEFL_OK : st);
    SEFL_NEED(st == SEFL_OK && b.n == FILE_BYTES && memcmp(file, MAGIC, MAGIC_BYTES) == 0,
              SEFL_EPROTO, "%s is not an upload key; delete it, and the client creates a new one",
              path);
    sha256_of(digest, span_of(file, BODY));
    SEFL_NEED(
        memcmp(digest, file + BODY, SHA256_BYTES) == 0 && load_u64(file + SERIAL_AT) > 0,
        SEFL_EPROTO,
        "%s was changed: its hash does not match; delete it, and the client creates a new one",
        path);
    return SEFL_OK;
}

sefl_status upload_key_open(upload_key *out, const char *path, const uint8_t client[32],
                            uint64_t unix_ms, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t file[FILE_BYTES + 1] = { 0 };
    upload_key k = { 0 };

    *out = k;
    if (file_exists(path))
        SEFL_TRY(read_key(file, path));
    k.serial = load_u64(file + SERIAL_AT);
    if (k.serial == 0 || memcmp(file + CLIENT_AT, client, 32) != 0) {
        SEFL_TRY(write_key(path, client, unix_ms > k.serial ? unix_ms : k.serial + 1, rng));
        SEFL_TRY(read_key(file, path));
        k.made = true;
    }
    k.serial = load_u64(file + SERIAL_AT);
    SEFL_TRY(sign_key_from(&k.key, file + SEED_AT));
    *out = k;
done:
    sefl_wipe(file, sizeof file);
    return st;
}

void upload_key_clear(upload_key *k)
{
    sign_key_free(k->key);
    *k = (upload_key){ 0 };
}
