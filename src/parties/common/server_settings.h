/* server_settings: the settings that aggregator.yml and csp.yml share. Each macro is a list of
 * schema rows that fill the named members of `type`.
 * Threads: any. Secrets: none. */
#ifndef ROLES_SERVER_SETTINGS_H
#define ROLES_SERVER_SETTINGS_H

#include "config/address.h"
#include "config/settings.h"

/* clang-format off */
#define SERVER_TLS(type)                                                                           \
    { "tls.cert", SETTING_PATH, NULL, SETTING_TO(type, cert), .example = "cert.pem",               \
      .help = "this server's certificate" },                                                       \
    { "tls.key", SETTING_PATH, NULL, SETTING_TO(type, tls_key), .example = "key.pem",              \
      .secret = true, .help = "the certificate's private key" }

#define SERVER_TASK(type)                                                                          \
    { "sign_key", SETTING_PATH, NULL, SETTING_TO(type, sign_key), .example = "sign.key",           \
      .secret = true, .help = "this server's signing key" },                                       \
    { "task", SETTING_PATH, "", SETTING_TO(type, task), .example = "../public/task.signed",        \
      .help = "the task, signed by both servers; or set `tasks`" },                                \
    { "tasks", SETTING_PATH, "", SETTING_TO(type, tasks), .example = "tasks", .arg = "FOLDER",     \
      .help = "folder of tasks, instead of `task`: the server serves one after the other and "     \
              "waits for the next" },                                                              \
    { "ledger", SETTING_PATH, NULL, SETTING_TO(type, ledger), .example = "ledger",                 \
      .help = "the population's privacy ledger" }

#define SERVER_PROCESS(type, health_at, page_at)                                                   \
    { "memory_lock", SETTING_WORD, "required", .words = "required try",                            \
      .help = "if keys cannot be locked in memory, required refuses to start; try only warns" },   \
    { "threads", SETTING_U64, "0", SETTING_TO(type, threads), .max = 256,                          \
      .help = "number of worker threads; 0 means one per core" },                                  \
    { "link_silence", SETTING_U64, "30", SETTING_TO(type, link_silence_s), .min = 1, .max = 600,   \
      .help = "seconds of silence after which this server drops the link to the other server" },   \
    { "ready_file", SETTING_PATH, "", SETTING_TO(type, ready_file), .example = "ready",            \
      .created = true,                                                                             \
      .help = "file to which the server writes its host:port once it accepts connections" },       \
    { "health", SETTING_ADDRESS, "", SETTING_TO(type, health), .example = health_at,               \
      .help = "loopback address:port that serves /healthz and /metrics over HTTP; empty: off" },   \
    { "page", SETTING_ADDRESS, "", SETTING_TO(type, page), .example = page_at,                     \
      .help = "loopback address:port of the web page for this server's operator, who opens it "    \
              "with the token in state/page.url; empty disables it" },                             \
    { "page_tls", SETTING_ADDRESS, "", SETTING_TO(type, page_tls), .arg = "ADDRESS:PORT",          \
      .help = "address:port of the same page for other machines, over TLS with tls.cert, for the " \
              "client certificates in page_viewers; empty disables it" },                          \
    { "page_viewers", SETTING_PATH, "", SETTING_TO(type, page_viewers),                            \
      .help = "file with the SHA-256 fingerprint of one viewer's key per line, for page_tls" },    \
    { "user", SETTING_TEXT, "", SETTING_TO(type, user), .arg = "NAME",                             \
      .help = "user to which a server started as root switches once its port is bound" },          \
    { "log", SETTING_WORD, "info", .words = "debug info warn error off",                           \
      .help = "minimum log level" }
/* clang-format on */

#endif
