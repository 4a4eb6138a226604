/* log: what a client or server of this library writes to its log.
 *
 *     sefl_client_options o = { .size = sizeof o, .log_fd = 2 };      // to stderr
 *     sefl_client_options o = { .size = sizeof o, .log = my_log };    // to a function
 *
 * An event is one JSON object: {"time":"2026-01-01T12:01:07.123Z","level":"info",
 * "event":"round done","round":3,...}; a descriptor that is a terminal gets text instead. Fields
 * are rounds, sizes, public hashes, file names and reasons. A log never contains a secret, a word
 * of the text or a value of the model. A log function is called from any thread of the library. */
#ifndef SEFL_LOG_H
#define SEFL_LOG_H

typedef enum sefl_log_level {
    SEFL_LOG_DEBUG,
    SEFL_LOG_INFO,
    SEFL_LOG_WARN,
    SEFL_LOG_ERROR
} sefl_log_level;

#endif
