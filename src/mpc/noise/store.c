#define _GNU_SOURCE
#include "mpc/noise/store.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/fault.h"
#include "base/sha256.h"
#include "base/span.h"
#include "crypto/prg/aes.h"
#include "crypto/secmem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The keys of a store on disk. */
typedef struct keys {
    uint8_t put[SHA256_BYTES], take[SHA256_BYTES];
} keys;

/* 1. key->put belongs to record `put`, key->take to record `take`; both only move forward.
 * 2. In memory slot[i] is not NULL for take <= i < put. On disk record i is at i * bytes, and
 *    digest[i] is the SHA-256 of its ciphertext. */
struct noise_store {
    size_t bytes, records, put, take;
    keys *key; /* locked memory */
    uint8_t (*digest)[SHA256_BYTES];
    uint8_t **slot;
    size_t *size; /* (records): of what was put */
    int fd;
    uint8_t *scratch;
};

static void next_key(uint8_t key[SHA256_BYTES])
{
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, span_of_str("sefl noise store next"));
    sha256_add(&h, span_of(key, SHA256_BYTES));
    sha256_end(&h, key);
}

/* out = in xor the key stream of the record's key. */
static void xor_stream(const uint8_t key[SHA256_BYTES], uint8_t *out, const uint8_t *in, size_t n)
{
    uint8_t digest[SHA256_BYTES], stream[4096];
    aes128 aes;
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, span_of_str("sefl noise store record"));
    sha256_add(&h, span_of(key, SHA256_BYTES));
    sha256_end(&h, digest);
    aes128_init(&aes, digest);
    for (size_t at = 0; at < n; at += sizeof stream) {
        size_t m = n - at < sizeof stream ? n - at : sizeof stream;
        aes128_ctr(&aes, stream, m, 0, at / AES_BLOCK);
        for (size_t i = 0; i < m; i++)
            out[at + i] = in[at + i] ^ stream[i];
    }
    aes128_clear(&aes);
    sefl_wipe(digest, sizeof digest);
    sefl_wipe(stream, sizeof stream);
}

static sefl_status nameless_file(int *out, const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/noise-XXXXXX", dir);
        if (n > 0 && (size_t)n < sizeof path && (fd = mkostemp(path, O_CLOEXEC)) >= 0)
            unlink(path);
    }
    if (fd < 0)
        return sefl_fail(SEFL_EIO, "%.200s: no file for the noise store: %s", dir, strerror(errno));
    *out = fd;
    return SEFL_OK;
}

sefl_status noise_store_new(noise_store **out, size_t bytes, size_t records, const char *dir,
                            const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    noise_store *s = NULL;
    *out = NULL;
    SEFL_TRY(sefl_new(&s, 1, sizeof *s));
    s->bytes = bytes, s->records = records, s->fd = -1;
    SEFL_TRY(sefl_new(&s->size, records, sizeof *s->size));
    if (dir) {
        SEFL_TRY(sefl_new(&s->scratch, bytes, 1));
        SEFL_TRY(nameless_file(&s->fd, dir));
        SEFL_TRY(sefl_new(&s->digest, records, sizeof *s->digest));
        SEFL_TRY(secmem_new(&s->key, sizeof *s->key, NULL));
        SEFL_TRY(rng_fill(rng, s->key->put, sizeof s->key->put));
        memcpy(s->key->take, s->key->put, sizeof s->key->take);
    } else {
        SEFL_TRY(sefl_new(&s->slot, records, sizeof *s->slot));
    }
    *out = s, s = NULL;
done:
    noise_store_free(s);
    return st;
}

sefl_status noise_store_put(noise_store *s, const void *record, size_t n)
{
    sefl_status st = SEFL_OK;
    SEFL_CHECK(s->put < s->records && n <= s->bytes, SEFL_ESTATE,
               "noise store: record %zu of %zu, %zu bytes of %zu", s->put, s->records, n, s->bytes);
    if (s->fd < 0) {
        SEFL_TRY(sefl_new(&s->slot[s->put], n, 1));
        memcpy(s->slot[s->put], record, n);
    } else {
        xor_stream(s->key->put, s->scratch, record, n);
        sha256_of(s->digest[s->put], span_of(s->scratch, n));
        for (size_t at = 0; at < n;) {
            ssize_t k = fault_hit(FAULT_WRITE) ? (errno = EIO, -1)
                                               : pwrite(s->fd, s->scratch + at, n - at,
                                                        (off_t)(s->put * s->bytes + at));
            SEFL_CHECK(k > 0 || (k < 0 && errno == EINTR), SEFL_EIO, "noise store: write: %s",
                       strerror(errno));
            at += k > 0 ? (size_t)k : 0;
        }
        next_key(s->key->put);
    }
    s->size[s->put++] = n;
done:
    return st;
}

sefl_status noise_store_take(noise_store *s, void *record, size_t n)
{
    sefl_status st = SEFL_OK;
    uint8_t digest[SHA256_BYTES];
    SEFL_CHECK(s->take < s->put && n == s->size[s->take], SEFL_ESTATE,
               "noise store: record %zu of %zu is not there", s->take, s->put);
    if (s->fd < 0) {
        memcpy(record, s->slot[s->take], n);
        sefl_free_secret(s->slot[s->take], n);
        s->slot[s->take] = NULL;
    } else {
        off_t from = (off_t)(s->take * s->bytes);
        for (size_t at = 0; at < n;) {
            ssize_t k = fault_hit(FAULT_READ)
                            ? (errno = EIO, -1)
                            : pread(s->fd, s->scratch + at, n - at, from + (off_t)at);
            SEFL_CHECK(k > 0 || (k < 0 && errno == EINTR), SEFL_EIO, "noise store: read: %s",
                       k == 0 ? "file too short" : strerror(errno));
            at += k > 0 ? (size_t)k : 0;
        }
        sha256_of(digest, span_of(s->scratch, n));
        SEFL_CHECK(memcmp(digest, s->digest[s->take], sizeof digest) == 0, SEFL_ECRYPTO,
                   "noise store: record %zu was changed on the disk", s->take);
        xor_stream(s->key->take, record, s->scratch, n);
        next_key(s->key->take);
        /* best effort: the key is gone in any case */
        (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, (off_t)n);
    }
    s->take++;
done:
    return st;
}

void noise_store_free(noise_store *s)
{
    if (!s)
        return;
    if (s->slot)
        for (size_t i = s->take; i < s->put; i++)
            sefl_free_secret(s->slot[i], s->size[i]);
    sefl_free(s->slot);
    sefl_free(s->size);
    sefl_free(s->digest);
    secmem_free(s->key);
    sefl_free(s->scratch);
    if (s->fd >= 0)
        close(s->fd);
    sefl_free_secret(s, sizeof *s);
}

int noise_store_peek(const noise_store *s, uint8_t put[SHA256_BYTES], uint8_t take[SHA256_BYTES])
{
    if (s->key) {
        memcpy(put, s->key->put, SHA256_BYTES);
        memcpy(take, s->key->take, SHA256_BYTES);
    }
    return s->fd;
}
