/* control: an operator's order about the task that a server runs: pause, resume or end it, or close
 * its round. The order is a file in the server's state folder, so it needs no port and no key, and
 * the server obeys it after a restart too.
 *
 *     SEFL_TRY(control_write("state", &(control_order){ .id = now_ms, .word = CONTROL_PAUSE }));
 *
 *     SEFL_TRY(control_open(&c, "state"));               // the server, for as long as it runs
 *     if (control_look(&c, task.id, &order, log)) ...    // about once a second: a new order?
 *     control_status(&c, page, log);                     // what `sefl status` shows
 *     control_close(&c);
 *
 *     state/control      the latest order, JSON: {"id":1790000000000,"task":HEX,"order":"pause",
 *                        "now":false}; it stays there. An order to close a round has its number,
 *                        "round":7, so obeying it again later closes no other one
 *     state/status.json  the server's health page (roles/health.h), as of its latest change; its
 *                        member `control` is the id of the order that the server obeys
 *     state/running      locked (flock) while the server runs
 *
 * An order names its task, so it never ends the next task of the queue. Obeying an order twice
 * changes nothing. The server refuses a file that belongs to another user than the folder's owner
 * or root, or that others may write; the log shows that once. Nothing replaces the order to end a
 * task, except an order about another task.
 * Threads: a control has one owner.   Secrets: none. */
#ifndef ROLES_CONTROL_H
#define ROLES_CONTROL_H

#include "base/buf.h"
#include "base/log.h"

#include <limits.h>
#include <stdbool.h>

#define CONTROL_FILE   "control"
#define CONTROL_STATUS "status.json"

typedef enum control_word {
    CONTROL_PAUSE,
    CONTROL_RESUME,
    CONTROL_END,
    CONTROL_CLOSE
} control_word;

typedef struct control_order {
    uint64_t id; /* not 0; another one for each order */
    uint8_t task[32];
    control_word word;
    bool now;       /* pause, end: drop the round in progress if it is still collecting */
    uint64_t round; /* close: which one; otherwise 0 */
} control_order;

/* SEFL_ESTATE: the order in the folder ends this task, and this one does not. Fails as control_read
 * does if there is a file that is not an order. */
sefl_status control_allows(const char *state, const control_order *o) SEFL_MUST_CHECK;
/* Writes the order durably; the file gets the owner of the folder. Fails as
 * control_allows does. */
sefl_status control_write(const char *state, const control_order *o) SEFL_MUST_CHECK;
/* SEFL_ENOTFOUND: there is none. SEFL_EAUTH: of another user. SEFL_EPROTO: not an order. */
sefl_status control_read(const char *state, control_order *out) SEFL_MUST_CHECK;
/* Parses the contents of the file. */
sefl_status control_parse(control_order *out, sefl_span text) SEFL_MUST_CHECK;

/* True if a server that uses this state folder runs now. */
bool control_is_running(const char *state);

typedef struct control {
    char state[PATH_MAX];
    int lock;        /* -1: none */
    uint64_t seen;   /* id of the latest order seen */
    bool refused;    /* the order: logged */
    bool unwritten;  /* status.json: logged */
    sefl_buf status; /* as last written */
} control;

/* Creates the folder if it does not exist. */
sefl_status control_open(control *c, const char *state) SEFL_MUST_CHECK;
/* NULL or zeros are allowed. */
void control_close(control *c);

/* True if there is an order for this task that the last call did not see. */
bool control_look(control *c, const uint8_t task[32], control_order *out, sefl_log *log);
/* Makes the next control_look return the order again: another task begins. */
void control_forget(control *c);
/* Writes the page to status.json if it has changed. */
void control_status(control *c, sefl_span page, sefl_log *log);

#endif
