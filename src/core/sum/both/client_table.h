/* client_table: a hash table that maps a client's fingerprint, or another uniform 32 bytes, to its
 * number in the table and to 32 bytes, such as the hash of its uploaded units.
 *
 *     SEFL_TRY(client_table_put(&t, client, units, &i));      // adds it, or replaces its units
 *     size_t at = client_table_find(&t, client);              // i + 1, or 0
 *
 * Fingerprints are hashes already, so their first bytes select the slot.
 * Threads: one owner.   Secrets: none. */
#ifndef PROTOCOL_CLIENT_TABLE_H
#define PROTOCOL_CLIENT_TABLE_H

#include "protocol/counted.h"

typedef struct client_table {
    round_entry *leaf; /* in the order of the first put */
    size_t n, room;
    uint32_t *slot; /* 2 * room slots: index + 1, or 0 if free */
} client_table;

/* Returns the index of this client plus 1, or 0 if it is not in the table. */
size_t client_table_find(const client_table *t, const uint8_t client[32]);
sefl_status client_table_put(client_table *t, const uint8_t client[32], const uint8_t units[32],
                             size_t *index) SEFL_MUST_CHECK;
void client_table_clear(client_table *t);

#endif
