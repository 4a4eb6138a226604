/* ca_print: prints a trust list (trust/trust.h) as text or JSON, for `sefl ca list`.
 *
 *     SEFL_TRY(ca_print_list(t, now));
 *     SEFL_TRY(ca_print_json(t, now));
 *
 * Both print to stdout; `now`, in seconds since 1970, decides which tokens have expired.
 * Threads: one.   Secrets: none. */
#ifndef CLI_FULL_CA_PRINT_H
#define CLI_FULL_CA_PRINT_H

#include "trust/trust.h"

sefl_status ca_print_list(const trust *t, int64_t now) SEFL_MUST_CHECK;
sefl_status ca_print_json(const trust *t, int64_t now) SEFL_MUST_CHECK;

/* Writes `when` (seconds since 1970) as "2026-11-15 10:20" in UTC, or "-" for 0. */
void ca_date(char out[32], int64_t when);

#endif
