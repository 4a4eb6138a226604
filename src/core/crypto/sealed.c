#include "crypto/sealed.h"

#include "base/ct.h"
#include "base/fault.h"
#include "crypto/secmem.h"

#include <sodium.h>

enum {
    VERSION = 1,
    KDF_ARGON2ID13 = 1,
    SALT = crypto_pwhash_SALTBYTES,
    NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
    KEY = crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
    TAG = crypto_aead_xchacha20poly1305_ietf_ABYTES,
};
_Static_assert(SALT == 16 && NONCE == 24 && KEY == 32 && TAG == (int)SEALED_TAG_BYTES,
               "sizes of the format");

static const char magic[8] = { 'S', 'E', 'F', 'L', 'S', 'E', 'A', 'L' };

const sealed_cost sealed_cost_default = { .passes = 3, .kib = 256 * 1024 };

static const char *lock_name(sealed_by by)
{
    return by == SEALED_BY_PASSPHRASE ? "passphrase" : "key file";
}

static bool cost_ok(const sealed_cost *c)
{
    return c->passes >= 1 && c->passes <= SEALED_PASSES_MAX && c->kib >= SEALED_KIB_MIN &&
           c->kib <= SEALED_KIB_MAX;
}

static sefl_status check_lock(const sealed_lock *lock)
{
    SEFL_NEED(lock->by == SEALED_BY_PASSPHRASE || lock->by == SEALED_BY_KEY_FILE, SEFL_EINVAL,
              "the lock is neither a passphrase nor a key file");
    SEFL_NEED(lock->secret.n >= 1 && lock->secret.n <= SEALED_LOCK_MAX, SEFL_EINVAL,
              "the %s has %zu bytes: must be 1 to %d", lock_name(lock->by), lock->secret.n,
              SEALED_LOCK_MAX);
    return SEFL_OK;
}

static sefl_status derive(uint8_t key[KEY], sefl_span salt, const sealed_cost *cost,
                          const sealed_lock *lock)
{
    int rc = -1;
    SEFL_NEED(sodium_init() >= 0, SEFL_ECRYPTO, "libsodium failed to start on this machine");
    /* Argon2id's second half is data-dependent by design: it is left out of the constant-time
     * check, and what goes in and comes out is secret again around it. */
    CT_PUBLIC(lock->secret.p, lock->secret.n);
    if (!fault_hit(FAULT_ALLOC))
        rc = crypto_pwhash(key, KEY, (const char *)lock->secret.p, lock->secret.n, salt.p,
                           cost->passes, (size_t)cost->kib * 1024, crypto_pwhash_ALG_ARGON2ID13);
    CT_SECRET(lock->secret.p, lock->secret.n);
    CT_SECRET(key, KEY);
    SEFL_NEED(rc == 0, SEFL_ENOMEM, "out of memory: the key derivation needs %u MiB",
              cost->kib / 1024);
    return SEFL_OK;
}

sefl_status sealed_write(sefl_buf *out, sefl_span label, sefl_span secret, const sealed_lock *lock,
                         const sealed_cost *cost, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    size_t before = out->n;
    uint8_t salt[SALT], nonce[NONCE], *key = NULL, *body;

    if (!cost)
        cost = &sealed_cost_default;
    SEFL_TRY(check_lock(lock));
    SEFL_CHECK(cost_ok(cost), SEFL_EINVAL,
               "key derivation with %u passes over %u KiB: must be 1 to %d over %d to %d KiB",
               cost->passes, cost->kib, SEALED_PASSES_MAX, SEALED_KIB_MIN, SEALED_KIB_MAX);
    SEFL_CHECK(label.n <= SEALED_LABEL_MAX && secret.n <= SEALED_BYTES_MAX, SEFL_EINVAL,
               "sealing %zu bytes with a label of %zu: at most %d and %d", secret.n, label.n,
               SEALED_BYTES_MAX, SEALED_LABEL_MAX);
    SEFL_TRY(secmem_new(&key, KEY, NULL));
    SEFL_TRY(rng_fill(rng, salt, sizeof salt));
    SEFL_TRY(rng_fill(rng, nonce, sizeof nonce));
    SEFL_TRY(derive(key, span_of(salt, SALT), cost, lock));

    SEFL_TRY(wr_raw(out, magic, sizeof magic));
    SEFL_TRY(wr_u16(out, VERSION));
    SEFL_TRY(wr_u8(out, (uint8_t)lock->by));
    SEFL_TRY(wr_u8(out, KDF_ARGON2ID13));
    SEFL_TRY(wr_u32(out, cost->passes));
    SEFL_TRY(wr_u32(out, cost->kib));
    SEFL_TRY(wr_raw(out, salt, SALT));
    SEFL_TRY(wr_raw(out, nonce, NONCE));
    SEFL_TRY(wr_u8(out, (uint8_t)label.n));
    SEFL_TRY(wr_raw(out, label.p, label.n));
    SEFL_TRY(wr_u32(out, (uint32_t)(secret.n + TAG)));
    size_t header = out->n - before;
    SEFL_TRY(buf_extend(out, &body, secret.n + TAG));
    crypto_aead_xchacha20poly1305_ietf_encrypt(body, NULL, secret.p, secret.n, out->p + before,
                                               header, NULL, nonce, key);
    CT_PUBLIC(body, secret.n + TAG); /* the ciphertext is public */
done:
    secmem_free(key);
    if (st != SEFL_OK)
        out->n = before;
    return st;
}

sefl_status sealed_peek(sealed_info *info, sefl_span file)
{
    sealed_info tmp = { 0 };
    rd r = rd_over(file);
    uint16_t version;
    uint8_t by, kdf, label;
    uint32_t body;

    *info = (sealed_info){ 0 };
    SEFL_PASS(rd_expect(&r, magic, sizeof magic, "a sealed file"));
    SEFL_PASS(rd_u16(&r, &version));
    SEFL_NEED(version == VERSION, SEFL_EUNSUPPORTED,
              "sealed file of version %u: this program reads version %d", version, VERSION);
    SEFL_PASS(rd_u8(&r, &by));
    SEFL_PASS(rd_u8(&r, &kdf));
    SEFL_NEED(by == SEALED_BY_PASSPHRASE || by == SEALED_BY_KEY_FILE, SEFL_EPROTO,
              "sealed file: unknown kind of lock %u", by);
    SEFL_NEED(kdf == KDF_ARGON2ID13, SEFL_EPROTO, "sealed file: unknown key derivation %u", kdf);
    tmp.by = (sealed_by)by;
    SEFL_PASS(rd_u32(&r, &tmp.cost.passes));
    SEFL_PASS(rd_u32(&r, &tmp.cost.kib));
    SEFL_NEED(cost_ok(&tmp.cost), SEFL_EPROTO,
              "sealed file: key derivation with %u passes over %u KiB: must be 1 to %d over %d to "
              "%d KiB are accepted",
              tmp.cost.passes, tmp.cost.kib, SEALED_PASSES_MAX, SEALED_KIB_MIN, SEALED_KIB_MAX);
    SEFL_PASS(rd_view(&r, &tmp.salt, SALT));
    SEFL_PASS(rd_view(&r, &tmp.nonce, NONCE));
    SEFL_PASS(rd_u8(&r, &label));
    SEFL_NEED(label <= SEALED_LABEL_MAX, SEFL_EPROTO, "sealed file: a label has %u bytes", label);
    SEFL_PASS(rd_view(&r, &tmp.label, label));
    SEFL_PASS(rd_u32(&r, &body));
    SEFL_NEED(body >= TAG && body <= SEALED_BYTES_MAX + TAG, SEFL_EPROTO,
              "sealed file: a body of %u bytes: must be %d to %d", body, TAG,
              SEALED_BYTES_MAX + TAG);
    tmp.header = span_of(file.p, file.n - rd_left(&r));
    SEFL_PASS(rd_view(&r, &tmp.body, body));
    SEFL_PASS(rd_end(&r));
    tmp.bytes = body - TAG;
    *info = tmp;
    return SEFL_OK;
}

sefl_status sealed_open_derived(uint8_t *out, const sealed_info *info, const uint8_t key[32])
{
    /* libsodium branches on the tag comparison, which is public: it is our result. The
     * cipher and the authenticator themselves are checked with a secret key in sealed_write. */
    CT_PUBLIC(key, KEY);
    int rc = crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, info->body.p, info->body.n,
                                                        info->header.p, info->header.n,
                                                        info->nonce.p, key);
    CT_SECRET(key, KEY);
    if (rc != 0) {
        sefl_wipe(out, info->bytes);
        return sefl_fail(SEFL_EAUTH, "the file does not open: wrong %s, or the file was changed",
                         lock_name(info->by));
    }
    CT_SECRET(out, info->bytes);
    return SEFL_OK;
}

sefl_status sealed_open(uint8_t *out, const sealed_info *info, const sealed_lock *lock)
{
    sefl_status st = SEFL_OK;
    uint8_t *key = NULL;
    sefl_wipe(out, info->bytes);
    SEFL_TRY(check_lock(lock));
    SEFL_CHECK(lock->by == info->by, SEFL_EINVAL, "the file is locked with a %s, not with a %s",
               lock_name(info->by), lock_name(lock->by));
    SEFL_TRY(secmem_new(&key, KEY, NULL));
    SEFL_TRY(derive(key, info->salt, &info->cost, lock));
    SEFL_TRY(sealed_open_derived(out, info, key));
done:
    secmem_free(key);
    return st;
}
