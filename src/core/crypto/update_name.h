/* update_name: the hash that names an update. Its salt hides the units from CSP, which sees the
 * name.
 *
 *     name = BLAKE3("sefl units 1", zeros up to 31 bytes | salt 32 | 0x00 | units)
 *
 * CSP sees names and knows every seed, so it could compute the units of a guessed vector; without
 * the salt it cannot compare them with a name. A client draws the salt from the system's generator,
 * for one body only, and sends it to AS alone, between head and units (protocol/update.h).
 *
 *     update_name n;
 *     update_name_init(&n);
 *     update_name_add(&n, bytes);          // salt | units, in pieces of any size
 *     update_name_end(&n, out);            // n is wiped
 *
 * Secret: salt and units, from CSP. Public: the name. Threads: one owner per hash. */
#ifndef CRYPTO_UPDATE_NAME_H
#define CRYPTO_UPDATE_NAME_H

#include "base/blake3.h"
#include "base/span.h"

enum { UPDATE_SALT = 32 };

typedef struct update_name {
    blake3 h;
    size_t salted; /* bytes of the salt so far */
} update_name;

void update_name_init(update_name *n);
void update_name_add(update_name *n, sefl_span bytes);
void update_name_end(update_name *n, uint8_t out[BLAKE3_BYTES]);

/* All three for salt | units in one piece. */
void update_name_of(uint8_t out[BLAKE3_BYTES], sefl_span salt_units);

#endif
