/* csp_inside: the state that csp_role.c (connections, and one task) and csp_queue.c (which task)
 * share. */
#ifndef ROLES_CSP_CSP_INSIDE_H
#define ROLES_CSP_CSP_INSIDE_H

#include "net/buckets.h"
#include "net/handshakes.h"
#include "net/local_http.h"
#include "page/page.h"
#include "roles/control.h"
#include "roles/counters.h"
#include "roles/csp/audit_csp.h"
#include "roles/csp/csp_role.h"
#include "roles/csp/lane_host.h"
#include "roles/health.h"
#include "roles/monitor.h"
#include "roles/own_cert.h"
#include "roles/pulse.h"
#include "roles/task_queue.h"
#include "store/disk/csp_disk.h"
#include "store/journal/lease.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

/* What the page shows of the ledger, as it was when its file had this size. */
typedef struct csp_budget {
    uint64_t bytes; /* 0: not read yet */
    uint8_t task[32];
    uint64_t rounds, left; /* charged rounds of this task; rounds that its target still allows */
    ledger_total spent;
} csp_budget;

struct csp_role {
    csp_role_options o;
    sefl_coins coins;
    sefl_clock clock, wall, boot;
    uint8_t boot_id[CLOCK_BOOT_ID]; /* zeros: unknown */
    sign_key *key;
    tls_id *id;
    pool *pool;
    task_queue *queue; /* NULL: the setting `task` */
    buckets *changes;  /* with a queue: limits how often AS changes the task */

    /* The task: csp_task_open makes these, and csp_task_close clears them, both on the owner's
     * thread while no stream is served. The health page uses them under task_lock. */
    pthread_mutex_t task_lock;
    sefl_buf envelope;
    task task;
    journal *journal;
    account *account;
    csp_disk disk;
    audit_log *audit;
    audit_csp audited;
    csp_store store;     /* over both */
    csp *csp;            /* NULL: no task now */
    shares_pool *shares; /* these three: joint noise */
    sefl_rng shares_rng;
    lane_host *lanes;

    int fd;
    uint16_t port;
    handshakes *handshakes;
    local_http *local;         /* NULL: none */
    page *page;                /* NULL: none */
    csp_budget budget;         /* for the page; under task_lock */
    pthread_mutex_t list_lock; /* allowlist: changed by the owner's thread, read by the other */
    allowlist *allowlist;      /* NULL: no trust list */
    allowlist *young;          /* the serving thread's; NULL: no voucher yet */
    char list_path[PATH_MAX], counters_path[PATH_MAX];
    trust_watch list;
    counters counters;
    bool counters_failed;
    monitor monitor;
    own_cert own;
    bool starved;       /* the last connection could not be accepted */
    uint64_t looked_ms; /* time of the last look_around */
    uint64_t expire_ms; /* time of the last look at the round key's age; 0: never */
    bool swept;         /* there is no task, and all round keys are wiped */

    /* the current stream */
    tls *t;
    pthread_t thread;
    bool serving;
    atomic_bool served; /* the thread has ended, or never started */
    atomic_bool ending; /* the stream must end, even in the middle of a reveal */
    link_msg hello;     /* with a queue: the stream's first message, until csp has it */
    bool other;         /* the thread has ended because `hello` names another task */
    sefl_progress goes_on;
    uint64_t round; /* the last round whose header this process signed; 0: none */
    int64_t round_since;

    control control;
    _Atomic(csp_hold) hold;     /* whether the operator lets the task's next round begin */
    _Atomic uint64_t commanded; /* id of the operator's order that `hold` follows; 0: none */

    uint64_t lines_ms, lines; /* log lines about refused connections in this second */

    /* with the setting `store` (active.c) */
    journal *lease_journal;
    lease lease; /* fence 0: not active */
    pthread_t renewer;
    bool renewing;
    atomic_bool lease_end, lease_lost;
    pulse pulse;    /* of the store */
    bool away_told; /* it is logged that the store does not answer */
    pthread_mutex_t seen_lock;
    server_view seen; /* the latest that csp_view returned while it did */

    atomic_bool stop, reload;
    sefl_progress running; /* says no after csp_role_stop */
};

/* ---- active.c -------------------------------------------------------------------------------- */

/* Opens CSP's journal for a task (NULL: none), where the settings say; every write checks the
 * lease. */
sefl_status csp_journal_open(csp_role *r, journal **out, const uint8_t *id) SEFL_MUST_CHECK;
/* Waits until this process is the active one, or csp_role_stop, and keeps it so. */
sefl_status csp_active_wait(csp_role *r) SEFL_MUST_CHECK;
void csp_active_end(csp_role *r);
/* As pulse_away; 0 without the setting `store`. */
uint64_t csp_away(const csp_role *r);

/* Opens journal, ledger and store of r->task, and creates its state machine; csp_task_close is
 * needed even after a failure. */
sefl_status csp_task_open(csp_role *r) SEFL_MUST_CHECK;
void csp_task_close(csp_role *r);

/* SEFL_EINVAL if CSP's key or its missing list of clients does not fit the task; ctx is the
 * csp_role. */
sefl_status csp_task_fits(void *ctx, const task *t) SEFL_MUST_CHECK;

/* What health page and web page say while csp_is_unsure. */
#define CSP_UNSURE                                                                               \
    "CSP restarted in a round and waits for AS's clock: check this clock; if it is right: sefl " \
    "task resume"

/* ---- csp_status.c ---------------------------------------------------------------------------- */

/* Obeys a new order of the operator. This and the next: on the owner's thread. */
void csp_status_look(csp_role *r);
/* Reads what earlier runs of the process were ordered about r->task. With task_lock. */
sefl_status csp_status_restore(csp_role *r) SEFL_MUST_CHECK;
/* Writes status.json. */
void csp_status_save(csp_role *r);
/* The server and its task. Hold task_lock, or call it on the owner's thread. While the database is
 * away (database_away), what was true before: the journal would wait for it. */
sefl_status csp_view(csp_role *r, server_view *out) SEFL_MUST_CHECK;
/* The health page, of local_http.h; ctx is the csp_role. */
sefl_status csp_status_page(void *ctx, sefl_buf *body, unsigned *status) SEFL_MUST_CHECK;

/* ---- csp_monitor.c --------------------------------------------------------------------------- */

/* For csp_config.round_over; ctx is the csp_role. */
void csp_monitor_round(void *ctx, csp_round_state state, const csp_times *t);
/* For lane_host_config.worked; ctx is the csp_role. */
void csp_monitor_noise(void *ctx, uint64_t bytes, uint64_t ns);
/* A page of local_http.h; ctx is the csp_role. */
sefl_status csp_monitor_page(void *ctx, sefl_buf *body, unsigned *status) SEFL_MUST_CHECK;
/* Starts the web page, if the settings want one (csp_page.c). */
sefl_status csp_page_start(csp_role *r) SEFL_MUST_CHECK;

/* ---- csp_audit.c ----------------------------------------------------------------------------- */

/* Opens the audit log and puts it before r->disk in r->store. The first entry has the state of the
 * last round: csp_disk_open may have changed it. */
sefl_status csp_audit_open(csp_role *r) SEFL_MUST_CHECK;

/* ---- csp_queue.c ----------------------------------------------------------------------------- */

/* Opens the folder of tasks, and the task that an earlier run of the process left unfinished. */
sefl_status csp_queue_open(csp_role *r) SEFL_MUST_CHECK;
/* Without a task: wipes the round keys of all tasks, since none of them can expire any more. */
sefl_status csp_queue_sweep(csp_role *r) SEFL_MUST_CHECK;
/* On the stream's thread: receives HELLO. Sets r->other if it names another task than r->task. */
sefl_status csp_queue_hear(csp_role *r) SEFL_MUST_CHECK;
/* On the owner's thread, without a serving thread: changes to the task that r->hello names, which
 * AS must have signed. If it cannot, tells AS why. */
sefl_status csp_queue_change(csp_role *r) SEFL_MUST_CHECK;

#endif
