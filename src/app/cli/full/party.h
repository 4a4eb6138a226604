/* party: finds the servers and clients that `sefl status`, `sefl logs` and `sefl task pause` are
 * about, by their settings files.
 *
 *     party_list l = { 0 };
 *     SEFL_TRY(party_find(&l, "runs/demo"));       // a folder, a settings file, or NULL
 *     for (size_t i = 0; i < l.n; i++)
 *         ... l.at[i].state ...
 *     party_clear(&l);
 *
 * A folder is that of one party (aggregator.yml, csp.yml or client.yml), one of `sefl provision`
 * (aggregator/, csp/, clients/NAME/) or a run of `sefl demo` or `sefl try` (federation/). NULL: the
 * current folder, or its newest runs/NAME that has parties.
 * Threads: one owner.   Secrets: none. */
#ifndef CLI_FULL_PARTY_H
#define CLI_FULL_PARTY_H

#include "config/address.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum party_role { PARTY_AGGREGATOR, PARTY_CSP, PARTY_CLIENT, PARTY_ROLES } party_role;
#define PARTY_WORDS "aggregator csp client"
const char *party_role_name(party_role r);

typedef struct party {
    party_role role;
    char name[64]; /* "aggregator", "csp", "client"; in a folder of several clients, its own */
    char config[PATH_MAX], state[PATH_MAX], ledger[PATH_MAX];
    char task[PATH_MAX];   /* servers: the setting `task`; "" with `tasks` */
    char models[PATH_MAX]; /* clients: where it keeps models */
    host_port health;      /* servers: host "" if there is none */
} party;

typedef struct party_list {
    party *at;
    size_t n, room;
    char folder[PATH_MAX]; /* where they were found */
} party_list;

/* SEFL_ENOTFOUND, with a sentence, if there is none. The caller clears the list even then. */
sefl_status party_find(party_list *l, const char *where) SEFL_MUST_CHECK;
/* Reads one settings file; its name tells the role. */
sefl_status party_read(party *out, const char *config) SEFL_MUST_CHECK;
void party_clear(party_list *l);

#endif
