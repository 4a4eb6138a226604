/* pad: no branch and no address depends on seed, values or pads. */
#include "base/alloc.h"
#include "base/ct.h"
#include "crypto/ahe/ahe.h"

#include <stdio.h>
#include <string.h>

enum { VALUES = 2100, UNITS = 2, PER = 2048 };

static sefl_status run(void)
{
    sefl_status st = SEFL_OK;
    static const uint8_t context[AHE_CONTEXT_BYTES] = { 4 }, mask[AHE_SEED_BYTES] = { 5 };
    static int64_t v[UNITS * PER], got[UNITS * PER];
    static uint8_t body[UNITS * PER * 4], masked[sizeof body], plain[sizeof body], own[sizeof body];
    pack packing;
    pack_config c = {
        .scheme = PACK_PAD, .clients = 4, .dimension = VALUES, .clip = PACK_ONE, .noise = PACK_ONE
    };
    ahe_params p;
    ahe_enc *enc = NULL;
    ahe_upload *up = NULL;
    ahe_sum *sum = NULL;
    ahe_dec *dec = NULL;
    ahe_seed seed;
    sefl_rng rng = rng_system();
    SEFL_TRY(pack_init(&packing, &c));
    SEFL_TRY(ahe_params_init(&p, &ahe_pad, &packing, NULL, VALUES));
    for (size_t i = 0; i < VALUES; i++)
        v[i] = (int64_t)(i % 7) - 3;
    CT_SECRET(v, sizeof v);
    SEFL_TRY(ahe_enc_new(&enc, NULL, &p, NULL, NULL));
    SEFL_TRY(ahe_upload_new(&up, &p, enc, context, &rng)); /* marks the seed secret */
    ahe_upload_seed(&p, up, &seed);
    SEFL_TRY(ahe_upload_units(&p, up, body, v, p.units, NULL, NULL));
    SEFL_TRY(ahe_sum_new(&sum, &p, NULL));
    SEFL_TRY(ahe_sum_begin(&p, sum));
    SEFL_TRY(ahe_sum_add_units(&p, sum, 0, body, p.units, NULL));
    SEFL_TRY(ahe_sum_close(&p, sum));
    SEFL_TRY(ahe_sum_write_units(&p, sum, masked, 0, p.units, mask, NULL));
    SEFL_TRY(ahe_dec_new(&dec, &p, NULL, context));
    SEFL_TRY(ahe_dec_add(&p, dec, &seed, 1, NULL));
    SEFL_TRY(ahe_dec_units(&p, dec, plain, 0, masked, p.units, NULL, NULL));
    SEFL_TRY(ahe_mask_units(&p, own, 0, p.units, mask));
    ahe_plain_unmask(&p, got, plain, own, p.units);
    uint64_t same = ct_eq_bytes(got, v, VALUES * sizeof v[0]);
    CT_PUBLIC(&same, sizeof same); /* the test's answer */
    SEFL_CHECK(same, SEFL_ECRYPTO, "another sum came out");
done:
    ahe_dec_free(&p, dec);
    ahe_sum_free(&p, sum);
    ahe_upload_free(&p, up);
    ahe_enc_free(&p, enc);
    return st;
}

int main(void)
{
    if (run() == SEFL_OK)
        return 0;
    printf("pad failed: %s\n", sefl_last_error());
    return 1;
}
