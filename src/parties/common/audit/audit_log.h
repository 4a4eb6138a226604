/* audit_log: a server's record of what it did, as a chain of hashes (state/audit.jsonl).
 *
 *     SEFL_TRY(audit_log_open(&a, &(audit_log_config){ .folder = "state", .key = key, ... }));
 *     audit_add(a, "upload", lf_u64("round", 3), lf_key("client", client), lf_key("body", body));
 *     SEFL_TRY(audit_log_sync(a));             // all entries so far are durable
 *     SEFL_TRY(audit_log_sign(a));             // adds a checkpoint, then syncs
 *
 *     {"n":17,"time":1790000000,"kind":"upload","round":3,...,"prev":"HEX","hash":"HEX"}
 *
 * `hash` is the SHA-256 of the line's bytes before `,"hash":"`, and `prev` is the hash of the line
 * before (zeros in the first line). So a changed, missing, added or moved line breaks the chain at
 * that line. A checkpoint is an entry with the server's signature (SIGN_AUDIT) on the number n
 * (u64) and the hash (32) of the entry before it. The file audit.head beside the log is a copy of
 * the last checkpoint, so that `sefl verify` notices if the end of the log is cut off. The journal
 * keeps the last checkpoint too: its number, its hash and where its line ends. A log that somebody
 * wrote anew does not contain that line, so the server does not continue it. There is a checkpoint
 * after each start and after each round.
 *
 * Files. A checkpoint ends a file that has AUDIT_FILE_MAX bytes: the file gets the name
 * audit-N.jsonl, N being the number of that entry, and the new audit.jsonl begins with the same
 * line. The entries and the chain go on, and audit_read.h reads all files as one log.
 *
 * An entry contains numbers, names and public hashes, never a secret and nothing about the content
 * of an update. docs/PROTOCOL.md, "The audit log", lists the kinds. Refusals are limited, so that
 * nobody can fill the disk or crowd out others: between two checkpoints equal refusals (the same
 * client, reason and round) get one entry, those of no client AUDIT_REFUSED_STRANGE entries,
 * certificates that are not on the list AUDIT_REFUSED_CERTS entries for each reason, and all
 * together at most AUDIT_REFUSED_PER_S a second. The entry more_refused counts the rest before the
 * next checkpoint.
 *
 * Durability. audit_add only appends to memory. The stores of both servers (audit_as.h,
 * audit_csp.h) sync the log before they make the next fact durable, and the roles sync it once a
 * second. After a failed write or sync the log writes all lines again that are not durable, so none
 * is lost while the process lives. Each step of a round that a crash or a failure interrupts is
 * repeated, and so is its entry: the same entry may occur twice. audit_log_open removes an
 * incomplete last line and writes the rest again. It refuses a log that ends before audit.head,
 * that lacks audit.head or the journal's checkpoint (SEFL_ESTATE), or whose last line was changed
 * (SEFL_EPROTO), and one that another process uses (SEFL_ESTATE). If log and audit.head are both
 * missing, though the journal names a checkpoint, a new log begins with the entry log_lost.
 * Threads: any.   Secrets: the signing key, which it borrows. */
#ifndef ROLES_AUDIT_AUDIT_LOG_H
#define ROLES_AUDIT_AUDIT_LOG_H

#include "base/log.h"
#include "crypto/sign.h"
#include "net/x509.h"
#include "store/journal/journal.h"
#include "store/ledger.h"

#define AUDIT_LOG_NAME  "audit.jsonl"
#define AUDIT_HEAD_NAME "audit.head"

enum {
    AUDIT_REFUSED_PER_S = 20,
    AUDIT_REFUSED_STRANGE = 16,
    AUDIT_REFUSED_CERTS = 4,
    AUDIT_SIGNED_BYTES = 40,
    AUDIT_FILE_MAX = 64 << 20
};

typedef struct audit_log audit_log;

typedef struct audit_log_config {
    const char *folder;      /* must exist */
    const sign_key *key;     /* signs checkpoints */
    const sefl_clock *clock; /* wall clock */
    sefl_log *log;
    journal *journal;  /* NULL: none keeps the last checkpoint */
    uint64_t file_max; /* bytes from which a checkpoint ends a file; 0: AUDIT_FILE_MAX */
} audit_log_config;

/* Continues the log in this folder, or begins one. What the config borrows must outlive it. */
sefl_status audit_log_open(audit_log **out, const audit_log_config *c) SEFL_MUST_CHECK;
/* Syncs the log; a failure is logged. NULL is allowed. */
void audit_log_close(audit_log *a);

/* Adds an entry. If there is no memory for it, the next sync fails. Nothing if a is NULL. */
void audit_log_add(audit_log *a, const char *kind, const log_field *fields);
#define audit_add(a, kind, ...) audit_log_add((a), (kind), LOG_FIELDS(__VA_ARGS__))
/* The same, unless an equal entry was added since the last checkpoint: for a request that a peer
 * may repeat as often as it likes. */
void audit_log_once(audit_log *a, const char *kind, const log_field *fields);
#define audit_once(a, kind, ...) audit_log_once((a), (kind), LOG_FIELDS(__VA_ARGS__))
/* Adds an entry about a round with some public bytes, and a digest (NULL: none). */
sefl_status audit_add_bytes(audit_log *a, const char *kind, uint64_t round, const uint8_t *digest,
                            const char *key, sefl_span bytes) SEFL_MUST_CHECK;
/* Adds the entry of a round's charge; h: the ledger's head after it. */
void audit_add_charge(audit_log *a, uint64_t round, const ledger_head *h);
/* Adds an entry of the kind "refused", within the limits. */
void audit_log_refused(audit_log *a, const log_field *fields);
#define audit_refused(a, ...) audit_log_refused((a), LOG_FIELDS(__VA_ARGS__))
/* The same for a peer whose certificate was refused; by: the role that refused it. */
void audit_peer_refused(audit_log *a, const char *by, const x509_peer *p);

/* On SEFL_OK all entries are durable. SEFL_ESTATE: another program has changed the file. SEFL_OK if
 * a is NULL. */
sefl_status audit_log_sync(audit_log *a) SEFL_MUST_CHECK;
/* Calls audit_log_sync, and logs when it begins to fail and when it works again. For the roles,
 * about once a second. */
void audit_log_tick(audit_log *a);
/* Adds a checkpoint, unless the last entry is one; then syncs and writes audit.head. */
sefl_status audit_log_sign(audit_log *a) SEFL_MUST_CHECK;

/* The first entry of a server that begins or continues a task; and the last one; each with a
 * checkpoint. audit_end closes the log, and logs a failure. audit_end allows NULL. */
struct task;
sefl_status audit_started(audit_log *a, const char *role, const struct task *t) SEFL_MUST_CHECK;
void audit_end(audit_log *a);

/* Writes the bytes that a checkpoint signs. */
void audit_signed_bytes(uint8_t out[AUDIT_SIGNED_BYTES], uint64_t n, const uint8_t hash[32]);

#endif
