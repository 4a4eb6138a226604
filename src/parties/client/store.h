/* client_store: keeps a client's state on disk: its current round, the finished body, the receipts.
 *
 *     folder/lock           held while the store is open: one process per folder
 *     folder/mark-TASK      the client's state in a task, replaced atomically (below)
 *     folder/round-N.body   the finished ciphertext of round N; deleted after its receipt
 *     folder/model-N        the model that round N starts from; deleted after training
 *     folder/final-TASK     the final model while it is fetched (models.h)
 *     folder/vocab.txt      the public words
 *     folder/receipts       the signed receipts of all rounds, one file (receipts.h)
 *     folder/counted        AS's answers to requests for proofs that updates were counted
 *                           (protocol/counted.h), in the same format as receipts; a record is
 *                           client_counted u8, then the answer's bytes
 *     folder/upload.key     the key that signs uploads (upload_key.h)
 *
 *     SEFL_TRY(client_store_open(&s, folder, t->id, head_bytes(t->seal)));
 *     SEFL_TRY(client_store_draw(s, round, drawn)); // the sampling coin, once per round
 *     SEFL_TRY(client_store_begin(s, list.hash));         // a new attempt, before any coin
 *     ...client_update_make into client_store_path(s, CLIENT_BODY)...
 *     SEFL_TRY(client_store_finish(s, &body));            // from here on these bytes may be sent
 *     SEFL_TRY(client_store_receipt(s, envelope));        // keeps it; deletes the body
 *     SEFL_TRY(client_store_counted(s, round, CLIENT_COUNTED, answer, &misses));     // once known
 *
 * Rules that survive kill -9 at any moment
 *   - The mark only moves forward: DRAWN, MAKING (attempt k), FINISHED, DONE; then a later round.
 *   - The client marks a (round, attempt) before it draws coins for quantising and encryption, so
 *     it draws them once per attempt. It marks its own sampling coin before anything
 *     depends on it.
 *   - client_store_open marks a complete body as FINISHED if the client died before it could mark
 *     it, and deletes an incomplete body, of which nothing was sent.
 *   - A FINISHED body that is missing or changed is never made again, since its first bytes may
 *     have been sent. The round is then DONE without a receipt (client_store_lost).
 *   - Each task has its own mark, so a sampling coin stays drawn when AS switches to another task
 *     and back. When another task begins, the bodies and models of the old one are deleted;
 *     receipts and marks stay.
 *
 * The mark: "SEFLCLM4" | task 32 | round u64 | attempt u64 | phase u8, plus 128 if the round is
 * charged | drawn u8 | body's units 32 | body's head 32 | body bytes u64 | list of records 32 |
 * SHA-256 of all that (client_update.h: client_body). An invalid mark is an error: the client does
 * not start over. Threads: one owner. Secrets: none. */
#ifndef ROLES_CLIENT_STORE_H
#define ROLES_CLIENT_STORE_H

#include "roles/client/client_update.h"

typedef enum client_phase {
    CLIENT_NOWHERE,
    CLIENT_DRAWN,    /* the sampling coin is drawn */
    CLIENT_MAKING,   /* attempt `attempt` has begun */
    CLIENT_FINISHED, /* the body is complete */
    CLIENT_DONE,     /* the round is finished: receipt, refusal, or not drawn */
} client_phase;

typedef struct client_mark {
    uint64_t round, attempt;
    client_phase phase;
    bool charged; /* this client's ledger has charged the round */
    bool drawn;
    client_body body;
    uint8_t list[SHA256_BYTES]; /* the body's records (store/record_list.h); zeros: no list */
} client_mark;

typedef enum client_file {
    CLIENT_BODY,
    CLIENT_MODEL,
    CLIENT_FINAL,
    CLIENT_VOCAB,
    CLIENT_UPLOAD_KEY,
    CLIENT_FILES
} client_file;

/* The outcome of an update with a receipt. Values are stable: a file stores them. */
typedef enum client_counted {
    CLIENT_COUNTED = 1, /* CSP signed that it is in the sum */
    CLIENT_MISSED = 2,  /* it is not in the sum, or AS has no proof */
    CLIENT_SKIPPED = 3, /* AS claims that the round was skipped: nothing was released */
    CLIENT_FORMER = 4,  /* the receipt names this client's former key: AS returns no proof for it */
} client_counted;

/* How a mark begins, and the bit in its phase for a charged round. */
#define CLIENT_MARK_MAGIC "SEFLCLM4"
enum { CLIENT_MARK_CHARGED = 0x80 };

typedef struct client_store client_store;

/* Creates the folder if it does not exist. SEFL_ESTATE if another process uses it. */
sefl_status client_store_open(client_store **out, const char *folder, const uint8_t id[TASK_ID],
                              size_t head_bytes) SEFL_MUST_CHECK;
void client_store_close(client_store *s);

const client_mark *client_store_mark(const client_store *s);
/* True if a finished body was missing or changed when the store was opened. */
bool client_store_lost(const client_store *s);
/* Returns a file's path in the current round; valid until the store closes or the round changes. */
const char *client_store_path(client_store *s, client_file file);

/* Each step is durable when it returns. SEFL_ESTATE for a step out of order. */
sefl_status client_store_draw(client_store *s, uint64_t round, bool drawn) SEFL_MUST_CHECK;
/* list: the hash of the list of records that the body is made under; NULL: there is none. */
sefl_status client_store_begin(client_store *s, const uint8_t *list) SEFL_MUST_CHECK;
sefl_status client_store_finish(client_store *s, const client_body *body) SEFL_MUST_CHECK;
/* The round is charged; call it after the charge and before the first byte of the body leaves. */
sefl_status client_store_charged(client_store *s) SEFL_MUST_CHECK;
sefl_status client_store_receipt(client_store *s, sefl_span receipt) SEFL_MUST_CHECK;
/* Ends the round for this client without a receipt. */
sefl_status client_store_drop(client_store *s) SEFL_MUST_CHECK;

/* All receipts, of all tasks; they live as long as the store. */
const struct receipts *client_store_receipts(const client_store *s);
/* Appends the receipt for a round of this task; SEFL_ENOTFOUND if there is none. */
sefl_status client_store_receipt_read(const client_store *s, sefl_buf *out,
                                      uint64_t round) SEFL_MUST_CHECK;

/* Finds this task's first round below `before` that has a receipt but no outcome yet; 0: none. */
sefl_status client_store_uncounted(const client_store *s, uint64_t before,
                                   uint64_t *round) SEFL_MUST_CHECK;
/* Stores the outcome of a round with the bytes that prove it; call it for rounds in ascending
 * order. Sets *misses to the number of consecutive misses in this task up to this round;
 * CLIENT_SKIPPED and CLIENT_FORMER do not change it. */
sefl_status client_store_counted(client_store *s, uint64_t round, client_counted what,
                                 sefl_span proof, unsigned *misses) SEFL_MUST_CHECK;
#endif
