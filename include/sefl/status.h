/* status: how every SEFL function says whether it worked.
 *
 * A call that can fail returns a sefl_status; zero is success. Beside the code there is one
 * sentence for people, kept per thread, that names what was wrong, with which value, and what was
 * wanted. It never holds a secret.
 *
 *     sefl_status st = sefl_something(...);
 *     if (st != SEFL_OK)
 *         fprintf(stderr, "%s: %s\n", sefl_status_name(st), sefl_last_error());
 *
 * Threads: any; the sentence belongs to the thread that made the failing call.   Secrets: none. */
#ifndef SEFL_STATUS_H
#define SEFL_STATUS_H

#define SEFL_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* One list: code, value, what it means. Values are stable: they appear in logs and exit reports. */
#define SEFL_STATUS_LIST(X)                                        \
    X(OK, 0, "success")                                            \
    X(EINVAL, 1, "an argument or setting is not acceptable")       \
    X(ENOMEM, 2, "out of memory")                                  \
    X(ERANGE, 3, "a value is outside the range that fits")         \
    X(EPROTO, 4, "bytes from a peer or a file break their format") \
    X(EIO, 5, "reading, writing or syncing failed")                \
    X(ERANDOM, 6, "the system gave no randomness")                 \
    X(ECRYPTO, 7, "a cryptographic check failed")                  \
    X(EAUTH, 8, "identity, signature or passphrase not accepted")  \
    X(ESTATE, 9, "not allowed in the present state")               \
    X(ENOTFOUND, 10, "no such thing")                              \
    X(EEXIST, 11, "exists already")                                \
    X(ETIMEOUT, 12, "took longer than its deadline")               \
    X(ECLOSED, 13, "the peer closed the connection")               \
    X(EBUDGET, 14, "the privacy budget does not allow it")         \
    X(EUNSUPPORTED, 15, "not supported by this build or version")  \
    X(ECANCELLED, 16, "stopped on request")

typedef enum sefl_status {
#define SEFL_STATUS_ENUM(name, value, text) SEFL_##name = value,
    SEFL_STATUS_LIST(SEFL_STATUS_ENUM)
#undef SEFL_STATUS_ENUM
} sefl_status;

/* "SEFL_EPROTO"; "SEFL_?" for a number that is no status. Never NULL. */
SEFL_API const char *sefl_status_name(sefl_status st);

/* The list's short explanation of the code. Never NULL. */
SEFL_API const char *sefl_status_text(sefl_status st);

/* The sentence of this thread's latest failure, "" if there was none. Valid until the next
 * failing call on the same thread. */
SEFL_API const char *sefl_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
