/* client_store: a client's state folder: which round it is in, the finished body, the receipts.
 *
 *     folder/lock           held as long as the store is open: one process a folder
 *     folder/mark           where the client stands, replaced atomically (below)
 *     folder/round-N.body   the finished ciphertext of round N; gone after its receipt
 *     folder/model-N        the model that round N starts from; gone after training
 *     folder/vocab.txt      the public words
 *     folder/receipts       the signed receipts of all rounds, one file (receipts.h)
 *     folder/counted        of each of them what AS answered when it was asked for the proof that the update
 *                           was counted (protocol/counted.h): a file of the same form, a record is
 *                           client_counted u8, then the answer's bytes
 *     folder/upload.key     the key that signs uploads (upload_key.h)
 *
 *     SEFL_TRY(client_store_open(&s, folder, t->id, head_bytes(t->seal)));
 *     SEFL_TRY(client_store_draw(s, round, drawn));      // the sampling coin is thrown once a round
 *     SEFL_TRY(client_store_begin(s));                    // a new attempt number, before any coin
 *     ...client_update_make into client_store_path(s, CLIENT_BODY)...
 *     SEFL_TRY(client_store_finish(s, &body));            // from here on these bytes may leave
 *     SEFL_TRY(client_store_receipt(s, envelope));        // kept; the body is deleted
 *     SEFL_TRY(client_store_counted(s, round, CLIENT_COUNTED, answer, &misses));     // when it is known
 *
 * Rules that survive kill -9 at any moment
 *   - The mark goes forward only: DRAWN, MAKING (attempt k), FINISHED, DONE; then a later round.
 *   - Coins of rounding and encryption are asked for under a (round, attempt) that was marked before:
 *     never twice. The sampling coin is marked before anything depends on it.
 *   - A body that is whole but not marked (it died between the two) is marked FINISHED when the store is
 *     opened. An unfinished one is deleted: it never left.
 *   - A FINISHED body that is missing or changed is never made again, its first bytes may have left:
 *     the round is DONE without a receipt (client_store_lost says so).
 *   - Another task begins without a mark; what is left of the old one is deleted, receipts stay.
 *
 * The mark: "SEFLCLM2" | task 32 | round u64 | attempt u64 | phase u8 | drawn u8 | body's units 32
 * | body's head 32 | body bytes u64 | SHA-256 of all that (client_update.h: client_body). A mark
 * that is no such thing is an error, not a fresh start. Threads: one owner.   Secrets: whether this
 * client was drawn (under hidden sampling). */
#ifndef ROLES_CLIENT_STORE_H
#define ROLES_CLIENT_STORE_H

#include "roles/client/update.h"

typedef enum client_phase {
    CLIENT_NOWHERE,
    CLIENT_DRAWN,    /* the coin is thrown */
    CLIENT_MAKING,   /* attempt `attempt` has begun */
    CLIENT_FINISHED, /* the body is there */
    CLIENT_DONE,     /* receipt, refusal, or not drawn: nothing more to do in this round */
} client_phase;

typedef struct client_mark {
    uint64_t round, attempt;
    client_phase phase;
    bool drawn;
    client_body body;
} client_mark;

typedef enum client_file {
    CLIENT_BODY,
    CLIENT_MODEL,
    CLIENT_VOCAB,
    CLIENT_UPLOAD_KEY,
    CLIENT_FILES
} client_file;

/* What became of an update that has a receipt. Values are stable: they stand in a file. */
typedef enum client_counted {
    CLIENT_COUNTED = 1, /* CSP signed that it is in the sum */
    CLIENT_MISSED = 2,  /* it is not, or AS has no proof of it */
    CLIENT_SKIPPED = 3, /* AS says that the round was skipped: nothing of it was released */
    CLIENT_FORMER =
        4, /* the receipt names a key that this client had before: AS proves nothing to us */
} client_counted;

typedef struct client_store client_store;

/* Makes the folder if it is not there. SEFL_ESTATE if another process has it. */
sefl_status client_store_open(client_store **out, const char *folder, const uint8_t id[TASK_ID],
                              size_t head_bytes) SEFL_MUST_CHECK;
void client_store_close(client_store *s);

const client_mark *client_store_mark(const client_store *s);
/* A finished body was missing or changed when the store was opened. */
bool client_store_lost(const client_store *s);
/* Of the present round; valid until the store is closed or the round changes. */
const char *client_store_path(client_store *s, client_file file);

/* Each is durable when it returns. SEFL_ESTATE for a step out of order. */
sefl_status client_store_draw(client_store *s, uint64_t round, bool drawn) SEFL_MUST_CHECK;
sefl_status client_store_begin(client_store *s) SEFL_MUST_CHECK;
sefl_status client_store_finish(client_store *s, const client_body *body) SEFL_MUST_CHECK;
sefl_status client_store_receipt(client_store *s, sefl_span receipt) SEFL_MUST_CHECK;
/* The round is over for this client, without a receipt. */
sefl_status client_store_drop(client_store *s) SEFL_MUST_CHECK;

/* The receipt of a round of this task; SEFL_ENOTFOUND. */
sefl_status client_store_receipt_read(const client_store *s, sefl_buf *out,
                                      uint64_t round) SEFL_MUST_CHECK;

/* The first round of this task below `before` that has a receipt and no outcome; 0: none. */
sefl_status client_store_uncounted(const client_store *s, uint64_t before,
                                   uint64_t *round) SEFL_MUST_CHECK;
/* What became of that round, with the bytes that say so; rounds in rising order. *misses: how many
 * in a row of this task were missed, up to and with this one; CLIENT_SKIPPED and CLIENT_FORMER
 * change nothing. */
sefl_status client_store_counted(client_store *s, uint64_t round, client_counted what,
                                 sefl_span proof, unsigned *misses) SEFL_MUST_CHECK;
#endif
