/* record_list: the records of an owner's text that take turns in a task, each with a fixed place.
 *
 * The charge of records that take turns (privacy/record_turns.h) holds only if each record keeps
 * its place for the whole task. This list keeps it: one file for each task, beside the text's
 * ledger (text_ledger.h) and not in the client's state, which may be lost or restored.
 *
 *     record_list list = { 0 };
 *     SEFL_TRY(record_list_open(&list, book, "ledger", t->id, &names));
 *     terms.list = list.hash;                       // the ledger's charges name the list
 *     SEFL_TRY(record_list_keep(&list));            // before the first update is made
 *     ...place p is record list.record[p] of the text...
 *     record_list_clear(&list);
 *
 * The list is written, durably, before the client makes its first update for the task: until then
 * its text may change. From then on nothing changes or replaces the list. The mark of an update has
 * the hash of its list (roles/client/store.h): if the owner deletes the list before the first
 * charge, the client makes a new one and drops an update of the old one.
 *
 * The entries are names: keyed hashes of what a record is, not of where it is. So a text whose
 * records have another order, or are split into other files, keeps its places. If a record of the
 * list is missing from the text, if the ledger has charges for the task and the list is gone, or if
 * the charges name another list, the client takes no part in the task. Records that came later have
 * no place, so the task does not use them. Equal records have equal names; which of them has which
 * place does not matter, because they contribute the same.
 *
 * File LEDGER.records-TASK, TASK being the first 16 hex digits of the task's id (little-endian):
 *     "SEFLREC1" | task 32 | key 32 | n u64 | n names of 16 bytes | SHA-256 of all that
 *
 * Threads: one owner; the ledger's lock excludes other processes. Secrets: the file, whose key lets
 * a reader test guesses of a record (mode 0600). */
#ifndef STORE_RECORD_LIST_H
#define STORE_RECORD_LIST_H

#include "store/ledger.h"

enum { RECORD_NAME = 16, RECORD_KEY = 32 };

/* The records of the text as it is now. */
typedef struct record_names {
    size_t n;
    void *ctx;
    /* Writes the name of record i. */
    void (*name)(void *ctx, const uint8_t key[RECORD_KEY], size_t i, uint8_t out[RECORD_NAME]);
} record_names;

typedef struct record_list {
    size_t n;       /* places */
    size_t *record; /* place p is record[p] of the text */
    size_t later;   /* records of the text that have no place */
    uint8_t hash[LEDGER_HASH_BYTES];
    char *path;     /* the file, ... */
    sefl_buf fresh; /* ... and what record_list_keep writes to it; empty: it is there */
} record_list;

/* Opens the list of this task, or prepares one if there is none and the ledger at `path`, which l
 * is, has no charge for the task. SEFL_EINVAL, with the reason and what to do, if the client must
 * take no part. */
sefl_status record_list_open(record_list *out, const ledger *l, const char *path,
                             const uint8_t task[LEDGER_TASK_BYTES],
                             const record_names *names) SEFL_MUST_CHECK;
/* Writes a new list, durably: from here on the records have their places. SEFL_EEXIST if a file has
 * appeared since record_list_open: it is never replaced. */
sefl_status record_list_keep(record_list *list) SEFL_MUST_CHECK;
void record_list_clear(record_list *list);

#endif
