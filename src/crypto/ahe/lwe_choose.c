/* Noise against margin, in whole numbers. The noise of a coefficient of the sum is the sum over K
 * clients of a centred binomial (variance 42/4) and a truncation error, uniform on 2^d numbers
 * (variance (4^d - 1)/12): sub-Gaussian with variance V = K*(10.5 + (4^d - 1)/12). Restoring
 * floor(K*(2^d - 1)/2) is off by at most half a unit. Rounding to a multiple of Delta is right
 * while |noise| < Delta/2, so one coefficient fails with probability at most
 *     2*exp(-x^2/2),   x = (Delta/2 - 1) / sqrt(V).
 * x^2 >= 135 gives 2^32 coefficients 2^33 * exp(-67.5) < 2^-64.3. Multiplied by 12:
 *     12*(Delta/2 - 1)^2 >= 135 * K * (4^d + 125). */
#include "crypto/ahe/lwe.h"

#include <stdbool.h>

enum { X_SQUARED = 135, W_MIN = 2 };

/* delta_bits = kappa - w, at most 54; d <= delta_bits, so that cutting d bits leaves Delta*m alone
 */
static bool enough(unsigned delta_bits, uint32_t clients, unsigned d)
{
    if (delta_bits < 2 || d > delta_bits)
        return false;
    unsigned __int128 margin = ((uint64_t)1 << (delta_bits - 1)) - 1;
    unsigned __int128 four_d = (unsigned __int128)1 << (2 * d);
    return 12 * margin * margin >= X_SQUARED * (unsigned __int128)clients * (four_d + 125);
}

sefl_status lwe_check(unsigned w, uint32_t clients, unsigned kappa, unsigned d)
{
    sefl_status st = SEFL_OK;
    SEFL_CHECK(clients >= 1 && clients <= LWE_CLIENTS_MAX, SEFL_EINVAL,
               "lwe: %u clients, possible are 1 to %d", clients, LWE_CLIENTS_MAX);
    SEFL_CHECK(w >= W_MIN && w < kappa && kappa <= LWE_KAPPA_MAX, SEFL_EINVAL,
               "lwe: a modulus of %u bits for slots of %u: wanted above the slot, at most %d",
               kappa, w, LWE_KAPPA_MAX);
    SEFL_CHECK(enough(kappa - w, clients, d), SEFL_EINVAL,
               "lwe: a modulus of %u bits with %u cut off is too noisy for %u clients and slots "
               "of %u bits",
               kappa, d, clients, w);
done:
    return st;
}

sefl_status lwe_choose(unsigned w, uint32_t clients, unsigned *kappa, unsigned *d)
{
    sefl_status st = SEFL_OK;
    unsigned best_kappa = 0, best_d = 0;
    *kappa = *d = 0;
    SEFL_CHECK(clients >= 1 && clients <= LWE_CLIENTS_MAX, SEFL_ERANGE,
               "lwe: %u clients, possible are 1 to %d", clients, LWE_CLIENTS_MAX);
    SEFL_CHECK(w >= W_MIN && w < LWE_KAPPA_MAX, SEFL_ERANGE, "lwe: no slots of %u bits", w);
    for (unsigned k = w + 2; k <= LWE_KAPPA_MAX; k++) /* rising: ties keep the smaller kappa */
        for (unsigned cut = 0; cut <= k - w; cut++)
            if (enough(k - w, clients, cut) && (!best_kappa || k - cut < best_kappa - best_d))
                best_kappa = k, best_d = cut;
    SEFL_CHECK(best_kappa, SEFL_ERANGE,
               "lwe: sums of %u clients in slots of %u bits need a modulus above 2^%d, the limit "
               "for 128-bit security: fewer clients, a smaller range, or the paillier scheme",
               clients, w, LWE_KAPPA_MAX);
    *kappa = best_kappa, *d = best_d;
done:
    return st;
}
