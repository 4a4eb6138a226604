#include "crypto/keyfile.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "crypto/secmem.h"

#include <sodium.h>
#include <string.h>

enum {
    LABEL = 1 + 2 + PAILLIER_FINGERPRINT_BYTES,
    LINE = 76,      /* base64 digits per line */
    RAW_MAX = 4096, /* paillier_pub_bytes of the largest key is 1538 */
    TRIALS = 4,
    ROOT_BITS = 8 * KEYFILE_ROOT_BYTES,
};
_Static_assert((int)LABEL <= (int)SEALED_LABEL_MAX, "the label fits");

static const char begin_line[] = "-----BEGIN SEFL PUBLIC KEY-----\n";
static const char end_line[] = "-----END SEFL PUBLIC KEY-----\n";

/* ---- public key: text around raw bytes ------------------------------------------------------- */

/* raw begins with u16 bits; its SHA-256 is the fingerprint (see paillier.h). */
static sefl_status armour(sefl_buf *out, sefl_span raw)
{
    char hex[2 * SHA256_BYTES + 1], base64[RAW_MAX * 4 / 3 + 8];
    uint8_t digest[SHA256_BYTES];

    sha256_of(digest, raw);
    hex_write(hex, digest, sizeof digest);
    sodium_bin2base64(base64, sizeof base64, raw.p, raw.n, sodium_base64_VARIANT_ORIGINAL);
    SEFL_PASS(wr_fmt(out, "%sversion: 1\nscheme: paillier\nbits: %u\nfingerprint: %s\n\n",
                     begin_line, (unsigned)(raw.p[0] | raw.p[1] << 8), hex));
    for (size_t i = 0, n = strlen(base64); i < n; i += LINE)
        SEFL_PASS(wr_fmt(out, "%.*s\n", LINE, base64 + i));
    return wr_raw(out, end_line, sizeof end_line - 1);
}

/* The raw bytes inside: *n of them in raw. */
static sefl_status unarmour(uint8_t raw[RAW_MAX], size_t *n, sefl_span file)
{
    static const char version[] = "version: ";
    sefl_status st = SEFL_OK;
    sefl_buf again = { 0 };
    rd r = rd_over(file);
    const char *stop = NULL;
    size_t body = 0;

    *n = 0;
    SEFL_TRY(rd_expect(&r, begin_line, sizeof begin_line - 1,
                       "a key of sefl ('sefl key new' generates one)"));
    SEFL_TRY(rd_expect(&r, version, sizeof version - 1, "a public key of sefl: no version"));
    SEFL_CHECK(rd_left(&r) >= 2 && r.p[0] == '1' && r.p[1] == '\n', SEFL_EUNSUPPORTED,
               "a public key of another version: this program reads version 1");
    while (body + 1 < r.left && !(r.p[body] == '\n' && r.p[body + 1] == '\n'))
        body++;
    SEFL_CHECK(body + 2 < r.left && r.left <= KEYFILE_BYTES_MAX, SEFL_EPROTO,
               "public key: the file is cut short");
    body += 2;
    /* decodes up to the first character that is not base64: the dashes of the last line */
    int rc = sodium_base642bin(raw, RAW_MAX, (const char *)r.p + body, r.left - body, "\n", n,
                               &stop, sodium_base64_VARIANT_ORIGINAL);
    SEFL_CHECK(rc == 0 && *n >= 2, SEFL_EPROTO, "public key: its text is not base64");
    SEFL_TRY(armour(&again, span_of(raw, *n)));
    SEFL_CHECK(again.n == file.n && memcmp(again.p, file.p, file.n) == 0, SEFL_EPROTO,
               "public key: the file was changed: the key does not match its fingerprint");
done:
    buf_clear(&again);
    return st;
}

sefl_status keyfile_pub_write(sefl_buf *out, const paillier_pub *pub)
{
    sefl_status st = SEFL_OK;
    sefl_buf raw = { .max = RAW_MAX };
    size_t before = out->n;
    SEFL_TRY(paillier_pub_write(pub, &raw));
    SEFL_TRY(armour(out, buf_span(&raw)));
done:
    if (st != SEFL_OK)
        out->n = before;
    buf_clear(&raw);
    return st;
}

sefl_status keyfile_pub_read(paillier_pub **out, sefl_span file)
{
    uint8_t raw[RAW_MAX];
    size_t n;
    *out = NULL;
    SEFL_PASS(unarmour(raw, &n, file));
    return paillier_pub_read(out, span_of(raw, n));
}

/* ---- label of a secret ----------------------------------------------------------------------- */

/* Reads the label and checks the length of the body. */
static sefl_status read_label(keyfile_info *out, const sealed_info *info)
{
    rd r = rd_over(info->label);
    uint8_t kind;
    uint16_t bits;
    SEFL_PASS(rd_u8(&r, &kind));
    SEFL_NEED(kind == KEYFILE_PAILLIER || kind == KEYFILE_ROOT, SEFL_EPROTO,
              "secret key: unknown kind %u", kind);
    SEFL_PASS(rd_u16(&r, &bits));
    SEFL_NEED(kind == KEYFILE_ROOT ? bits == ROOT_BITS : paillier_bits_ok(bits), SEFL_EPROTO,
              "secret key: %u bits is not an allowed size", bits);
    SEFL_PASS(rd_raw(&r, out->fingerprint, sizeof out->fingerprint));
    SEFL_PASS(rd_end(&r));
    SEFL_NEED(info->bytes == (kind == KEYFILE_ROOT ? KEYFILE_ROOT_BYTES : paillier_sec_bytes(bits)),
              SEFL_EPROTO, "secret key: %zu bytes is the wrong length for a key of %u bits",
              info->bytes, bits);
    out->kind = (keyfile_kind)kind;
    out->secret = true;
    out->bits = bits;
    out->by = info->by;
    out->cost = info->cost;
    return SEFL_OK;
}

/* Reads the label of a secret's file, which must be of this kind. */
static sefl_status peek(sealed_info *info, keyfile_info *words, keyfile_kind want, sefl_span file)
{
    SEFL_PASS(sealed_peek(info, file));
    SEFL_PASS(read_label(words, info));
    SEFL_NEED(words->kind == want, SEFL_EINVAL, "%s",
              want == KEYFILE_ROOT
                  ? "this is a Paillier key; sealed updates need a root ('sefl key new')"
                  : "this is a root; a Paillier task needs its key pair ('sefl key new --scheme "
                    "paillier')");
    return SEFL_OK;
}

/* ---- root ------------------------------------------------------------------------------------ */

static void root_fingerprint(uint8_t out[SHA256_BYTES], const uint8_t root[KEYFILE_ROOT_BYTES])
{
    sha256_join(out, span_of_str("sefl root 1"), span_of(root, KEYFILE_ROOT_BYTES));
    CT_PUBLIC(out, SHA256_BYTES); /* in the label */
}

sefl_status keyfile_root_write(sefl_buf *out, const uint8_t root[KEYFILE_ROOT_BYTES],
                               const sealed_lock *lock, const sealed_cost *cost,
                               const sefl_rng *rng)
{
    uint8_t label[LABEL] = { KEYFILE_ROOT, (uint8_t)ROOT_BITS, ROOT_BITS >> 8 };
    root_fingerprint(label + 3, root);
    return sealed_write(out, span_of(label, LABEL), span_of(root, KEYFILE_ROOT_BYTES), lock, cost,
                        rng);
}

sefl_status keyfile_root_read(uint8_t root[KEYFILE_ROOT_BYTES], sefl_span file,
                              const sealed_lock *lock)
{
    sefl_status st = SEFL_OK;
    sealed_info info;
    keyfile_info words = { 0 };
    uint8_t fingerprint[SHA256_BYTES];

    SEFL_TRY(peek(&info, &words, KEYFILE_ROOT, file));
    SEFL_TRY(sealed_open(root, &info, lock));
    root_fingerprint(fingerprint, root);
    SEFL_CHECK(memcmp(fingerprint, words.fingerprint, sizeof fingerprint) == 0, SEFL_EPROTO,
               "root: the label does not match the root inside");
done:
    if (st != SEFL_OK)
        sefl_wipe(root, KEYFILE_ROOT_BYTES);
    return st;
}

/* ---- secret key ------------------------------------------------------------------------------ */

sefl_status keyfile_sec_write(sefl_buf *out, const paillier_sec *sec, const sealed_lock *lock,
                              const sealed_cost *cost, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    const paillier_pub *pub = paillier_sec_pub(sec);
    unsigned bits = paillier_bits(pub);
    size_t n = paillier_sec_bytes(bits);
    uint8_t label[LABEL] = { KEYFILE_PAILLIER, (uint8_t)bits, (uint8_t)(bits >> 8) }, *mem = NULL;

    paillier_pub_fingerprint(pub, label + 3);
    SEFL_TRY(secmem_new(&mem, n, NULL));
    /* a buffer over locked memory that never grows, so no copy stays on the heap */
    sefl_buf raw = { .p = mem, .cap = n, .max = n };
    SEFL_TRY(paillier_sec_write(sec, &raw));
    SEFL_TRY(sealed_write(out, span_of(label, LABEL), buf_span(&raw), lock, cost, rng));
done:
    secmem_free(mem);
    return st;
}

sefl_status keyfile_sec_read(paillier_sec **out, sefl_span file, const sealed_lock *lock,
                             bool *locked)
{
    sefl_status st = SEFL_OK;
    sealed_info info;
    keyfile_info words = { 0 };
    paillier_sec *sec = NULL;
    uint8_t *mem = NULL, fingerprint[PAILLIER_FINGERPRINT_BYTES];
    bool kept = true;

    *out = NULL;
    SEFL_TRY(peek(&info, &words, KEYFILE_PAILLIER, file));
    SEFL_TRY(secmem_new(&mem, info.bytes, &kept));
    SEFL_TRY(sealed_open(mem, &info, lock));
    CT_PUBLIC(mem, 2); /* the size, which the label states too */
    SEFL_TRY(paillier_sec_read(&sec, span_of(mem, info.bytes)));
    paillier_pub_fingerprint(paillier_sec_pub(sec), fingerprint);
    SEFL_CHECK(memcmp(fingerprint, words.fingerprint, sizeof fingerprint) == 0 &&
                   paillier_bits(paillier_sec_pub(sec)) == words.bits,
               SEFL_EPROTO, "secret key: the label does not match the key inside");
    sefl_span block = paillier_sec_memory(sec);
    SEFL_TRY(secmem_lock(block.p, block.n, &kept));
    if (locked)
        *locked = kept;
    *out = sec, sec = NULL;
done:
    paillier_sec_free(sec);
    secmem_free(mem);
    return st;
}

sefl_status keyfile_info_read(keyfile_info *out, sefl_span file)
{
    keyfile_info tmp = { 0 };
    sealed_info info;
    uint8_t raw[RAW_MAX];
    size_t n;

    *out = tmp;
    if (file.n >= 8 && memcmp(file.p, "SEFLSEAL", 8) == 0) {
        SEFL_PASS(sealed_peek(&info, file));
        SEFL_PASS(read_label(&tmp, &info));
    } else {
        SEFL_NEED(file.n >= 8 && memcmp(file.p, begin_line, 8) == 0, SEFL_EPROTO,
                  "this is neither a public nor a secret key of sefl");
        SEFL_PASS(unarmour(raw, &n, file));
        tmp.kind = KEYFILE_PAILLIER;
        tmp.bits = (unsigned)(raw[0] | raw[1] << 8);
        SEFL_NEED(paillier_bits_ok(tmp.bits) && n == paillier_pub_bytes(tmp.bits), SEFL_EPROTO,
                  "public key: %zu bytes is the wrong length for a key of %u bits", n, tmp.bits);
        sha256_of(tmp.fingerprint, span_of(raw, n));
    }
    *out = tmp;
    return SEFL_OK;
}

/* ---- trial ----------------------------------------------------------------------------------- */

sefl_status keyfile_check(const paillier_sec *sec, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    const paillier_pub *pub = paillier_sec_pub(sec);
    size_t m = paillier_plain_bytes(pub), c = paillier_cipher_bytes(pub);
    uint8_t *plain = NULL, *got = NULL, *cipher = NULL, seed[PAILLIER_SEED_BYTES];
    paillier_enc *enc = NULL;

    SEFL_TRY(sefl_new(&plain, TRIALS, m));
    SEFL_TRY(sefl_new(&got, TRIALS, m));
    SEFL_TRY(sefl_new(&cipher, TRIALS, c));
    /* 0, N - 1, and two random numbers below N (one byte short of it) */
    plain[m] = 1;
    paillier_negate(pub, plain + m);
    SEFL_TRY(rng_fill(rng, plain + 2 * m, m - 1));
    SEFL_TRY(rng_fill(rng, plain + 3 * m, m - 1));
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    SEFL_TRY(paillier_enc_new(&enc, pub, TRIALS, NULL, NULL));
    SEFL_TRY(paillier_encrypt_vartime(enc, cipher, plain, TRIALS, seed, 0, NULL, NULL));
    SEFL_TRY(paillier_decrypt(sec, got, cipher, TRIALS, NULL, NULL));
    SEFL_CHECK(memcmp(plain, got, TRIALS * m) == 0, SEFL_ECRYPTO,
               "the key pair does not decrypt what it encrypted");
    memset(got, 0, TRIALS * m);
    SEFL_TRY(paillier_decrypt_without_crt(sec, got, cipher, TRIALS, NULL, NULL));
    SEFL_CHECK(memcmp(plain, got, TRIALS * m) == 0, SEFL_ECRYPTO,
               "the key pair decrypts differently without the Chinese remainder theorem");
done:
    paillier_enc_free(enc);
    sefl_free(plain);
    sefl_free(got);
    sefl_free(cipher);
    sefl_wipe(seed, sizeof seed);
    return st;
}
