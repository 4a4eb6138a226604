/* as_inside: the state that aggregator.c (a server and its task) and as_queue.c (one task after the
 * other) share. */
#ifndef ROLES_AGGREGATOR_AS_INSIDE_H
#define ROLES_AGGREGATOR_AS_INSIDE_H

#include "net/local_http.h"
#include "net/tls.h"
#include "page/tail.h"
#include "report/server_view.h"
#include "roles/aggregator/aggregator.h"
#include "roles/aggregator/as_http.h"
#include "roles/aggregator/audit_as.h"
#include "roles/aggregator/turnout.h"
#include "roles/control.h"
#include "roles/health.h"
#include "roles/monitor.h"
#include "roles/own_cert.h"
#include "roles/task_queue.h"
#include "store/disk/account_disk.h"
#include "store/disk/as_disk.h"

#include <limits.h>
#include <stdatomic.h>

struct aggregator {
    aggregator_options o;
    sefl_clock wall, mono;
    sefl_coins coins;
    sign_key *key;
    pool *pool;
    task_queue *queue;       /* NULL: the setting `task` */
    bool blocked;            /* a task that has begun is missing in it */
    uint8_t latest[TASK_ID]; /* the latest task that began, as the journal had it at the last look;
                              * 0: none */

    /* The task: agg_task_begin makes these, and agg_task_end clears them. Signals and the health
     * page use them under task_lock; the server's threads end before they do. */
    pthread_mutex_t task_lock; /* take it before `lock` */
    sefl_buf envelope;
    task task;
    bool has_task;
    atomic_bool withdrawn; /* it ended because its folder is gone */
    release_files files;
    char init[PATH_MAX], vocab[PATH_MAX], valid[PATH_MAX], models[PATH_MAX]; /* with a queue */
    char metrics[PATH_MAX];
    struct { /* the latest task that is over, for the page, until the next one begins */
        bool known;
        server_view state;
        uint64_t round;                                           /* of its last release; 0: none */
        char model[PATH_MAX], metrics[PATH_MAX], vocab[PATH_MAX]; /* "": none */
    } kept;
    journal *journal;
    journal *uploads; /* several processes (share.h): for uploads; NULL: this process is alone */
    account *account;
    as_disk disk;
    audit_log *audit;
    audit_as audited;
    as_store store; /* over both */
    releases *releases;
    shares_pool *shares; /* these two: joint noise */
    sefl_rng shares_rng;
    lanes *lanes;
    rounds *rounds;
    ingest *ingest;
    char trouble[AS_TROUBLE]; /* rounds_trouble, for a server_view; with task_lock */
    tail *tail;               /* follows `metrics`, for the page, until the next task begins */
    turnout *turnout;         /* NULL: its records cannot be read */
    journal *sights; /* several processes: this one's own records of `turnout`; otherwise NULL */
    agg_http http;   /* the context of the server's callbacks */
    https_server *server;
    sefl_buf tally; /* as last written */

    local_http *local; /* NULL: none */
    page *page;        /* NULL: none */
    int listener;      /* each server gets a copy */
    uint16_t port;

    control control;   /* the server's watcher has it while there is a server */
    run_line last;     /* the latest round since the task began; round 0: none */
    run_line measured; /* the latest one with a perplexity */

    pthread_mutex_t lock; /* id, stream, last, measured, and the next four, which agg_page.c uses */
    uint64_t link_since;  /* when the link went up or down, seconds since 1970; 0: never up */
    char link_error[160]; /* why the last dial failed; "": it did not */
    server_view seen;     /* the latest that agg_view returned while the database answered */
    bool counts_hidden;   /* a task of this process does not publish how many take part: nor does
                         * /metrics */
    uint64_t budget_at;   /* 1 + the last round when budget_left was computed; 0: never */
    uint64_t budget_left; /* rounds that the target still allowed then */
    pthread_cond_t wake;
    tls_id *id;
    tls *stream[LANES_MAX + 1]; /* to CSP: the lanes, and the link */
    allowlist *allowlist;       /* NULL: no trust list */
    atomic_bool stop;
    sefl_progress running;     /* says no after aggregator_stop, or if o.going does */
    pthread_mutex_t list_lock; /* one thread at a time reads the list */
    char list_path[PATH_MAX], records[PATH_MAX];
    trust_watch list;
    pthread_mutex_t tally_lock;
    bool tally_failed;
    own_cert own; /* these three: the server's watcher has them */
    waiting waiting;
    bool away_told; /* it is logged that the database does not answer */
    monitor monitor;
};

/* Serves a->task with a->files; agg_task_end clears both, even after a failure. */
sefl_status agg_task_begin(aggregator *a) SEFL_MUST_CHECK;
void agg_task_end(aggregator *a);
/* Runs the rounds until the task is over, then answers clients for a while. SEFL_ECANCELLED after
 * aggregator_stop. */
sefl_status agg_task_run(aggregator *a) SEFL_MUST_CHECK;
/* Answers that there is no task now; agg_task_end ends that. */
sefl_status agg_idle_begin(aggregator *a) SEFL_MUST_CHECK;
/* Waits this long, or until aggregator_stop. */
void agg_pause(aggregator *a, uint64_t ms);

/* ---- aggregator.c ---- */

/* Looks whom this round (0: the latest) waits for. On the server's threads, or with task_lock.
 * False: this process does not know, because several are one AS. */
bool agg_missing(aggregator *a, uint64_t round, turnout_missing *out);
/* rounds_waiting, with whom the round waits for. */
bool agg_waiting(aggregator *a, waiting_view *out);

/* ---- as_status.c ----------------------------------------------------------------------------- */

/* Passes a new order of the operator to the driver. This and the next: on the server's watcher
 * thread, or while there is no server. */
void agg_status_look(aggregator *a);
/* Writes status.json. */
void agg_status_save(aggregator *a);
/* The server and its task, without the open and the latest round. Hold task_lock. While the
 * database is away (database_away), what was true before: the rounds would wait for it. */
server_view agg_view(aggregator *a);
/* Adds the current round, unless the database is away. False: there is none. */
bool agg_view_round(aggregator *a, server_view *v);
/* The health page, of local_http.h; ctx is the aggregator. */
sefl_status agg_status_page(void *ctx, sefl_buf *body, unsigned *status) SEFL_MUST_CHECK;

/* ---- as_monitor.c ---------------------------------------------------------------------------- */

/* Adds a round that is over. */
void agg_monitor_round(monitor *m, const rounds_report *r);
/* A page of local_http.h; ctx is the aggregator. */
sefl_status agg_monitor_page(void *ctx, sefl_buf *body, unsigned *status) SEFL_MUST_CHECK;
/* ---- agg_page.c ------------------------------------------------------------------------------ */

/* Starts the web page, if the settings want one. */
sefl_status agg_page_start(aggregator *a) SEFL_MUST_CHECK;
/* Begins and ends what the page keeps about a task; under task_lock. */
sefl_status agg_page_task(aggregator *a) SEFL_MUST_CHECK;
void agg_page_task_end(aggregator *a);
/* Keeps what the page shows about a task that is over; before the rounds end, under task_lock. */
void agg_page_keep(aggregator *a);
/* The link to CSP went up or down, or could not be dialled (why is not empty). */
void agg_page_link(aggregator *a, bool up, const char *why);
/* A callback of rounds_config. */
void agg_page_counted_out(void *ctx, uint64_t round, const uint8_t client[32], const char *why);

/* ---- as_queue.c ------------------------------------------------------------------------------ */

/* Serves the tasks of a->queue until aggregator_stop. */
sefl_status agg_queue_run(aggregator *a) SEFL_MUST_CHECK;
/* Once a second, on the server's watcher thread: looks for new tasks and for a withdrawn one. */
void agg_queue_tick(aggregator *a);
/* Returns the number of tasks in the folder that wait for the present one; 0 without a folder. */
uint64_t agg_queue_others(aggregator *a);

#endif
