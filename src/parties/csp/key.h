/* csp_key: reads CSP's secret key: the root of its round keys, or the key of a Paillier task.
 *
 *     csp_key key;
 *     SEFL_TRY(csp_key_read(&key, path, unlock, me));    // unlock fills the lock
 *     ...csp_role_options.root = key.root, .sec = key.sec...
 *     csp_key_clear(&key);
 *
 * Threads: one owner.   Secret: everything in it; the root is in memory of secmem.h. */
#ifndef ROLES_CSP_KEY_H
#define ROLES_CSP_KEY_H

#include "crypto/ahe/paillier.h"
#include "crypto/sealed.h"

typedef struct csp_key {
    uint8_t *root; /* one of the two */
    paillier_sec *sec;
} csp_key;

/* Fills *lock for a key that is locked in this way. What it points to must stay until csp_key_read
 * returns. */
typedef sefl_status csp_key_unlock(void *ctx, sealed_lock *lock, sealed_by by);

sefl_status csp_key_read(csp_key *out, const char *path, csp_key_unlock *unlock,
                         void *ctx) SEFL_MUST_CHECK;
void csp_key_clear(csp_key *k);

#endif
