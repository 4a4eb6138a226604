#include "paper/csr.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- supports -------------------------------------------------------------------------------- */

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

size_t csr_support(uint8_t *mask, const float *u, size_t n, size_t k, float *scratch)
{
    size_t nonzero = 0, kept = 0;
    memset(mask, 0, n);
    for (size_t i = 0; i < n; i++)
        if (u[i] != 0)
            scratch[nonzero++] = fabsf(u[i]);
    if (k > nonzero)
        k = nonzero;
    if (k == 0)
        return 0;
    qsort(scratch, nonzero, sizeof *scratch, descending);
    const float least = scratch[k - 1];
    for (size_t i = 0; i < n; i++)
        kept += mask[i] = fabsf(u[i]) > least;
    for (size_t i = 0; i < n && kept < k; i++)
        if (fabsf(u[i]) == least)
            mask[i] = 1, kept++;
    return kept;
}

size_t csr_union(uint8_t *all, const uint8_t *mask, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += all[i] |= mask[i];
    return count;
}

size_t csr_index_bytes(const uint8_t *mask, const layout *l)
{
    size_t bytes = 0;
    for (const layout_tensor *a = l->tensor; a < l->tensor + l->n; a++) {
        const size_t rows = a->rank == 2 ? a->shape[0] : 1;
        const size_t cols = a->dense_count / rows;
        const size_t each = cols <= 256 ? 1 : cols <= 65536 ? 2 : 4;
        bytes += 4 * (rows + 1);
        for (size_t i = 0; i < a->dense_count; i++)
            bytes += mask[a->dense_offset + i] ? each : 0;
    }
    return bytes;
}

double csr_support_bits(size_t n, size_t k)
{
    return (lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1)) / log(2);
}

double csr_energy(const float *u, const uint8_t *mask, size_t n)
{
    double all = 0, in = 0;
    for (size_t i = 0; i < n; i++) {
        const double square = (double)u[i] * (double)u[i];
        all += square;
        in += mask[i] ? square : 0;
    }
    return all > 0 ? in / all : 1;
}

double csr_random_union(size_t n, double k, uint32_t clients)
{
    return 1 - pow(1 - k / (double)n, clients);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static sefl_status packing(pack *out, pack_scheme scheme, size_t n, uint32_t clients)
{
    return pack_init(out, &(pack_config){ .scheme = scheme,
                                          .clients = clients,
                                          .dimension = n,
                                          .clip = PACK_ONE,
                                          .noise = PACK_ONE });
}

sefl_status csr_pad_bytes(double *out, size_t n, uint32_t clients)
{
    pack p;
    ahe_params a;
    SEFL_PASS(packing(&p, PACK_PAD, n, clients));
    SEFL_PASS(ahe_params_init(&a, &ahe_pad, &p, NULL, n));
    *out = (double)ahe_body_bytes(&a);
    return SEFL_OK;
}

sefl_status csr_paillier_bytes(double *out, size_t n, uint32_t clients, unsigned bits)
{
    pack p;
    SEFL_PASS(packing(&p, PACK_PAILLIER, n, clients));
    const size_t slots = pack_slots(&p, bits);
    *out = csr_paillier_single_bytes((n + slots - 1) / slots, bits);
    return SEFL_OK;
}

/* A ciphertext is a number modulo N^2. */
double csr_paillier_single_bytes(size_t n, unsigned bits)
{
    return (double)n * (double)bits / 4;
}

/* ---- the blind sum --------------------------------------------------------------------------- */

sefl_status csr_blind_init(csr_blind *b, size_t n, size_t k)
{
    *b = (csr_blind){ .n = n, .k = k };
    SEFL_PASS(sefl_new(&b->by_rank, k, sizeof *b->by_rank));
    SEFL_PASS(sefl_new(&b->right, n, sizeof *b->right));
    return sefl_new(&b->first, n, 1);
}

void csr_blind_clear(csr_blind *b)
{
    sefl_free(b->by_rank);
    sefl_free(b->right);
    sefl_free(b->first);
    *b = (csr_blind){ 0 };
}

void csr_blind_add(csr_blind *b, const float *u, const uint8_t *mask)
{
    size_t rank = 0;
    if (b->clients++ == 0)
        memcpy(b->first, mask, b->n);
    for (size_t i = 0; i < b->n; i++)
        if (mask[i]) {
            b->by_rank[rank++] += (double)u[i];
            b->right[i] += (double)u[i];
        }
}

double csr_blind_error(const csr_blind *b)
{
    double error = 0, norm = 0;
    size_t rank = 0;
    for (size_t i = 0; i < b->n; i++) {
        const double got = b->first[i] ? b->by_rank[rank++] : 0;
        error += (got - b->right[i]) * (got - b->right[i]);
        norm += b->right[i] * b->right[i];
    }
    return sqrt(error / norm);
}
