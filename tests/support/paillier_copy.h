/* paillier_copy: copies the public half of a key pair, of any size, to a separate object. */
#ifndef SUPPORT_PAILLIER_COPY_H
#define SUPPORT_PAILLIER_COPY_H

#include "crypto/ahe/paillier_internal.h"

static inline sefl_status paillier_pub_copy(paillier_pub **out, const paillier_sec *sec)
{
    const paillier_pub *p = paillier_sec_pub(sec);
    return paillier_pub_make(out, p->bits, p->n_bytes, p->hs_bytes);
}

#endif
