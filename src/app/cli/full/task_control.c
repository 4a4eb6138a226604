#include "cli/full/task_control.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hex.h"
#include "cli/cli.h"
#include "cli/full/ask.h"
#include "cli/full/party.h"
#include "operator/task_file.h"
#include "roles/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WAIT_MS = 30000, LOOK_MS = 100, SETTLE_MS = 3000 };

/* What the server wrote last. */
static sefl_status read_status(health_facts *out, const party *p)
{
    sefl_status st = SEFL_OK;
    char path[PATH_MAX];
    sefl_buf b = { 0 };
    SEFL_TRY(file_path(path, "%s/" CONTROL_STATUS, p->state));
    SEFL_TRY(file_read(&b, path, HEALTH_MAX));
    SEFL_TRY(sefl_at(health_read(out, buf_span(&b)), "%s", path));
done:
    buf_clear(&b);
    return st;
}

/* Finds the task that the order is about. */
static sefl_status which_task(const party *p, uint8_t id[32])
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    envelope env;
    task t = { 0 };
    health_facts f;
    if (*p->task) {
        SEFL_TRY(task_file_load(&file, &env, &t, p->task));
        memcpy(id, t.id, 32);
    } else {
        st = read_status(&f, p);
        SEFL_CHECK(st == SEFL_OK && hex_read(id, 32, f.task), SEFL_ESTATE,
                   "the server has no task now (see 'sefl status -c %s')", p->config);
    }
done:
    buf_clear(&file);
    task_clear(&t);
    return st;
}

static bool same_task(const health_facts *f, const uint8_t id[32])
{
    char hex[HEX_CHARS(32)];
    return strcmp(f->task, hex_write(hex, id, 32)) == 0;
}

static sefl_status fits_role(const party *p, control_word word, bool now)
{
    SEFL_NEED(p->role != PARTY_CLIENT, SEFL_EINVAL,
              "%s is a client's: the operators of the servers pause and end a task; stop the "
              "client itself to leave it",
              p->config);
    SEFL_NEED(word != CONTROL_CLOSE || p->role == PARTY_AGGREGATOR, SEFL_EINVAL,
              "AS closes a round: run this with AS's aggregator.yml");
    SEFL_NEED(!now || p->role == PARTY_AGGREGATOR, SEFL_EINVAL,
              "--now is for AS: CSP lets a round that it has signed end; to leave at once, stop "
              "the server");
    return SEFL_OK;
}

/* Refuses an order that cannot have an effect. */
static sefl_status makes_sense(const party *p, const control_order *o)
{
    health_facts f;
    control_order before;
    SEFL_PASS(control_allows(p->state, o));
    if (control_read(p->state, &before) == SEFL_OK && before.word == CONTROL_END &&
        memcmp(before.task, o->task, 32) == 0)
        return SEFL_OK;
    SEFL_NEED(read_status(&f, p) != SEFL_OK || !same_task(&f, o->task) ||
                  strcmp(f.phase, "done") != 0,
              SEFL_ESTATE, "this task is over: %s", *f.why ? f.why : "all rounds are done");
    return SEFL_OK;
}

/* Finds the round to close, or says why it cannot be closed. */
static sefl_status which_round(const party *p, control_order *o)
{
    health_facts f;
    SEFL_NEED(control_is_running(p->state), SEFL_ESTATE,
              "the server is not running: no round is open");
    SEFL_PASS(read_status(&f, p));
    SEFL_NEED(same_task(&f, o->task) && strcmp(f.phase, "collecting") == 0, SEFL_ESTATE,
              "no round collects updates now: there is nothing to close");
    SEFL_NEED(!f.hides_count, SEFL_ESTATE,
              "this task claims a smaller epsilon because nobody but AS learns how many clients "
              "take part (privacy.sampling: open): a round that closes at a chosen moment would "
              "show something about that number. Round %" PRIu64 " goes on until its deadline",
              f.round);
    SEFL_NEED(!f.has_arrived || f.arrived >= f.need, SEFL_ESTATE,
              "round %" PRIu64 " has %" PRIu64 " updates and needs %" PRIu64
              ": it cannot close yet. 'sefl task pause --now' drops it",
              f.round, f.arrived, f.need);
    o->round = f.round;
    return SEFL_OK;
}

/* was: what the server wrote before the order. */
static void say_resumed(const health_facts *was, const health_facts *f)
{
    const bool csp = strcmp(f->role, "csp") == 0;
    if (f->paused)
        printf("resumed here; still %s\n", csp ? "paused" : "paused by CSP's operator");
    else if (csp && *was->role && !was->healthy && !was->paused) /* csp_status.c: unsure */
        printf("this server's clock is confirmed: round %" PRIu64 " of %" PRIu64 " goes on\n",
               f->round, f->rounds);
    else if (!was->paused && !was->pausing)
        printf("it was not paused: round %" PRIu64 " of %" PRIu64 "\n", f->round, f->rounds);
    else
        printf("resumed in round %" PRIu64 " of %" PRIu64 "\n", f->round, f->rounds);
}

static void say(const control_order *o, const health_facts *was, const health_facts *f)
{
    char why[128];
    if (o->word == CONTROL_CLOSE && f->round == o->round && strcmp(f->phase, "collecting") == 0)
        printf("round %" PRIu64 " has too few updates to close: it goes on\n", o->round);
    else if (o->word == CONTROL_CLOSE)
        printf("round %" PRIu64 " closes with the updates it has\n", o->round);
    else if (strcmp(f->phase, "done") == 0)
        printf("the task is over: %s\n", cli_plain(why, sizeof why, f->why));
    else if (o->word == CONTROL_RESUME)
        say_resumed(was, f);
    else if (f->paused)
        printf("paused: no round begins until 'sefl task resume'\n");
    else if (strcmp(f->role, "csp") == 0)
        printf("%s: CSP signs no other round\n", o->word == CONTROL_END ? "ended" : "paused");
    else
        printf("round %" PRIu64 " ends first; then the task %s\n", f->round,
               o->word == CONTROL_END ? "is over" : "is paused");
}

/* A resumed AS asks CSP next, whose operator may have paused the task: waits for the answer. */
static bool is_settled(const control_order *o, const health_facts *f, uint64_t obeyed_ms)
{
    return o->word != CONTROL_RESUME || strcmp(f->phase, "signing") != 0 || f->paused ||
           obeyed_ms > SETTLE_MS;
}

/* Waits until the server obeys; it looks for orders about once a second. */
static sefl_status wait_for(const party *p, const control_order *o, const health_facts *was)
{
    const sefl_clock mono = clock_monotonic();
    const uint64_t end = clock_ms(&mono) + WAIT_MS;
    uint64_t obeyed = 0;
    health_facts f;
    do {
        if (read_status(&f, p) == SEFL_OK) {
            const bool obeys = same_task(&f, o->task) && f.control == o->id;
            if (obeys && obeyed == 0)
                obeyed = clock_ms(&mono);
            if (obeys && is_settled(o, &f, clock_ms(&mono) - obeyed)) {
                say(o, was, &f);
                return SEFL_OK;
            }
            if (!*f.task) { /* it obeyed and finished the task between two looks */
                if (o->word == CONTROL_CLOSE)
                    printf("round %" PRIu64 " closes with the updates it has\n", o->round);
                printf("the task is over\n");
                return SEFL_OK;
            }
            SEFL_NEED(same_task(&f, o->task), SEFL_ESTATE,
                      "the server has gone on to another task");
        }
        if (!control_is_running(p->state)) {
            printf("the server is not running: it obeys when it starts\n");
            return SEFL_OK;
        }
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
    } while (clock_ms(&mono) < end);
    return sefl_fail(SEFL_ETIMEOUT,
                     "the server has not obeyed within %d s: it does so after its present step; "
                     "'sefl status -c %s' shows it, or see its log",
                     WAIT_MS / 1000, p->config);
}

sefl_status task_control(const char *config, control_word word, bool now, bool yes)
{
    party p;
    health_facts was;
    control_order before, o = { .word = word, .now = now };
    const sefl_clock wall = clock_wall();
    SEFL_PASS(party_read(&p, config));
    SEFL_PASS(fits_role(&p, word, now));
    SEFL_PASS(which_task(&p, o.task));
    SEFL_PASS(makes_sense(&p, &o));
    if (word == CONTROL_CLOSE)
        SEFL_PASS(which_round(&p, &o));
    if (word == CONTROL_END && !yes)
        SEFL_PASS(ask_yes(p.role == PARTY_CSP
                              ? "CSP will never sign another round of this task. End it?"
                              : "The task will be over, and cannot be continued. End it?",
                          "--yes"));
    o.id = clock_ms(&wall);
    if (control_read(p.state, &before) == SEFL_OK && o.id <= before.id)
        o.id = before.id + 1;
    if (read_status(&was, &p) != SEFL_OK || !same_task(&was, o.task))
        was = (health_facts){ .paused = true }; /* not known */
    SEFL_PASS(control_write(p.state, &o));
    return wait_for(&p, &o, &was);
}
