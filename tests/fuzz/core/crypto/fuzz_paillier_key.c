/* Public and secret keys from the wire; the first byte selects which. An accepted key must be
 * written back as the same bytes. A secret key of the right length costs milliseconds of
 * constant-time work: one in 64 is read as a secret key (fuzz/some.h), the others as public keys,
 * which have the same length. */
#include "base/buf.h"
#include "crypto/ahe/paillier.h"
#include "fuzz/primorial.h"
#include "fuzz/some.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sefl_buf again = { 0 };
    paillier_pub *pub = NULL;
    paillier_sec *sec = NULL;
    if (size == 0)
        return 0;
    sefl_span in = span_of(data + 1, size - 1);
    bool fits = in.n >= paillier_sec_bytes(2048);
    if (data[0] % 2 == 0 || (fits && !some(data, size, 64))) {
        sefl_status st = paillier_pub_read(&pub, in);
        must((st == SEFL_OK) == (pub != NULL));
        must(st == SEFL_OK || st == SEFL_EPROTO);
        if (pub) {
            must(paillier_pub_write(pub, &again) == SEFL_OK);
            must(again.n == paillier_pub_bytes(paillier_bits(pub)));
        }
    } else {
        sefl_status st = paillier_sec_read(&sec, in);
        must((st == SEFL_OK) == (sec != NULL));
        must(st == SEFL_OK || st == SEFL_EPROTO || st == SEFL_EINVAL);
        if (sec)
            must(paillier_sec_write(sec, &again) == SEFL_OK);
    }
    if (pub || sec)
        must(again.n == in.n && memcmp(again.p, in.p, in.n) == 0);
    paillier_pub_free(pub);
    paillier_sec_free(sec);
    buf_clear(&again);
    return 0;
}
