/* record_turns: which of a client's records take part in a round.
 *
 * The records take turns: each round uses the next records_max of them, cyclically, and never one
 * of them twice. Everybody can compute which from the number of records.
 *
 *     record_turns d = record_turns_of(t, round, text->docs);
 *     for (size_t i = 0; i < d.count; i++)
 *         ...record record_turns_at(&d, i) of the text...
 *
 * Threads: any.   Secrets: none but the number of records. */
#ifndef ROLES_CLIENT_RECORD_TURNS_H
#define ROLES_CLIENT_RECORD_TURNS_H

#include "protocol/task.h"

typedef struct record_turns {
    size_t count; /* records that the round uses */
    size_t from;  /* the first one's number in the text */
    size_t docs;  /* records of the text */
} record_turns;

/* docs >= 1, round >= 1. */
record_turns record_turns_of(const task *t, uint64_t round, size_t docs);

/* Returns the number in the text of the i-th record of the round, i < count. */
size_t record_turns_at(const record_turns *d, size_t i);

#endif
