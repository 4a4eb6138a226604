/* Constant-time check of Paillier: reading, writing and using the secret key, both decryptions, the
 * fault checks of the scheme, and everything that handles a plaintext or a mask. The key is
 * generated before it is marked (key generation is _vartime), and the coins of the encryptor stay
 * public here, because its table look-ups are _vartime in them. The test checks that nothing
 * depends on p, q, the plaintext or the mask. valgrind does not support AVX-512, so this runs the
 * portable kernel. */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/ct.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "seeded/seeded.h"
#include "support/paillier_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 2048, PB = BITS / 8, CB = BITS / 4, UNITS = 2 };

static void must(sefl_status st)
{
    if (st != SEFL_OK) {
        fprintf(stderr, "%s: %s\n", sefl_status_name(st), sefl_last_error());
        exit(1);
    }
}

int main(void)
{
    static uint8_t m[PB], c[UNITS * CB], out[UNITS * CB], plain[UNITS * PB], mask[UNITS * PB];
    static int64_t values[UNITS * 70], sums[UNITS * 70];
    static uint64_t digits[UNITS * 70];
    static const uint8_t context[AHE_CONTEXT_BYTES];
    pack packing = { .k = 16, .t = 12, .w = 28, .g = 16, .s = 80, .clients = 2, .value_max = 1 };
    paillier_sec *made, *sec;
    paillier_pub *pub;
    sefl_buf bytes = { 0 }, again = { 0 };
    ahe_params p;
    ahe_enc *enc;
    ahe_upload *u;
    ahe_sum *s;
    ahe_dec *d;
    uint8_t seed[AHE_SEED_BYTES] = { 5 };
    seeded gen;

    seeded_init(&gen, 1, "ctime");
    sefl_rng rng = seeded_rng(&gen);
    must(paillier_keygen_vartime(&made, BITS, &rng, NULL));
    must(paillier_sec_write(made, &bytes));
    must(paillier_pub_copy(&pub, made));
    paillier_sec_free(made);

    /* from here on p and q are secret */
    CT_SECRET(bytes.p + 2, PB);
    must(paillier_sec_read(&sec, buf_span(&bytes)));
    must(paillier_sec_write(sec, &again));
    uint64_t same = ct_eq_bytes(bytes.p, again.p, bytes.n);

    must(ahe_params_init(&p, &ahe_paillier, &packing, pub, UNITS * 70));
    must(ahe_enc_new(&enc, pub, &p, NULL, NULL));
    must(ahe_upload_new(&u, &p, enc, context, &rng));
    for (int i = 0; i < UNITS * 70; i++)
        values[i] = i % 3 - 1;
    CT_SECRET(values, sizeof values);
    must(ahe_upload_units(&p, u, c, values, UNITS, NULL, NULL));
    CT_PUBLIC(c, sizeof c); /* ciphertexts are public */

    must(ahe_sum_new(&s, &p, pub));
    must(ahe_sum_check_units(&p, s, c, UNITS));
    must(ahe_sum_begin(&p, s));
    must(ahe_sum_add_units(&p, s, 0, c, UNITS, NULL));
    must(ahe_sum_close(&p, s));
    CT_SECRET(seed, sizeof seed);
    must(ahe_sum_write_units(&p, s, out, 0, UNITS, seed, NULL));
    CT_PUBLIC(out, sizeof out); /* ciphertexts are public */

    must(ahe_dec_new(&d, &p, sec, context));
    must(ahe_dec_units(&p, d, plain, 0, out, UNITS, NULL, NULL));
    must(ahe_mask_units(&p, mask, 0, UNITS, seed));
    ahe_plain_digits(&p, digits, plain, UNITS);
    ahe_plain_add(&p, plain, values, UNITS);
    ahe_plain_unmask(&p, sums, plain, mask, UNITS);
    must(paillier_decrypt_without_crt(sec, m, out, 1, NULL, NULL));
    paillier_negate(pub, m);

    CT_PUBLIC(&same, sizeof same); /* the test reports it */
    CT_PUBLIC(sums, sizeof sums);  /* likewise */
    int bad = !same;
    for (int i = 0; i < UNITS * 70; i++)
        bad |= sums[i] != 2 * (i % 3 - 1);
    printf("%s\n", bad ? "wrong" : "right");
    ahe_dec_free(&p, d);
    ahe_sum_free(&p, s);
    ahe_upload_free(&p, u);
    ahe_enc_free(&p, enc);
    paillier_sec_free(sec);
    paillier_pub_free(pub);
    buf_clear(&bytes);
    buf_clear(&again);
    return bad;
}
