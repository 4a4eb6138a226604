/* Public and secret keys from the wire: the first byte chooses. What is accepted must be written
 * back as the same bytes.
 *
 * Two things would take nearly all the time. The product of all primes below 2^16, 0.6 ms a key, is
 * made once (a function of ours stands before GMP's). A secret key whose length fits costs milliseconds
 * of constant-time work: of those, one in 64 is read, chosen by a hash of the input. */
#include "base/buf.h"
#include "crypto/ahe/paillier.h"
#include "fuzz/some.h"

#include <gmp.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

/* mpz_primorial_ui of gmp.h: from a table. */
void __gmpz_primorial_ui(mpz_ptr r, unsigned long n)
{
    static struct {
        unsigned long n;
        mpz_t product;
    } known[8];
    size_t i = 0;
    while (known[i].n != 0 && known[i].n != n)
        i++;
    if (known[i].n == 0) {
        must(i + 1 < sizeof known / sizeof *known);
        mpz_init_set_ui(known[i].product, 1);
        for (unsigned long p = 2, d; p <= n; p++) {
            for (d = 2; d * d <= p && p % d != 0; d++)
                ;
            if (d * d > p)
                mpz_mul_ui(known[i].product, known[i].product, p);
        }
        known[i].n = n;
    }
    mpz_set(r, known[i].product);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sefl_buf again = { 0 };
    paillier_pub *pub = NULL;
    paillier_sec *sec = NULL;
    if (size == 0)
        return 0;
    sefl_span in = span_of(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        sefl_status st = paillier_pub_read(&pub, in);
        must((st == SEFL_OK) == (pub != NULL));
        must(st == SEFL_OK || st == SEFL_EPROTO);
        if (pub) {
            must(paillier_pub_write(pub, &again) == SEFL_OK);
            must(again.n == paillier_pub_bytes(paillier_bits(pub)));
        }
    } else if (in.n < paillier_sec_bytes(2048) || some(data, size, 64)) {
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
