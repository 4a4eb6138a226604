/* pg_inside: what pg.c (statements, transactions) and pg_connect.c (connections) share. */
#ifndef STORE_PG_PG_INSIDE_H
#define STORE_PG_PG_INSIDE_H

#include "store/pg/pg.h"

#include <libpq-fe.h>

enum { PG_KEPT = 64 };

typedef struct pg {
    db base;
    char *url;
    const sefl_progress *going; /* of db_open_while */
    PGconn *conn;               /* NULL: none */
    char *kept[PG_KEPT]; /* texts of the prepared statements s0, s1, ... of this connection */
    bool reached;        /* there was a connection: a missing password may come back */
    bool in_transaction;
    bool lost;   /* the transaction's connection broke: every statement fails until rollback */
    bool warned; /* the server warned since pg_commit began */
    char xid[24];
} pg;

/* Connects if there is no connection, and checks the server's settings. Tries again for `patience`
 * ms while the server does not answer. SEFL_ECANCELLED if d->going says no. */
sefl_status pg_connect(pg *d, unsigned patience_ms) SEFL_MUST_CHECK;
void pg_disconnect(pg *d);
/* Checks the URL, and sets d->url and the place for messages. */
sefl_status pg_take_url(pg *d, const char *url) SEFL_MUST_CHECK;
/* The first line of libpq's message: no password is ever in it, because no URL with one is used. */
const char *pg_reason(const char *message, char out[200]);

#endif
