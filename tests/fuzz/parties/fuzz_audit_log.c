/* Any line of an audit log, any file of integers and any record of a file of receipts, each as it is
 * and with its right hash: what `sefl verify` reads. */
#include "base/hex.h"
#include "roles/aggregator/integers.h"
#include "roles/audit/audit_read.h"
#include "roles/client/receipts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VALUES = 5 };

static void read_entry(sefl_span line)
{
    audit_entry e = { 0 };
    sefl_buf b = { 0 };
    sefl_span text;
    uint64_t n;
    uint8_t hash[SHA256_BYTES];
    if (audit_entry_read(&e, line) == SEFL_OK)
        for (unsigned i = 0; i < e.members; i++) {
            const char *key = e.member[i].key;
            if (audit_number(&e, key, &n) && audit_hash(&e, key, hash))
                continue; /* a key may occur twice, as both */
            if (audit_text(&e, key, &text) && audit_bytes(&e, key, &b) == SEFL_OK && b.n == 0)
                abort();
        }
    buf_clear(&b);
    audit_entry_clear(&e);
}

static void read_integers(sefl_span bytes)
{
    static const uint8_t id[TASK_ID];
    int64_t w[VALUES];
    uint32_t clients;
    (void)!integers_read_over(bytes, id, 3, &clients, w, VALUES);
}

static void read_receipts(sefl_span bytes)
{
    rd r = rd_over(bytes);
    sefl_span env;
    bool more = true;
    while (more && receipts_next(&r, &env, &more) == SEFL_OK)
        if (more && env.n > RECEIPTS_ENVELOPE_MAX)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sefl_buf b = { 0 };
    uint8_t hash[SHA256_BYTES];
    char hex[HEX_CHARS(SHA256_BYTES)];
    read_entry(span_of(data, size));
    read_integers(span_of(data, size));
    read_receipts(span_of(data, size));
    sha256_of(hash, span_of(data, size));
    if (wr_raw(&b, data, size) != SEFL_OK ||
        wr_fmt(&b, ",\"hash\":\"%s\"}", hex_write(hex, hash, sizeof hash)) != SEFL_OK)
        abort();
    read_entry(buf_span(&b));
    buf_reset(&b);
    if (wr_raw(&b, data, size) != SEFL_OK || wr_raw(&b, hash, sizeof hash) != SEFL_OK)
        abort();
    read_integers(buf_span(&b));
    read_receipts(buf_span(&b));
    buf_clear(&b);
    return 0;
}
