/* unlock: reads the passphrase or key file that unlocks a key, from a file or the terminal.
 *
 *     cli_unlock u = { .passphrase_file = F };                  // or .key_file; neither: prompts
 *     SEFL_TRY(cli_unlock_get(&u, SEALED_BY_PASSPHRASE));
 *     ... u.lock ...
 * done:
 *     cli_unlock_clear(&u);
 *
 * It prompts on /dev/tty without echo, and restores the terminal even if a signal ends the program.
 * It warns about a file that other users can read. Secret: lock, which is in locked memory. */
#ifndef CLI_FULL_UNLOCK_H
#define CLI_FULL_UNLOCK_H

#include "roles/csp/csp_role.h"
#include "roles/csp/key.h"

typedef struct cli_unlock {
    const char *passphrase_file, *key_file; /* at most one; NULL: not given */
    bool creating;                          /* prompts twice and refuses a short passphrase */

    sealed_lock lock; /* filled by cli_unlock_get */
    uint8_t *mem;
} cli_unlock;

/* Fills u->lock. `by` is the kind of lock on the key file (ignored when creating). SEFL_EINVAL if
 * the caller gives the other kind of secret, or none while there is no terminal. */
sefl_status cli_unlock_get(cli_unlock *u, sealed_by by) SEFL_MUST_CHECK;

/* Reads CSP's secret key and unlocks it with key_lock, passphrase_file or the terminal. */
sefl_status cli_unlock_csp(csp_key *out, const csp_settings *c) SEFL_MUST_CHECK;

void cli_unlock_clear(cli_unlock *u);

#endif
