/* trust: an operator's list of parties that may connect to its server (issuers, members, tokens).
 * `sefl ca` and the running server change its file, and the server picks up changes without a
 * restart.
 *
 *     trust_edit e;
 *     SEFL_TRY(trust_edit_begin(&e, "ca/trust"));         // locks the list, then reads it
 *     SEFL_TRY(trust_member_put(e.t, &m));
 *     SEFL_TRY(trust_edit_commit(&e));                    // durable, or the old list stays
 *     trust_edit_end(&e);                                 // always, even after a failure
 *
 *     SEFL_TRY(trust_read(&t, "ca/trust"));               // a server's view, read-only
 *     if (trust_watch_changed(&w)) ...                    // once a second
 *
 * The file has one entry per line, with fields separated by one space, in this order:
 *
 *     sefl trust 1
 *     change N                                              each commit adds one
 *     self ROLE TLS-KEY SIGNING-KEY NAME                    the list's server, if it has one
 *     issuer KEY ROLE STATE LISTED SINCE UNIT NAME DER
 *     member KEY ROLE STATE SINCE UNTIL ISSUER NAME         sorted by KEY
 *     token ID STATE MADE EXPIRES BY NAME                   sorted by ID
 *     end HASH                                              SHA-256 of all previous lines
 *
 * Keys and ids are 64 hex digits (all 0: none): the SHA-256 of a public key (SPKI) or a token's id
 * (trust/token.h). Times are seconds since 1970. In names, bytes outside [A-Za-z0-9._-] are written
 * as %XX; an empty name is "-". DER is in base64. Each list has exactly one representation.
 *
 * An issuer is trusted for one role. If it is `listed`, as the operator's own CA is, its
 * certificates are accepted only for members of the list: a certificate without enrolment is not
 * enough. Otherwise every certificate from the issuer is accepted unless revoked. If an issuer has
 * a `unit`, exactly the certificates with this organisational unit have the role ("*": all of
 * them); SEFL's own role entry is then neither required nor sufficient.
 *
 * Threads: a list from trust_read may be shared (trust_hold); an edit has one owner.   Secrets:
 * none; the list of names is private (mode 0600). */
#ifndef TRUST_TRUST_H
#define TRUST_TRUST_H

#include "base/buf.h"

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

enum {
    TRUST_KEY = 32,
    TRUST_NAME_MAX = 64,
    TRUST_DER_MAX = 8192,
    TRUST_FILE_MAX = 64 << 20,
    TRUST_ITEMS_MAX = 1 << 17, /* entries of each kind */
};

typedef enum trust_role { TRUST_CLIENT = 1, TRUST_AGGREGATOR, TRUST_CSP } trust_role;
typedef enum trust_state { TRUST_ACTIVE = 1, TRUST_REVOKED } trust_state;
typedef enum trust_token_state { TRUST_OPEN = 1, TRUST_USED, TRUST_CANCELLED } trust_token_state;

/* Returns "client", "aggregator" or "csp"; NULL if r is not a role. */
const char *trust_role_name(trust_role r);
/* Returns the role with this name; 0 if there is none. */
trust_role trust_role_of(const char *name);
/* True for 1 to 64 characters of [A-Za-z0-9._-] that begin with a letter or digit. */
bool trust_name_ok(const char *name);
/* SEFL_EINVAL unless trust_name_ok; the message states the rule. */
sefl_status trust_name_check(const char *name) SEFL_MUST_CHECK;

typedef struct trust_self {
    trust_role role; /* 0: the server has no certificate yet */
    uint8_t tls[TRUST_KEY];
    uint8_t sign[32]; /* the Ed25519 public key itself */
    char name[TRUST_NAME_MAX + 1];
} trust_self;

typedef struct trust_issuer {
    uint8_t key[TRUST_KEY];
    trust_role role;
    trust_state state;
    bool listed;
    int64_t since; /* time of the last state change */
    char unit[TRUST_NAME_MAX + 1], name[TRUST_NAME_MAX + 1];
    sefl_span der; /* owned by the list */
} trust_issuer;

typedef struct trust_member {
    uint8_t key[TRUST_KEY];
    trust_role role;
    trust_state state;
    int64_t since, until;      /* last state change; expiry of its newest certificate, 0: unknown */
    uint8_t issuer[TRUST_KEY]; /* zeros: not issued here (AS issues, CSP only approves) */
    char name[TRUST_NAME_MAX + 1];
} trust_member;

typedef struct trust_token {
    uint8_t id[TRUST_KEY];
    trust_token_state state;
    int64_t made, expires; /* after its first use, the same key may use it until `expires` */
    uint8_t by[TRUST_KEY]; /* the key that used it; zeros: none yet */
    char name[TRUST_NAME_MAX + 1];
} trust_token;

typedef struct trust {
    _Atomic unsigned holders;
    uint64_t change;
    trust_self self;
    trust_issuer *issuer;
    trust_member *member;
    trust_token *token;
    size_t issuers, members, tokens;
    size_t issuers_room, members_room, tokens_room;
} trust;

sefl_status trust_new(trust **out) SEFL_MUST_CHECK; /* makes an empty list */
trust *trust_hold(const trust *t);
void trust_free(trust *t); /* drops one reference */

/* SEFL_EPROTO with the line number if the bytes are not a valid list. */
sefl_status trust_parse(trust **out, sefl_span text) SEFL_MUST_CHECK;
sefl_status trust_print(sefl_buf *out, const trust *t) SEFL_MUST_CHECK;
sefl_status trust_read(trust **out, const char *path) SEFL_MUST_CHECK;

/* Return NULL if there is no such entry. trust_find_name finds active members only. */
trust_member *trust_find(const trust *t, const uint8_t key[TRUST_KEY]);
trust_member *trust_find_name(const trust *t, const char *name);
trust_token *trust_find_token(const trust *t, const uint8_t id[TRUST_KEY]);
trust_issuer *trust_find_issuer(const trust *t, const uint8_t key[TRUST_KEY], trust_role role);
/* Returns the number of active members in this role. */
size_t trust_count(const trust *t, trust_role role);

/* Add a copy of the entry, including its DER bytes, or replace the entry with the same key. The
 * argument must not be part of the list. */
sefl_status trust_member_put(trust *t, const trust_member *m) SEFL_MUST_CHECK;
sefl_status trust_token_put(trust *t, const trust_token *k) SEFL_MUST_CHECK;
sefl_status trust_issuer_put(trust *t, const trust_issuer *i) SEFL_MUST_CHECK;
/* Removes m, one of the list's members; later members move up by one. */
void trust_member_drop(trust *t, trust_member *m);

typedef struct trust_edit {
    trust *t;
    char *path;
    int lock;
    bool in_force; /* the file contains the new list */
} trust_edit;

/* Locks the list (flock on path.lock) and reads it; SEFL_ETIMEOUT if another writer keeps the lock
 * for three seconds. SEFL_ENOTFOUND if there is no list (trust_create makes one). */
sefl_status trust_edit_begin(trust_edit *e, const char *path) SEFL_MUST_CHECK;
/* Writes the new list. SEFL_EINVAL, with the old list kept, if the new one does not parse. After
 * any other failure, in_force is true if the file has the new list, perhaps not durably. */
sefl_status trust_edit_commit(trust_edit *e) SEFL_MUST_CHECK;
void trust_edit_end(trust_edit *e);
/* Creates an empty list; SEFL_EEXIST if there is one. */
sefl_status trust_create(const char *path) SEFL_MUST_CHECK;

typedef struct trust_watch {
    const char *path; /* borrowed */
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec when;
    bool again, failed;
    uint64_t change; /* change number of the newest list seen */
} trust_watch;

/* True if the file has changed since the last call, at the first call, while the file is missing,
 * and after trust_watch_failed. */
bool trust_watch_changed(trust_watch *w);
/* After reading the list, call trust_watch_good or trust_watch_failed. trust_watch_failed makes the
 * next trust_watch_changed return true; it returns true for the first failure in a row, to be
 * logged. */
bool trust_watch_failed(trust_watch *w);
/* Returns false if this list is older than one seen before. Then somebody restored an old copy, in
 * which members revoked since are active again. */
bool trust_watch_good(trust_watch *w, uint64_t change);

#endif
