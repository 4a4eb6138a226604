#include "store/journal/roundkey.h"

#include "base/ct.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAGIC = 8,
    RANDOM = 19,
    NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
    TAG = crypto_aead_xchacha20poly1305_ietf_ABYTES,
};
_Static_assert(RANDOM + 4 + 1 == NONCE && TAG == 16, "sizes of the format");
_Static_assert((int)ROUNDKEY_BYTES == (int)crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "key size");

static const char magic[MAGIC] = { 'S', 'E', 'F', 'L', 'R', 'N', 'D', '1' };
static const uint8_t zeros[ROUNDKEY_BYTES];

/* ---- the key ------------------------------------------------------------------------------- */

bool roundkey_is_zero(const uint8_t key[ROUNDKEY_BYTES])
{
    return ct_eq_bytes(key, zeros, ROUNDKEY_BYTES);
}

static sefl_status key_path(char out[PATH_MAX], const char *folder)
{
    return file_path(out, "%s/key", folder);
}

sefl_status roundkey_read(uint8_t key[ROUNDKEY_BYTES], const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(file_read(&b, path, ROUNDKEY_BYTES));
    SEFL_CHECK(b.n == ROUNDKEY_BYTES && !roundkey_is_zero(b.p), SEFL_ECRYPTO, "%s was overwritten",
               path);
    memcpy(key, b.p, ROUNDKEY_BYTES);
done:
    if (st == SEFL_ERANGE)
        st = sefl_fail(SEFL_ECRYPTO, "%s is not a key", path);
    buf_clear(&b);
    return st;
}

sefl_status roundkey_get(uint8_t key[ROUNDKEY_BYTES], const char *folder)
{
    char path[PATH_MAX];
    SEFL_PASS(key_path(path, folder));
    return roundkey_read(key, path);
}

sefl_status roundkey_make(uint8_t key[ROUNDKEY_BYTES], const char *folder, const sefl_rng *rng)
{
    char path[PATH_MAX];
    sefl_status st = roundkey_get(key, folder);
    if (st != SEFL_ENOTFOUND)
        return st;
    SEFL_TRY(key_path(path, folder));
    SEFL_TRY(rng_fill(rng, key, ROUNDKEY_BYTES));
    SEFL_TRY(file_write_new(path, span_of(key, ROUNDKEY_BYTES), 0600));
done:
    if (st != SEFL_OK)
        sefl_wipe(key, ROUNDKEY_BYTES);
    return st;
}

sefl_status roundkey_overwrite(int dir, const char *name)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    int fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s to overwrite it: %s", name, strerror(errno));
    SEFL_CHECK(fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode), SEFL_EIO, "%s is not a file", name);
    if (sb.st_size > 0)
        SEFL_TRY(file_write_all(fd, span_of(zeros, sizeof zeros)));
    SEFL_TRY(file_sync(fd, name));
done:
    if (fd >= 0)
        close(fd);
    return st;
}

sefl_status roundkey_wipe(const char *folder)
{
    sefl_status st = SEFL_OK;
    DIR *d = opendir(folder);
    if (!d)
        return errno == ENOENT
                   ? SEFL_OK
                   : sefl_fail(SEFL_EIO, "cannot read folder %s: %s", folder, strerror(errno));
    /* "key", and "key.tmp-PID" of a process that died while it made one */
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, "key") == 0 || strncmp(e->d_name, "key.tmp-", 8) == 0)
            SEFL_TRY(roundkey_overwrite(dirfd(d), e->d_name));
done:
    closedir(d);
    return st;
}

sefl_status roundkey_is_wiped(bool *out, const char *folder)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    *out = false;
    SEFL_TRY(key_path(path, folder));
    if (!file_exists(path))
        goto done;
    SEFL_TRY(file_read(&b, path, ROUNDKEY_BYTES));
    *out = b.n == ROUNDKEY_BYTES && roundkey_is_zero(b.p);
done:
    buf_clear(&b);
    return st;
}

/* ---- sealed files -------------------------------------------------------------------------- */

static sefl_status associated(sefl_buf *ad, const roundkey_place *at)
{
    sefl_span name = span_of_str(at->name);
    SEFL_PASS(wr_raw(ad, "sefl round file 1", 17));
    SEFL_PASS(wr_raw(ad, at->task, 32));
    SEFL_PASS(wr_u64(ad, at->round));
    return wr_raw(ad, name.p, name.n);
}

static void nonce_of(uint8_t nonce[NONCE], const uint8_t random[RANDOM], size_t piece, bool last)
{
    memcpy(nonce, random, RANDOM);
    store_u32(nonce + RANDOM, (uint32_t)piece);
    nonce[RANDOM + 4] = last;
}

static size_t pieces_of(size_t bytes)
{
    return bytes == 0 ? 1 : (bytes - 1) / ROUNDKEY_PIECE + 1;
}

sefl_status roundkey_seal(sefl_buf *out, const uint8_t key[ROUNDKEY_BYTES],
                          const roundkey_place *at, sefl_span bytes, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n, pieces = pieces_of(bytes.n);
    uint8_t random[RANDOM], nonce[NONCE], *p;
    sefl_buf ad = { 0 };
    SEFL_CHECK(pieces <= UINT32_MAX, SEFL_ERANGE, "%zu bytes are too many for one file", bytes.n);
    SEFL_CHECK(sodium_init() >= 0, SEFL_ECRYPTO, "libsodium does not work on this machine");
    SEFL_TRY(associated(&ad, at));
    SEFL_TRY(rng_fill(rng, random, sizeof random));
    SEFL_TRY(buf_reserve(out, MAGIC + RANDOM + bytes.n + pieces * TAG));
    SEFL_TRY(wr_raw(out, magic, MAGIC));
    SEFL_TRY(wr_raw(out, random, RANDOM));
    for (size_t i = 0; i < pieces; i++) {
        size_t from = i * ROUNDKEY_PIECE, left = bytes.n - from;
        size_t n = left < ROUNDKEY_PIECE ? left : ROUNDKEY_PIECE;
        SEFL_TRY(buf_extend(out, &p, n + TAG));
        nonce_of(nonce, random, i, i + 1 == pieces);
        crypto_aead_xchacha20poly1305_ietf_encrypt(p, NULL, n ? bytes.p + from : NULL, n, ad.p,
                                                   ad.n, NULL, nonce, key);
    }
done:
    if (st != SEFL_OK)
        out->n = before;
    buf_clear(&ad);
    return st;
}

sefl_status roundkey_open(sefl_buf *out, const uint8_t key[ROUNDKEY_BYTES],
                          const roundkey_place *at, sefl_span sealed)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n;
    uint8_t nonce[NONCE], *p;
    sefl_buf ad = { 0 };
    SEFL_CHECK(sealed.n >= MAGIC + RANDOM + TAG && memcmp(sealed.p, magic, MAGIC) == 0,
               SEFL_ECRYPTO, "%s is not a sealed file", at->name);
    SEFL_CHECK(sodium_init() >= 0, SEFL_ECRYPTO, "libsodium does not work on this machine");
    SEFL_TRY(associated(&ad, at));
    const uint8_t *random = sealed.p + MAGIC;
    rd r = rd_over(span_of(sealed.p + MAGIC + RANDOM, sealed.n - MAGIC - RANDOM));
    SEFL_TRY(buf_reserve(out, rd_left(&r)));
    for (size_t i = 0; rd_left(&r) > 0; i++) {
        sefl_span piece;
        size_t n = rd_left(&r) < ROUNDKEY_PIECE + TAG ? rd_left(&r) : ROUNDKEY_PIECE + TAG;
        SEFL_TRY(rd_view(&r, &piece, n));
        nonce_of(nonce, random, i, rd_left(&r) == 0);
        SEFL_TRY(buf_extend(out, &p, n < TAG ? 0 : n - TAG));
        SEFL_CHECK(n >= TAG && i <= UINT32_MAX &&
                       crypto_aead_xchacha20poly1305_ietf_decrypt(p, NULL, NULL, piece.p, n, ad.p,
                                                                  ad.n, nonce, key) == 0,
                   SEFL_ECRYPTO, "%s of round %llu was changed, or belongs elsewhere", at->name,
                   (unsigned long long)at->round);
    }
done:
    if (st != SEFL_OK && out->n > before) {
        sefl_wipe(out->p + before, out->n - before);
        out->n = before;
    }
    buf_clear(&ad);
    return st;
}
