/* status: how every SEFL function reports success or failure.
 *
 * A function that can fail returns a sefl_status; zero is success. A failure also records an error
 * message for the calling thread: what is wrong, which value, and what was expected. The message
 * never contains a secret.
 *
 *     sefl_status st = sefl_something(...);
 *     if (st != SEFL_OK)
 *         fprintf(stderr, "%s: %s\n", sefl_status_name(st), sefl_last_error());
 *
 * Threads: any; the message belongs to the thread that made the failing call.   Secrets: none. */
#ifndef SEFL_STATUS_H
#define SEFL_STATUS_H

#define SEFL_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* All codes: (name, value, meaning). Values are stable: they appear in logs and exit reports. */
#define SEFL_STATUS_LIST(X)                                       \
    X(OK, 0, "success")                                           \
    X(EINVAL, 1, "an argument or setting is invalid")             \
    X(ENOMEM, 2, "out of memory")                                 \
    X(ERANGE, 3, "a value is out of range")                       \
    X(EPROTO, 4, "data from a peer or a file is malformed")       \
    X(EIO, 5, "reading, writing or syncing failed")               \
    X(ERANDOM, 6, "the system did not provide randomness")        \
    X(ECRYPTO, 7, "a cryptographic check failed")                 \
    X(EAUTH, 8, "identity, signature or passphrase not accepted") \
    X(ESTATE, 9, "not allowed in the current state")              \
    X(ENOTFOUND, 10, "not found")                                 \
    X(EEXIST, 11, "already exists")                               \
    X(ETIMEOUT, 12, "took longer than its deadline")              \
    X(ECLOSED, 13, "the peer closed the connection")              \
    X(EBUDGET, 14, "the privacy budget does not allow it")        \
    X(EUNSUPPORTED, 15, "not supported by this build or version") \
    X(ECANCELLED, 16, "stopped on request")

typedef enum sefl_status {
#define SEFL_STATUS_ENUM(name, value, text) SEFL_##name = value,
    SEFL_STATUS_LIST(SEFL_STATUS_ENUM)
#undef SEFL_STATUS_ENUM
} sefl_status;

/* Returns the code's name ("SEFL_EPROTO"), or "SEFL_?" if st is not a status code. Never NULL. */
SEFL_API const char *sefl_status_name(sefl_status st);

/* Returns the meaning of the code from the list above. Never NULL. */
SEFL_API const char *sefl_status_text(sefl_status st);

/* Returns the message of this thread's latest failure; "" if there was none. The string stays valid
 * until the next failing call on the same thread. */
SEFL_API const char *sefl_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
