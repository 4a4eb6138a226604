/* CSP serves the task that AS names in HELLO, if its own folder has it. The stream's thread only
 * receives HELLO; the owner's thread changes the task, because no other thread uses the journal and
 * the state machine then. CSP changes the task only for a HELLO that AS signed: opening a task
 * wipes the round keys of the others (store/disk/csp_disk.h). */
#include "roles/csp/csp_inside.h"

#include "base/file.h"
#include "roles/server.h"

#include <string.h>

/* A change of the task adds entries to the audit log, and AS may change it as often as it likes. */
enum { CHANGES_BURST = 30, CHANGE_EVERY_S = 5 };

/* *when: the time of this task's last header; 0 if it has none, or is over. */
static sefl_status look_at(csp_role *r, const task_entry *e, uint64_t *when)
{
    sefl_status st = SEFL_OK;
    journal *j = NULL;
    journal_round last;
    bool over = false;
    *when = 0;
    SEFL_TRY(csp_journal_open(r, &j, e->id));
    SEFL_TRY(journal_fact_has(j, 0, "over", &over));
    st = journal_round_last(j, &last);
    if (st == SEFL_OK && !over)
        *when = last.opened_ms;
    st = st == SEFL_ENOTFOUND ? SEFL_OK : st;
done:
    journal_close(j);
    return st;
}

static sefl_status begin(csp_role *r, const task_entry *e)
{
    SEFL_PASS(task_queue_read(r->queue, e, &r->task, &r->envelope));
    SEFL_PASS(csp_task_open(r));
    server_say_task(&r->task, e->name, r->o.log);
    return SEFL_OK;
}

sefl_status csp_queue_open(csp_role *r)
{
    const csp_settings *c = r->o.settings;
    task_entry e, last;
    uint64_t when, latest = 0;
    SEFL_PASS(buckets_new(
        &r->changes, &(buckets_rule){ .burst = CHANGES_BURST, .per_s = 1.0 / CHANGE_EVERY_S }));
    SEFL_PASS(task_queue_new(&r->queue, &(task_queue_config){ .folder = c->tasks,
                                                              .ledger = c->ledger,
                                                              .key = r->key,
                                                              .side = OWN_TASK_CSP,
                                                              .ctx = r,
                                                              .fits = csp_task_fits,
                                                              .log = r->o.log }));
    for (size_t i = 0; task_queue_at(r->queue, i, &e); i++) {
        SEFL_PASS(look_at(r, &e, &when));
        if (when > latest)
            latest = when, last = e;
    }
    /* its round key must expire even if AS never comes back */
    return latest > 0 ? begin(r, &last) : SEFL_OK;
}

sefl_status csp_queue_sweep(csp_role *r)
{
    journal *j;
    SEFL_PASS(csp_journal_open(r, &j, NULL));
    sefl_status st = journal_kem_sweep(j, NULL, NULL);
    if (st == SEFL_OK)
        st = journal_past_keep(j, 1, 0);
    journal_close(j);
    return st;
}

sefl_status csp_queue_hear(csp_role *r)
{
    csp_hello h = { 0 };
    SEFL_PASS(link_recv(tls_channel(r->t), &r->hello));
    if (r->hello.kind == LINK_HELLO)
        SEFL_PASS(csp_hello_read(&h, buf_span(&r->hello.body)));
    /* of another version, or no HELLO: the machine, if there is one, answers that */
    r->other = !r->csp || (h.version != 0 && memcmp(h.task, r->task.id, TASK_ID) != 0);
    return SEFL_OK;
}

/* Finds the task and changes to it. *no: what to answer otherwise. */
static sefl_status change(csp_role *r, link_no *no)
{
    static const uint8_t one[BUCKETS_KEY];
    sefl_status st = SEFL_OK;
    csp_hello h;
    task_entry e;
    task t = { 0 };
    sefl_buf bytes = { 0 };
    *no = LINK_NO_ORDER;
    SEFL_CHECK(r->hello.kind == LINK_HELLO, SEFL_EPROTO, "the first message is %s, not HELLO",
               link_kind_name(r->hello.kind));
    SEFL_TRY(csp_hello_read(&h, buf_span(&r->hello.body)));
    *no = LINK_NO_VERSION;
    SEFL_CHECK(h.version != 0, SEFL_EUNSUPPORTED, "%s", h.why);
    *no = LINK_NO_TASK;
    task_queue_look(r->queue);
    SEFL_CHECK(task_queue_find(r->queue, h.task, &e), SEFL_ENOTFOUND,
               "CSP does not have this task in its folder of tasks yet, or refused it: its "
               "operator adds it to `tasks`");
    SEFL_TRY(task_queue_read(r->queue, &e, &t, &bytes));
    *no = LINK_NO_SIGNATURE;
    const channel *ch = tls_channel(r->t);
    SEFL_TRY(csp_hello_check(&h, &t, span_of(ch->binding, ch->binding_n)));
    *no = LINK_NO_FAULT;
    SEFL_CHECK(buckets_take(r->changes, one, 1, clock_ms(&r->clock)), SEFL_EBUDGET,
               "AS changes the task too often: it must wait %d s", CHANGE_EVERY_S);
    if (r->lanes) { /* AS must not lose a failed check on the way to another task and back */
        lane_host_unbind(r->lanes);
        SEFL_TRY(lane_host_save(r->lanes));
    }
    csp_task_close(r);
    st = begin(r, &e);
    if (st != SEFL_OK)
        csp_task_close(r); /* csp_queue_sweep follows */
done:
    task_clear(&t);
    buf_clear(&bytes);
    return st;
}

sefl_status csp_queue_change(csp_role *r)
{
    link_no no;
    sefl_status st = change(r, &no);
    if (st != SEFL_OK) /* AS reads why, and tries again later */
        (void)!link_send_no(tls_channel(r->t), no, no == LINK_NO_FAULT ? NULL : sefl_last_error());
    return st;
}
