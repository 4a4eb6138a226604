#include "store/disk/upload_keys.h"

#include "base/hex.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COUNT_AT = 8 + SIGN_PUB_BYTES, FACT = COUNT_AT + 4, NAME = 80 };

static void name_of(char out[NAME], const char *what, const uint8_t key[32])
{
    char hex[HEX_CHARS(32)];
    snprintf(out, NAME, "%s %s", what, hex_write(hex, key, 32));
}

/* SEFL_ENOTFOUND; SEFL_EPROTO if it has another length. */
static sefl_status upload_keys_get(journal *j, const char *what, const uint8_t key[32], void *out,
                                   size_t n)
{
    sefl_status st = SEFL_OK;
    char name[NAME];
    sefl_buf b = { 0 };
    name_of(name, what, key);
    SEFL_TRY(journal_lasting_get(j, name, &b));
    SEFL_CHECK(b.n == n, SEFL_EPROTO, "journal: \"%s\" has %zu bytes, not %zu", name, b.n, n);
    memcpy(out, b.p, n);
done:
    buf_clear(&b);
    return st;
}

static sefl_status upload_keys_put(journal *j, const char *what, const uint8_t key[32],
                                   sefl_span value)
{
    char name[NAME];
    name_of(name, what, key);
    return journal_lasting_put(j, name, value);
}

sefl_status upload_key_get(journal *j, const uint8_t client[32], uint64_t *serial,
                           uint8_t key[SIGN_PUB_BYTES])
{
    uint8_t fact[FACT];
    SEFL_PASS(upload_keys_get(j, "voucher", client, fact, sizeof fact));
    SEFL_NEED(load_u64(fact) > 0, SEFL_ENOTFOUND, "the voucher of this client was forgotten");
    *serial = load_u64(fact);
    memcpy(key, fact + 8, SIGN_PUB_BYTES);
    return SEFL_OK;
}

/* Sets *again if this is the client's latest voucher; else `fact` to what must be written. */
static sefl_status check(journal *j, const uint8_t client[32], uint64_t serial,
                         const uint8_t key[SIGN_PUB_BYTES], bool *again, uint8_t fact[FACT])
{
    uint8_t owner[32];
    memset(fact, 0, FACT);
    sefl_status st = upload_keys_get(j, "voucher", client, fact, FACT);
    if (st != SEFL_ENOTFOUND)
        SEFL_PASS(st);
    uint64_t before = load_u64(fact);
    uint32_t keys = load_u32(fact + COUNT_AT);
    *again = before == serial && memcmp(fact + 8, key, SIGN_PUB_BYTES) == 0;
    if (*again)
        return SEFL_OK;
    SEFL_NEED(serial > before, SEFL_ESTATE,
              "voucher: serial %" PRIu64 " is not above this client's last one (%" PRIu64 ")",
              serial, before);
    st = upload_keys_get(j, "upload", key, owner, sizeof owner);
    SEFL_NEED(st != SEFL_OK || memcmp(owner, client, sizeof owner) == 0, SEFL_ESTATE,
              "voucher: another client has this upload key");
    if (st != SEFL_ENOTFOUND)
        SEFL_PASS(st);
    keys += before > 0 || st == SEFL_ENOTFOUND; /* not: a forgotten one, again */
    SEFL_NEED(keys <= UPLOAD_KEYS_MAX, SEFL_ESTATE,
              "voucher: this client has already had %d vouchers, the maximum", UPLOAD_KEYS_MAX);
    store_u64(fact, serial);
    memcpy(fact + 8, key, SIGN_PUB_BYTES);
    store_u32(fact + COUNT_AT, keys);
    return SEFL_OK;
}

sefl_status upload_key_fits(journal *j, const uint8_t client[32], uint64_t serial,
                            const uint8_t key[SIGN_PUB_BYTES])
{
    bool again;
    uint8_t fact[FACT];
    return check(j, client, serial, key, &again, fact);
}

sefl_status upload_key_put(journal *j, const uint8_t client[32], uint64_t serial,
                           const uint8_t key[SIGN_PUB_BYTES])
{
    sefl_status st = SEFL_OK;
    bool again;
    uint8_t fact[FACT];
    SEFL_PASS(check(j, client, serial, key, &again, fact)); /* mostly it is the one we have */
    if (again)
        return SEFL_OK;
    SEFL_PASS(journal_begin(j));
    SEFL_TRY(check(j, client, serial, key, &again, fact)); /* no other process writes now */
    SEFL_TRY(upload_keys_put(j, "upload", key, span_of(client, 32)));
    SEFL_TRY(upload_keys_put(j, "voucher", client, span_of(fact, sizeof fact)));
    SEFL_TRY(journal_commit(j));
done:
    if (st != SEFL_OK)
        journal_rollback(j);
    return st;
}

sefl_status upload_key_forget(journal *j, const uint8_t client[32])
{
    uint8_t fact[FACT];
    sefl_status st = upload_keys_get(j, "voucher", client, fact, FACT);
    if (st != SEFL_OK)
        return st == SEFL_ENOTFOUND ? SEFL_OK : st;
    memset(fact, 0, COUNT_AT); /* serial 0, which no voucher has */
    return upload_keys_put(j, "voucher", client, span_of(fact, sizeof fact));
}
