/* health: the page GET /healthz of a server: whether it is up, its round, and whether the other
 * server is connected.
 *
 *     {"role":"aggregator","healthy":true,"csp":true,"phase":"collecting","round":3,
 *      "rounds":40,"task":"..."}
 *     {"role":"csp","healthy":true,"aggregator":false,"phase":"signed","round":3,
 *      "rounds":40,"task":"..."}
 *
 * The status is 200 if the server is healthy, 503 if not. AS is healthy while the link to CSP is
 * up, or the task is over: without CSP no round begins or ends. CSP is healthy while it runs: AS
 * dials, and the page shows whether it is connected. Everything on the page is public (the task,
 * its round); nothing is about a single client. The setting `health` must be a loopback address
 * (net/local_http.h explains why); empty: no page.
 * Threads: health_write any.   Secrets: none. */
#ifndef ROLES_HEALTH_H
#define ROLES_HEALTH_H

#include "config/address.h"
#include "config/settings.h"
#include "protocol/task.h"

/* Checks the value of the setting `health`: empty, or a loopback address. */
sefl_status health_check(const host_port *a, const settings *s) SEFL_MUST_CHECK;

typedef struct health_news {
    const char *role, *peer; /* ours, and the other server's */
    bool healthy, peer_is_there;
    const char *phase;
    uint64_t round; /* 0: none yet */
    const task *task;
} health_news;

/* Appends the page; *status: 200 or 503. */
sefl_status health_write(sefl_buf *out, unsigned *status, const health_news *n) SEFL_MUST_CHECK;

#endif
