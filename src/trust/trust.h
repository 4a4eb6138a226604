/* trust: an operator's list of who may connect to its server: issuers, members, tokens. One file;
 * `sefl ca` and the running server change it, and the server notices changes without a restart.
 *
 *     trust_edit e;
 *     SEFL_TRY(trust_edit_begin(&e, "ca/trust"));         // locks out other writers, reads
 *     SEFL_TRY(trust_member_put(e.t, &m));
 *     SEFL_TRY(trust_edit_commit(&e));                    // durable, or the old one stays
 *     trust_edit_end(&e);                                 // in any case
 *
 *     SEFL_TRY(trust_read(&t, "ca/trust"));               // a server's view, never changed again
 *     if (trust_watch_changed(&w)) ...                    // once a second
 *
 * The file is text: one entry per line, fields separated by one blank, in this order:
 *
 *     sefl trust 1
 *     change N                                              every commit adds one
 *     self ROLE TLS-KEY SIGNING-KEY NAME                    whose list it is, if any
 *     issuer KEY ROLE STATE LISTED SINCE UNIT NAME DER
 *     member KEY ROLE STATE SINCE UNTIL ISSUER NAME         sorted by KEY
 *     token ID STATE MADE EXPIRES BY NAME                   sorted by ID
 *     end HASH                                              SHA-256 of all lines before
 *
 * Keys and ids are 64 hex digits (0...: none): the SHA-256 of a public key (SPKI) or of a token's
 * public half (trust/token.h). Times are seconds since 1970. Text has its bytes outside
 * [A-Za-z0-9._-] as %XX and is "-" where it is empty. DER is base64. One list has one text.
 *
 * An issuer counts for one role. `listed`: only members of the list may connect (the operator's own
 * CA: a certificate without enrolment is not enough). Otherwise every certificate of the issuer is
 * accepted unless revoked. If an issuer has a `unit`, exactly the certificates of this
 * organisational unit have the role ("*": all of them); SEFL's own mark of the role is then neither
 * required nor sufficient.
 *
 * Threads: a read list may be shared (trust_hold); an edit has one owner.   Secrets: none; the list
 * of names is private (mode 0600). */
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
    TRUST_ITEMS_MAX = 1 << 17, /* of each kind */
};

typedef enum trust_role { TRUST_CLIENT = 1, TRUST_AGGREGATOR, TRUST_CSP } trust_role;
typedef enum trust_state { TRUST_ACTIVE = 1, TRUST_REVOKED } trust_state;
typedef enum trust_token_state { TRUST_OPEN = 1, TRUST_USED, TRUST_CANCELLED } trust_token_state;

/* "client", "aggregator", "csp"; NULL for anything else. */
const char *trust_role_name(trust_role r);
/* 0 for anything else. */
trust_role trust_role_of(const char *name);
/* Names are 1 to 64 characters of [A-Za-z0-9._-], beginning with a letter or digit. */
bool trust_name_ok(const char *name);
/* SEFL_EINVAL with that sentence for any other. */
sefl_status trust_name_check(const char *name) SEFL_MUST_CHECK;

typedef struct trust_self {
    trust_role role; /* 0: no server made yet */
    uint8_t tls[TRUST_KEY];
    uint8_t sign[32]; /* the Ed25519 public key itself */
    char name[TRUST_NAME_MAX + 1];
} trust_self;

typedef struct trust_issuer {
    uint8_t key[TRUST_KEY];
    trust_role role;
    trust_state state;
    bool listed;
    int64_t since; /* of its state */
    char unit[TRUST_NAME_MAX + 1], name[TRUST_NAME_MAX + 1];
    sefl_span der; /* the list's memory */
} trust_issuer;

typedef struct trust_member {
    uint8_t key[TRUST_KEY];
    trust_role role;
    trust_state state;
    int64_t since, until;      /* of its state; its newest certificate's end, 0: none of ours */
    uint8_t issuer[TRUST_KEY]; /* zeros: no certificate of ours (CSP approves, AS issues) */
    char name[TRUST_NAME_MAX + 1];
} trust_member;

typedef struct trust_token {
    uint8_t id[TRUST_KEY];
    trust_token_state state;
    int64_t made, expires; /* of a used one: when its own key can repeat no more (token.h) */
    uint8_t by[TRUST_KEY]; /* whose key used it */
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

sefl_status trust_new(trust **out) SEFL_MUST_CHECK; /* an empty one */
trust *trust_hold(const trust *t);
void trust_free(trust *t); /* one holder less */

/* SEFL_EPROTO with the line for any other text. */
sefl_status trust_parse(trust **out, sefl_span text) SEFL_MUST_CHECK;
sefl_status trust_print(sefl_buf *out, const trust *t) SEFL_MUST_CHECK;
sefl_status trust_read(trust **out, const char *path) SEFL_MUST_CHECK;

/* NULL if there is none. The name: of an active member. */
trust_member *trust_find(const trust *t, const uint8_t key[TRUST_KEY]);
trust_member *trust_find_name(const trust *t, const char *name);
trust_token *trust_find_token(const trust *t, const uint8_t id[TRUST_KEY]);
trust_issuer *trust_find_issuer(const trust *t, const uint8_t key[TRUST_KEY], trust_role role);
/* Active members of this role. */
size_t trust_count(const trust *t, trust_role role);

/* Adds or replaces with a copy, the DER bytes included; the original is outside the list. */
sefl_status trust_member_put(trust *t, const trust_member *m) SEFL_MUST_CHECK;
sefl_status trust_token_put(trust *t, const trust_token *k) SEFL_MUST_CHECK;
sefl_status trust_issuer_put(trust *t, const trust_issuer *i) SEFL_MUST_CHECK;
/* Removes m, one of the list's members; the members behind it move. */
void trust_member_drop(trust *t, trust_member *m);

typedef struct trust_edit {
    trust *t;
    char *path;
    int lock;
    bool in_force; /* the new list is the one that is read */
} trust_edit;

/* Waits for other writers (path.lock, flock), up to three seconds: SEFL_ETIMEOUT. SEFL_ENOTFOUND if
 * there is no list: trust_create. */
sefl_status trust_edit_begin(trust_edit *e, const char *path) SEFL_MUST_CHECK;
/* SEFL_EINVAL, and the old list stays, if the new one could not be read again. After any other
 * failure in_force tells which of the two is in the file: the last step, making it durable, may
 * have failed. */
sefl_status trust_edit_commit(trust_edit *e) SEFL_MUST_CHECK;
void trust_edit_end(trust_edit *e);
/* Makes an empty list; SEFL_EEXIST if there is one. */
sefl_status trust_create(const char *path) SEFL_MUST_CHECK;

typedef struct trust_watch {
    const char *path; /* borrowed */
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec when;
    bool again, failed;
    uint64_t change; /* of the newest list seen */
} trust_watch;

/* Is the file another one than at the last call? True at the first, while it is gone, and after
 * trust_watch_failed. */
bool trust_watch_changed(trust_watch *w);
/* Report how reading went. After trust_watch_failed the next look tries again; it returns true for
 * the first failure in a row, which is worth a log line. */
bool trust_watch_failed(trust_watch *w);
/* False: this list is older than one that was in force: an old copy was put back, and members
 * revoked since are active again. */
bool trust_watch_good(trust_watch *w, uint64_t change);

#endif
