/* secret: creates CSP's key file and the lock that opens it.
 *
 *     SEFL_TRY(secret_new("csp/key.sealed", "csp/key.lock", NULL));
 *
 * The lock is a file of 32 random bytes. Such a lock needs no key stretching: Argon2id with a high
 * cost is for passphrases (`sefl key new`).
 * Threads: any, on different paths.   Secrets: both files (mode 0600). */
#ifndef ROLES_SECRET_H
#define ROLES_SECRET_H

#include "crypto/ahe/paillier.h"

/* Stores a new root of round keys, or the Paillier pair if it is not NULL. Neither file may exist;
 * a failure leaves none. */
sefl_status secret_new(const char *key, const char *lock, const paillier_sec *pair) SEFL_MUST_CHECK;

#endif
