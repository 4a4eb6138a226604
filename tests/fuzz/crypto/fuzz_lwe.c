/* Bytes that reach the lwe scheme from outside: parameters of a task, rows of numbers, plaintexts
 * of a head that a client chose, units of a masked sum. The first byte says which. Rows and
 * plaintexts must have one reading: what is read writes back to the same bytes. */
#include "base/span.h"
#include "crypto/ahe/lwe_head.h"
#include "crypto/ahe/lwe_unit.h"
#include "fuzz/some.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void parameters(rd *r)
{
    uint32_t w, clients, kappa, d;
    unsigned best_kappa, best_d;
    if (rd_u32(r, &w) || rd_u32(r, &clients) || rd_u32(r, &kappa) || rd_u32(r, &d))
        return;
    sefl_status given = lwe_check(w, clients, kappa, d);
    if (lwe_choose(w, clients, &best_kappa, &best_d) == SEFL_OK) {
        must(lwe_check(w, clients, best_kappa, best_d) == SEFL_OK);
        must(given != SEFL_OK || best_kappa - best_d <= kappa - d);
    } else {
        must(given != SEFL_OK);
    }
}

static void row(rd *r)
{
    uint8_t width;
    uint64_t numbers[64], again[64];
    uint8_t out[64 * 7];
    sefl_span in;
    if (rd_u8(r, &width))
        return;
    unsigned bits = LWE_BITS_MIN + width % (LWE_BITS_MAX - LWE_BITS_MIN + 1);
    size_t n = rd_left(r) / bits * 8 < 64 ? rd_left(r) / bits * 8 : 64;
    if (rd_view(r, &in, n / 8 * bits))
        return;
    for (unsigned path = 0; path < LWE_PATHS; path++) {
        lwe_bits b;
        if (!lwe_path_has(path))
            continue;
        lwe_bits_init(&b, bits, path);
        lwe_bits_unpack(&b, path == 0 ? numbers : again, in.p, n);
        must(path == 0 || memcmp(numbers, again, n * sizeof *again) == 0);
        lwe_bits_pack(&b, out, numbers, n, 0, 0);
        must(n == 0 || memcmp(out, in.p, in.n) == 0);
    }
}

static void head(rd *r)
{
    enum { BYTES = 2048 / 8 };
    static int32_t s[LWE_N];
    uint8_t index, modulus[BYTES], m[BYTES] = { 0 }, again[BYTES];
    if (rd_u8(r, &index))
        return;
    memset(modulus, 0xc5, sizeof modulus);
    memcpy(m, r->p, rd_left(r) < BYTES - 1 ? rd_left(r) : BYTES - 1); /* below N: top byte 0 */
    if (rd_left(r) >= BYTES)
        m[BYTES - 1] = r->p[BYTES - 1] % 0xc5;
    index %= lwe_head_count(2048);
    if (!lwe_head_decode(s, m, index, modulus, 2048))
        return;
    lwe_head_encode(again, s, index, modulus, 2048);
    must(memcmp(m, again, BYTES) == 0);
}

/* Anything is a masked sum, under any S a head can give; every path decrypts it alike. 0.2 ms of arithmetic
 * without a branch: for some inputs, the others are rows. */
static void sum_unit(rd *r)
{
    static lwe_plan plans[LWE_PATHS];
    static bool planned;
    static lwe_work work;
    static lwe_spectrum f;
    static uint8_t in[LWE_N / 8 * 42], plain[LWE_N / 8 * 28], again[LWE_N / 8 * 28];
    static int32_t s[LWE_N];
    static const uint8_t context[PRG_SEED] = { 1 };
    prg pub;
    if (rd_left(r) == 0 || !some(r->p, rd_left(r), 16)) {
        row(r);
        return;
    }
    for (unsigned path = 0; path < LWE_PATHS && !planned; path++)
        if (lwe_path_has(path))
            lwe_plan_init(&plans[path], 28, 42, 4, path);
    planned = true;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = r->p[i % rd_left(r)];
    for (size_t i = 0; i < LWE_N; i++)
        s[i] = (int32_t)(in[i] | (uint32_t)in[i + LWE_N] << 8) - 32768;
    prg_init(&pub, context, LWE_PUBLIC);
    for (unsigned path = 0; path < LWE_PATHS; path++) {
        if (!lwe_path_has(path))
            continue;
        const lwe_plan *plan = &plans[path];
        lwe_ring_spectrum(&plan->ring, &f, s, false);
        lwe_unit_decrypt(plan, path == 0 ? plain : again, in, 3, &pub, &f, &work);
        must(path == 0 || memcmp(plain, again, sizeof plain) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(rd *) = { parameters, row, head, sum_unit };
    rd r = rd_over(span_of(data, size));
    uint8_t kind;
    if (rd_u8(&r, &kind) == SEFL_OK)
        kinds[kind % 4](&r);
    return 0;
}
