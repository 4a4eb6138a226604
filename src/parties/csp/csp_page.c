/* What CSP's page (page/page.h) shows: rounds, budget, and whether the two ledgers agree; nothing
 * else. Its functions run on the page's threads and read the journal, which has its own lock, the
 * ledger's file, and atomics. */
#include "roles/csp/csp_inside.h"

#include "base/file.h"
#include "report/server_view.h"
#include "sum/terms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Reads the ledger again if its file has grown: the accountant may need some time. */
static void watched(void *ctx)
{
    csp_role *r = ctx;
    csp_budget b = { 0 };
    ledger_terms terms = { 0 };
    ledger *l = NULL;
    struct stat s;
    bool claim = false;
    pthread_mutex_lock(&r->task_lock);
    const bool has_task = r->csp != NULL;
    if (has_task) {
        terms = terms_of_task(&r->task);
        claim = r->task.claim;
        b.left = r->task.rounds;
    }
    const csp_budget old = r->budget;
    pthread_mutex_unlock(&r->task_lock);
    if (!has_task || stat(r->o.settings->ledger, &s) != 0 ||
        (old.bytes == (uint64_t)s.st_size && memcmp(old.task, terms.task, sizeof old.task) == 0) ||
        ledger_open_read(&l, r->o.settings->ledger) != SEFL_OK)
        return;
    b.bytes = (uint64_t)s.st_size;
    memcpy(b.task, terms.task, sizeof b.task);
    b.rounds = ledger_rounds(l, terms.task);
    if (!claim || (ledger_rounds_left(l, &terms, b.left, &b.left) == SEFL_OK &&
                   ledger_spent(l, terms.delta, &b.spent) == SEFL_OK)) {
        pthread_mutex_lock(&r->task_lock);
        r->budget = b;
        pthread_mutex_unlock(&r->task_lock);
    }
    ledger_close(l);
}

static void add_ledgers(csp_role *r, server_view *s)
{
    const task *t = &r->task;
    const csp_budget *b = &r->budget;
    const int64_t ms = csp_compared_ms(r->csp);
    if (b->bytes > 0 && memcmp(b->task, t->id, sizeof b->task) == 0) {
        s->ledger_rounds = (double)b->rounds;
        if (t->claim) {
            s->epsilon_server = dp_four_digits(b->spent.server.epsilon, true);
            s->epsilon_others = dp_four_digits(b->spent.others.epsilon, true);
            s->rounds_to_target = (double)b->left;
        }
    }
    if (ms == 0)
        return;
    if (isnan(s->ledger_rounds))
        s->ledger_rounds = 0;
    s->ledgers_agree = view_yes(ms > 0);
    snprintf(s->ledgers_compared, sizeof s->ledgers_compared,
             "CSP compared the hash of its ledger with the one that AS sent in its last request");
}

static sefl_status state(void *ctx, sefl_buf *out)
{
    csp_role *r = ctx;
    server_view s;
    pthread_mutex_lock(&r->task_lock);
    sefl_status st = csp_view(r, &s);
    if (st == SEFL_OK) {
        s.facts.enrolled = s.need = NAN; /* not for this page */
        s.ending = VIEW_UNKNOWN;
        s.ledger = r->csp && isnan(s.database_away);
        if (s.ledger)
            add_ledgers(r, &s);
        st = server_view_write(out, &s);
    }
    pthread_mutex_unlock(&r->task_lock);
    return st;
}

static sefl_status download(void *ctx, page_file *out, page_download what)
{
    csp_role *r = ctx;
    SEFL_NEED(what == PAGE_LEDGER, SEFL_ENOTFOUND, "CSP has only its ledger to download");
    page_file_name(out, "csp", 0, ".ledger");
    return file_path(out->path, "%s", r->o.settings->ledger);
}

sefl_status csp_page_start(csp_role *r)
{
    static const page_source source = { .state = state, .download = download, .watched = watched };
    const csp_settings *c = r->o.settings;
    return page_start(&r->page, &(page_config){ .local = c->page,
                                                .tls = c->page_tls,
                                                .viewers = c->page_viewers,
                                                .id = r->id,
                                                .folder = c->state,
                                                .source = &source,
                                                .ctx = r,
                                                .log = r->o.log });
}
