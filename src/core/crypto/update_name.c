#include "crypto/update_name.h"

/* Tag, salt and the zero byte are one block of BLAKE3, so the units start on a block. */
static const uint8_t tag[31] = "sefl units 1", ends_salt[1] = { 0 };
_Static_assert(sizeof tag + UPDATE_SALT + sizeof ends_salt == 64, "one block");

void update_name_init(update_name *n)
{
    n->salted = 0;
    blake3_init(&n->h);
    blake3_add(&n->h, span_of(tag, sizeof tag));
}

void update_name_add(update_name *n, sefl_span bytes)
{
    size_t left = UPDATE_SALT - n->salted, salt = bytes.n < left ? bytes.n : left;
    if (salt > 0) {
        blake3_add(&n->h, span_of(bytes.p, salt));
        n->salted += salt;
        if (n->salted == UPDATE_SALT)
            blake3_add(&n->h, span_of(ends_salt, sizeof ends_salt));
        bytes = span_of(bytes.p + salt, bytes.n - salt);
    }
    blake3_add(&n->h, bytes);
}

void update_name_end(update_name *n, uint8_t out[BLAKE3_BYTES])
{
    blake3_end(&n->h, out);
}

void update_name_of(uint8_t out[BLAKE3_BYTES], sefl_span salt_units)
{
    update_name n;
    update_name_init(&n);
    update_name_add(&n, salt_units);
    update_name_end(&n, out);
}
