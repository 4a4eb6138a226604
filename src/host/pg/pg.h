/* pg: the PostgreSQL driver of store/db/db.h, for a store that several processes share.
 *
 *     SEFL_TRY(db_open(&d, &db_pg, "postgresql://sefl@db.example/sefl?sslmode=verify-full", ...));
 *
 * The place is a libpq URL. The tables are in the first schema of its search path, which must exist
 * (default: public; ?options=-csearch_path%3DNAME chooses another). The driver refuses
 *   - a password in the URL: it belongs in a passfile (~/.pgpass, PGPASSFILE or ?passfile=), so it
 *     reaches neither a process list nor a log;
 *   - a host that is neither a Unix socket nor a loopback address, without sslmode=verify-full;
 *   - a server with fsync, full_page_writes or synchronous_commit off, or one that confirms a
 *     commit before its standby has it on disk (local, remote_write): an acknowledged step must not
 *     vanish;
 *   - a read-only server (a standby), and one older than version 12.
 * It checks all of this at each connection, also after a restart of the server.
 *
 * Values travel in binary, statements are prepared once per connection. The result of a
 * statement is in memory: callers ask for long lists in pages, and for files in pieces. A
 * connection attempt takes at most 5 s, a statement 60 s, waiting for a lock 20 s. The server ends
 * a transaction that does nothing for 5 s: a stopped process does not hold its locks. After a lost
 * connection the next call connects again, for up to 15 s. With db_open_while libpq connects in a
 * thread of its own: a stopped program waits neither for the server nor for the resolver of names.
 *
 * Writers. Every transaction takes one advisory lock of the schema: db_begin exclusively, all
 * others shared. So db_begin keeps the rule of SQLite (one writer), and db_begin_shared scales.
 * Each transaction learns its number at its start. If a COMMIT gets no answer, the driver asks
 * txid_status on a new connection whether it was rolled back; otherwise the outcome is unknown. It
 * is unknown too if the server answers COMMIT with a warning: it stopped waiting for its standby,
 * and a failover would undo the transaction.
 * Threads: one owner.   Secrets: none in plaintext. */
#ifndef STORE_PG_PG_H
#define STORE_PG_PG_H

#include "store/db/db.h"

extern const db_driver db_pg;

#define PG_PREFIX "postgresql://"

/* Checks a URL as db_open does, without connecting. */
sefl_status pg_check_url(const char *url) SEFL_MUST_CHECK;
/* Connects and checks the server as db_open does; creates nothing. */
sefl_status pg_reach(const char *url) SEFL_MUST_CHECK;
/* The version of libpq, as text. */
const char *pg_version(void);

#endif
