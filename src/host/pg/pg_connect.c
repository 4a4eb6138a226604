/* Design. The URL is parsed once with libpq's own parser; what it names explicitly decides whether
 * the server is local. After the connection, libpq tells which address it really used: the
 * environment (PGHOSTADDR) cannot move a local name elsewhere. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cond.h"
#include "store/pg/pg_inside.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 120000, PAUSE_MS = 100, STOP_MS = 300 };

/* ---- the URL ------------------------------------------------------------------------------- */

static const char *value_of(const PQconninfoOption *o, const char *key)
{
    for (; o->keyword; o++)
        if (strcmp(o->keyword, key) == 0)
            return o->val ? o->val : "";
    return "";
}

static bool is_loopback(const char *host, size_t n)
{
    char text[64];
    struct in_addr four;
    struct in6_addr six;
    if (n >= sizeof text)
        return false;
    memcpy(text, host, n);
    text[n] = 0;
    return strcmp(text, "localhost") == 0 ||
           (inet_pton(AF_INET, text, &four) == 1 && ntohl(four.s_addr) >> 24 == 127) ||
           (inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six));
}

/* Every host of a comma-separated list is a Unix socket or a loopback address. */
static bool all_local(const char *hosts)
{
    while (*hosts) {
        size_t n = strcspn(hosts, ",");
        if (n > 0 && hosts[0] != '/' && hosts[0] != '@' && !is_loopback(hosts, n))
            return false;
        hosts += n + (hosts[n] == ',');
    }
    return true;
}

static sefl_status check_options(const PQconninfoOption *o)
{
    const char *host = value_of(o, "host"), *addr = value_of(o, "hostaddr");
    SEFL_NEED(!*value_of(o, "password"), SEFL_EINVAL,
              "the URL contains a password: put it into a passfile (~/.pgpass, or "
              "?passfile=FILE) and remove it from the URL");
    SEFL_NEED(!*value_of(o, "service"), SEFL_EINVAL, "the URL must not name a service");
    SEFL_NEED(*host || *addr, SEFL_EINVAL,
              "the URL names no host (a Unix socket: postgresql:///DATABASE?host=/FOLDER)");
    SEFL_NEED(*value_of(o, "dbname"), SEFL_EINVAL, "the URL names no database");
    SEFL_NEED((all_local(host) && all_local(addr)) ||
                  strcmp(value_of(o, "sslmode"), "verify-full") == 0,
              SEFL_EINVAL,
              "the server %s is not on this machine: add sslmode=verify-full (and "
              "sslrootcert=FILE) to the URL",
              *host ? host : addr);
    return SEFL_OK;
}

static sefl_status parse(PQconninfoOption **out, const char *url)
{
    SEFL_NEED(strncmp(url, PG_PREFIX, strlen(PG_PREFIX)) == 0, SEFL_EINVAL,
              "not a URL that begins with " PG_PREFIX);
    *out = PQconninfoParse(url, NULL); /* its message may quote the URL: not shown */
    SEFL_NEED(*out != NULL, SEFL_EINVAL,
              "the URL is malformed, or has an option that PostgreSQL does not know: "
              "postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full&passfile=FILE");
    sefl_status st = check_options(*out);
    if (st != SEFL_OK)
        PQconninfoFree(*out), *out = NULL;
    return st;
}

sefl_status pg_check_url(const char *url)
{
    PQconninfoOption *o;
    SEFL_PASS(parse(&o, url));
    PQconninfoFree(o);
    return SEFL_OK;
}

sefl_status pg_take_url(pg *d, const char *url)
{
    PQconninfoOption *o;
    char place[300];
    SEFL_PASS(parse(&o, url));
    const char *host = value_of(o, "host"), *port = value_of(o, "port");
    snprintf(place, sizeof place, "%s%.120s%s%.10s/%.120s", host[0] == '/' ? "" : PG_PREFIX,
             *host ? host : value_of(o, "hostaddr"), *port ? ":" : "", port, value_of(o, "dbname"));
    PQconninfoFree(o);
    SEFL_PASS(sefl_strdup(&d->url, url));
    return sefl_strdup(&d->base.place, place);
}

/* ---- a connection -------------------------------------------------------------------------- */

const char *pg_reason(const char *message, char out[200])
{
    size_t n = strcspn(message, "\n");
    snprintf(out, 200, "%.*s", (int)(n < 190 ? n : 190), n ? message : "no reason given");
    return out;
}

void pg_disconnect(pg *d)
{
    PQfinish(d->conn); /* NULL is fine */
    d->conn = NULL;
    for (unsigned i = 0; i < PG_KEPT; i++) {
        sefl_free(d->kept[i]);
        d->kept[i] = NULL;
    }
}

/* What a connection sets and asks, in one message. */
static const char hello[] =
    "SET statement_timeout='60s';SET lock_timeout='20s';"
    "SET idle_in_transaction_session_timeout='5s';SET standard_conforming_strings=on;"
    "SELECT current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('synchronous_commit'),"
    " pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,"
    " coalesce(current_schema(), '')";

static sefl_status check_answers(const pg *d, const PGresult *r)
{
    static const char *const names[] = { "fsync", "full_page_writes", "synchronous_commit" };
    for (int i = 0; i < 3; i++) {
        const char *v = PQgetvalue(r, 0, i);
        SEFL_NEED(
            strcmp(v, "on") == 0 || (i == 2 && strcmp(v, "remote_apply") == 0), SEFL_ESTATE,
            "%s: the server runs with %s=%.20s, so a crash could undo acknowledged steps: set "
            "it to on",
            d->base.place, names[i], v);
    }
    SEFL_NEED(strcmp(PQgetvalue(r, 0, 3), "f") == 0, SEFL_ESTATE, "%s is read-only (a standby?)",
              d->base.place);
    SEFL_NEED(*PQgetvalue(r, 0, 4), SEFL_ENOTFOUND,
              "%s: the schema of the search path does not exist: create it, or set search_path of "
              "the role (docs/OPERATING.md, section 14)",
              d->base.place);
    return SEFL_OK;
}

static sefl_status check_server(pg *d)
{
    char why[200];
    SEFL_NEED(PQserverVersion(d->conn) >= OLDEST, SEFL_EUNSUPPORTED,
              "%s: PostgreSQL %d is too old: version 12 or later is needed", d->base.place,
              PQserverVersion(d->conn) / 10000);
    PGresult *r = PQexec(d->conn, hello);
    sefl_status st =
        PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1
            ? check_answers(d, r)
            : sefl_fail(SEFL_EIO, "%s: %s", d->base.place, pg_reason(PQerrorMessage(d->conn), why));
    PQclear(r);
    return st;
}

/* Notes warnings, for pg_commit, and ignores other notices: libpq prints them on stderr by
 * default. */
static void quiet(void *ctx, const PGresult *r)
{
    const char *how = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (how && strcmp(how, "WARNING") == 0)
        ((pg *)ctx)->warned = true;
}

static PGconn *dial(const char *url)
{
    /* the URL comes first; what follows it wins */
    const char *const keys[] = { "dbname",           "connect_timeout",     "tcp_user_timeout",
                                 "keepalives_idle",  "keepalives_interval", "keepalives_count",
                                 "application_name", "client_encoding",     NULL };
    const char *const values[] = { url, "5", "20000", "10", "5", "3", "sefl", "UTF8", NULL };
    return PQconnectdbParams(keys, values, 1);
}

/* A connection that a thread makes. The caller may leave before it is there; the thread then ends
 * it. (libpq can connect without waiting, but then tries only the first host of several, and waits
 * for the resolver all the same.) */
typedef struct attempt {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool done, left;
    char *url;
    PGconn *conn;
} attempt;

static void attempt_free(attempt *a)
{
    PQfinish(a->conn);
    pthread_cond_destroy(&a->moved);
    pthread_mutex_destroy(&a->lock);
    sefl_free(a->url);
    sefl_free(a);
}

static void *dial_in_thread(void *arg)
{
    attempt *a = arg;
    PGconn *conn = dial(a->url);
    pthread_mutex_lock(&a->lock);
    a->conn = conn;
    a->done = true;
    const bool left = a->left;
    pthread_cond_signal(&a->moved);
    pthread_mutex_unlock(&a->lock);
    if (left)
        attempt_free(a);
    return NULL;
}

static bool goes_on(const pg *d)
{
    return progress_report(d->going, 0, 0);
}

/* Sets d->conn, or returns SEFL_ECANCELLED soon after d->going says no. */
static sefl_status dial_while(pg *d)
{
    sefl_status st = SEFL_OK;
    attempt *a = NULL;
    pthread_t thread;
    uint64_t stopped = 0;
    SEFL_PASS(sefl_new(&a, 1, sizeof *a));
    pthread_mutex_init(&a->lock, NULL);
    cond_init(&a->moved);
    SEFL_TRY(sefl_strdup(&a->url, d->url));
    SEFL_TRY(thread_start(&thread, dial_in_thread, a));
    pthread_detach(thread);
    pthread_mutex_lock(&a->lock);
    while (!a->done && (!stopped || clock_since(stopped) * 1000 < STOP_MS)) {
        if (!stopped && !goes_on(d))
            stopped = clock_now_ns();
        cond_wait_ms(&a->moved, &a->lock, PAUSE_MS);
    }
    const bool done = a->done;
    d->conn = a->conn;
    a->conn = NULL;
    a->left = !done;
    pthread_mutex_unlock(&a->lock);
    if (!done)
        return sefl_fail(SEFL_ECANCELLED, "stopped during the wait for %s", d->base.place);
done:
    attempt_free(a);
    return st;
}

static sefl_status connect_once(pg *d)
{
    char why[200];
    if (d->going)
        SEFL_PASS(dial_while(d));
    else
        d->conn = dial(d->url);
    SEFL_NEED(d->conn != NULL, SEFL_ENOMEM, "out of memory for a connection");
    SEFL_NEED(d->reached || !PQconnectionNeedsPassword(d->conn), SEFL_EAUTH,
              "%s wants a password, and there is none for this host, port, database and user: put "
              "it into a passfile (~/.pgpass, or ?passfile=FILE in the URL) of mode 0600",
              d->base.place);
    SEFL_NEED(PQstatus(d->conn) == CONNECTION_OK, SEFL_EIO, "cannot reach %s: %s", d->base.place,
              pg_reason(PQerrorMessage(d->conn), why));
    PQsetNoticeReceiver(d->conn, quiet, d);
    PQconninfoOption *o = PQconninfo(d->conn);
    SEFL_NEED(o != NULL, SEFL_ENOMEM, "out of memory for a connection");
    const char *real = PQhostaddr(d->conn);
    bool ok = !real || all_local(real) || strcmp(value_of(o, "sslmode"), "verify-full") == 0;
    PQconninfoFree(o);
    SEFL_NEED(ok, SEFL_EINVAL, "%s is not on this machine: add sslmode=verify-full to the URL",
              d->base.place);
    return check_server(d);
}

sefl_status pg_connect(pg *d, unsigned patience_ms)
{
    const uint64_t began = clock_now_ns();
    if (d->conn)
        return SEFL_OK;
    for (;;) {
        sefl_status st = connect_once(d);
        if (st == SEFL_OK) {
            d->reached = true;
            return st;
        }
        pg_disconnect(d);
        if (st != SEFL_EIO || clock_since(began) * 1000 >= patience_ms)
            return st;
        SEFL_NEED(goes_on(d), SEFL_ECANCELLED, "stopped during the wait for %s", d->base.place);
        clock_pause_ms(PAUSE_MS);
    }
}
