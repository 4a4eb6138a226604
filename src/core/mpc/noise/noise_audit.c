#include "mpc/noise/noise_audit.h"

#include "base/file.h"
#include "base/hex.h"
#include "base/sha256.h"

#include <string.h>

static const char magic[8] = { 'S', 'E', 'F', 'L', 'a', 'u', 'd', '1' };

void audit_id(uint8_t id[AUDIT_ID], const uint8_t csp_hello[AUDIT_HELLO],
              const uint8_t as_hello[AUDIT_HELLO])
{
    sha256_join(id, span_of_str("sefl shares 2"), span_of(csp_hello, AUDIT_HELLO),
                span_of(as_hello, AUDIT_HELLO));
}

void audit_commit(uint8_t out[AUDIT_HASH], const uint8_t id[AUDIT_ID],
                  const uint8_t seed[AUDIT_SEED])
{
    sha256_join(out, span_of_str("sefl audit 1"), span_of(id, AUDIT_ID), span_of(seed, AUDIT_SEED));
}

enum { STATEMENT = AUDIT_ID + 4 * AUDIT_HASH };

static void statement(uint8_t out[STATEMENT], const uint8_t id[AUDIT_ID],
                      const uint8_t commitment[AUDIT_HASH], const audit_seen *seen)
{
    memcpy(out, id, AUDIT_ID);
    memcpy(out + AUDIT_ID, commitment, AUDIT_HASH);
    memcpy(out + AUDIT_ID + AUDIT_HASH, seen, sizeof *seen);
}

sefl_status audit_sign(uint8_t sig[SIGN_BYTES], const sign_key *key, const uint8_t id[AUDIT_ID],
                       const uint8_t commitment[AUDIT_HASH], const audit_seen *seen)
{
    uint8_t bytes[STATEMENT];
    statement(bytes, id, commitment, seen);
    return sign_make(sig, key, SIGN_SESSION, span_of(bytes, sizeof bytes));
}

sefl_status audit_signed(const uint8_t sig[SIGN_BYTES], const uint8_t pub[SIGN_PUB_BYTES],
                         const uint8_t id[AUDIT_ID], const uint8_t commitment[AUDIT_HASH],
                         const audit_seen *seen)
{
    uint8_t bytes[STATEMENT];
    statement(bytes, id, commitment, seen);
    return sign_check(sig, pub, SIGN_SESSION, span_of(bytes, sizeof bytes));
}

enum { DECISION = AUDIT_ID + 1 };

static void decision(uint8_t out[DECISION], const uint8_t id[AUDIT_ID], uint8_t verdict)
{
    memcpy(out, id, AUDIT_ID);
    out[AUDIT_ID] = verdict;
}

sefl_status audit_decide(uint8_t sig[SIGN_BYTES], const sign_key *key, const uint8_t id[AUDIT_ID],
                         uint8_t verdict)
{
    uint8_t bytes[DECISION];
    decision(bytes, id, verdict);
    return sign_make(sig, key, SIGN_VERDICT, span_of(bytes, sizeof bytes));
}

sefl_status audit_decided(const uint8_t sig[SIGN_BYTES], const uint8_t pub[SIGN_PUB_BYTES],
                          const uint8_t id[AUDIT_ID], uint8_t verdict)
{
    uint8_t bytes[DECISION];
    decision(bytes, id, verdict);
    return sign_check(sig, pub, SIGN_VERDICT, span_of(bytes, sizeof bytes));
}

_Static_assert(sizeof(audit_record) == AUDIT_RECORD - sizeof magic, "bytes alone, no padding");

void audit_record_write(uint8_t out[AUDIT_RECORD], const audit_record *r)
{
    memcpy(out, magic, sizeof magic);
    memcpy(out + sizeof magic, r, sizeof *r);
}

sefl_status audit_record_read(audit_record *r, sefl_span in)
{
    *r = (audit_record){ 0 };
    SEFL_NEED(in.n == AUDIT_RECORD, SEFL_EPROTO, "audit record: %zu bytes instead of %d", in.n,
              AUDIT_RECORD);
    SEFL_NEED(memcmp(in.p, magic, sizeof magic) == 0, SEFL_EPROTO,
              "audit record: the file does not begin with SEFLaud1");
    memcpy(r, in.p + sizeof magic, sizeof *r);
    return SEFL_OK;
}

sefl_status audit_record_save(char *path, const audit_record *r, const char *folder)
{
    char name[PATH_MAX], hex[17];
    uint8_t bytes[AUDIT_RECORD], id[AUDIT_ID];
    audit_id(id, r->hello[0], r->hello[1]);
    SEFL_PASS(file_path(name, "%s/audit-%s.bin", folder, hex_write(hex, id, 8)));
    audit_record_write(bytes, r);
    SEFL_PASS(file_write_atomic(name, span_of(bytes, sizeof bytes), 0600));
    if (path)
        memcpy(path, name, sizeof name);
    return SEFL_OK;
}
