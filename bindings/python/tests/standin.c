/* A stand-in for libsefl with the same interface, for tests of the binding: a federation of one
 * client, whose values are the next round's model. Settings choose what goes wrong:
 *     rounds=N     rounds of the task; 3 if not given
 *     late=N       round N closes before its update arrives
 *     block=wait   wait blocks until stop; block=submit: submit does
 *     fail=CODE    wait fails with this status
 *     bad=1        a log event that is not JSON
 * Callbacks run on another thread, as in the library. */
#include "sefl/client.h"
#include "sefl/privacy.h"
#include "sefl/sefl.h"
#include "sefl/server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 8 };
static _Thread_local char message[256];

struct sefl_client {
    sefl_client_options o;
    unsigned long rounds, late, fail;
    char block[16];
    int bad;
    uint64_t round;
    int held;
    volatile int stopped;
    float values[COUNT];
};

struct sefl_aggregator {
    sefl_server_options o;
    volatile int stopped;
};

static const sefl_tensor tensors[] = {
    { "fc.weight", 2, { 2, 3 }, 0, 6, 1 },
    { "fc.bias", 1, { 1 }, 6, 1, 1 },
    { "scale", 0, { 0 }, 7, 1, 0 },
};

static sefl_status fail(sefl_status st, const char *text)
{
    snprintf(message, sizeof message, "%s", text);
    return st;
}

const char *sefl_version(void)
{
    return STANDIN_VERSION;
}
const char *sefl_last_error(void)
{
    return message;
}
const char *sefl_status_name(sefl_status st)
{
    return st ? "SEFL_?" : "SEFL_OK";
}
const char *sefl_status_text(sefl_status st)
{
    return st ? "?" : "success";
}

static void set(sefl_client *c, const char *text)
{
    sscanf(text, "rounds=%lu", &c->rounds);
    sscanf(text, "late=%lu", &c->late);
    sscanf(text, "fail=%lu", &c->fail);
    sscanf(text, "block=%15s", c->block);
    sscanf(text, "bad=%d", &c->bad);
}

sefl_status sefl_client_open(sefl_client **out, const char *path, const sefl_client_options *o)
{
    *out = NULL;
    if (o->size != sizeof *o)
        return fail(SEFL_EINVAL, "options have another size");
    if (access(path, R_OK) != 0) {
        snprintf(message, sizeof message, "%s: no such file", path);
        return SEFL_ENOTFOUND;
    }
    sefl_client *c = calloc(1, sizeof *c);
    c->o = *o;
    c->rounds = 3;
    for (size_t i = 0; o->settings && o->settings[i]; i++)
        set(c, o->settings[i]);
    *out = c;
    return SEFL_OK;
}

void sefl_client_close(sefl_client *c)
{
    free(c);
}

static void *events(void *p)
{
    sefl_client *c = p;
    if (c->o.log) {
        c->o.log(c->o.ctx, SEFL_LOG_INFO,
                 c->bad
                     ? "not JSON"
                     : "{\"time\":\"t\",\"level\":\"info\",\"event\":\"round opens\",\"round\":1}");
        c->o.log(c->o.ctx, SEFL_LOG_WARN, "{\"event\":\"slow\"}");
    }
    if (c->o.progress)
        c->o.progress(c->o.ctx,
                      &(sefl_client_progress){ "training", c->round, c->rounds, 1, 2, 3, 4500, 1 });
    return NULL;
}

static void call_back(sefl_client *c)
{
    pthread_t t;
    pthread_create(&t, NULL, events, c);
    pthread_join(t, NULL);
}

static sefl_status block(sefl_client *c)
{
    while (!c->stopped)
        usleep(1000);
    return fail(SEFL_ECANCELLED, "stopped");
}

sefl_status sefl_client_wait(sefl_client *c, sefl_round *r)
{
    c->held = 0;
    call_back(c);
    if (c->stopped || strcmp(c->block, "wait") == 0)
        return block(c);
    if (c->fail)
        return fail((sefl_status)c->fail, "the sentence of the library");
    if (r->size != sizeof *r)
        return fail(SEFL_EINVAL, "round has another size");
    if (c->round == c->rounds) {
        *r = (sefl_round){ .size = sizeof *r, .why = "the task is over" };
        return SEFL_OK;
    }
    c->round++;
    c->held = 1;
    *r = (sefl_round){ sizeof *r, c->round, c->rounds, c->values, COUNT, tensors, 3,
                       "a task",  NULL,     2500,      100,       1,     NULL };
    return SEFL_OK;
}

sefl_status sefl_client_wait_ms(sefl_client *c, sefl_round *r, uint64_t ms)
{
    if (strcmp(c->block, "wait") != 0)
        return sefl_client_wait(c, r);
    usleep((useconds_t)(1000 * ms));
    return fail(SEFL_ETIMEOUT, "no round yet");
}

static sefl_status finish(sefl_client *c, const float *v, sefl_receipt *out, uint64_t weight)
{
    if (c->stopped || strcmp(c->block, "submit") == 0)
        return block(c);
    c->held = 0;
    if (c->round == c->late)
        return fail(SEFL_ETIMEOUT, "the round has closed");
    memcpy(c->values, v, sizeof c->values);
    out->round = c->round;
    out->bytes = weight;
    out->ms = 1500;
    memset(out->hash, 7, sizeof out->hash);
    return SEFL_OK;
}

sefl_status sefl_client_submit(sefl_client *c, const float *v, size_t n, uint64_t weight,
                               sefl_receipt *out)
{
    if (!c->held)
        return fail(SEFL_ESTATE, "there is no round");
    if (n != COUNT)
        return fail(SEFL_EINVAL, "8 values are needed");
    return finish(c, v, out, weight);
}

sefl_status sefl_client_submit_tensors(sefl_client *c, const sefl_named_tensor *t, size_t n,
                                       uint64_t weight, sefl_receipt *out)
{
    float v[COUNT];
    unsigned got = 0;
    memcpy(v, c->values, sizeof v);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < 3 && strcmp(tensors[k].name, t[i].name) != 0)
            k++;
        if (k == 3)
            return fail(SEFL_EINVAL, "unknown tensor");
        if (t[i].dims != tensors[k].dims ||
            memcmp(t[i].shape, tensors[k].shape, 8 * t[i].dims) != 0)
            return fail(SEFL_EINVAL, "another shape");
        memcpy(v + tensors[k].offset, t[i].values, sizeof *v * tensors[k].count);
        got |= 1u << k;
    }
    if ((got & 3) != 3)
        return fail(SEFL_EINVAL, "a trained tensor is missing");
    return finish(c, v, out, weight);
}

sefl_status sefl_client_skip(sefl_client *c)
{
    c->held = 0;
    return SEFL_OK;
}

int sefl_client_wanted(sefl_client *c)
{
    return c->held && !c->stopped;
}
sefl_status sefl_client_run(sefl_client *c)
{
    return block(c) == SEFL_ECANCELLED ? SEFL_OK : SEFL_EIO;
}
void sefl_client_stop(sefl_client *c)
{
    c->stopped = 1;
}
void sefl_client_reload(sefl_client *c)
{
    (void)c;
}

sefl_status sefl_aggregator_open(sefl_aggregator **out, const char *path,
                                 const sefl_server_options *o)
{
    (void)path;
    *out = calloc(1, sizeof **out);
    (*out)->o = *o;
    return SEFL_OK;
}

sefl_status sefl_aggregator_run(sefl_aggregator *a)
{
    if (a->o.round) {
        a->o.round(a->o.ctx, &(sefl_round_result){ 1, 3, 0, 0, 4, 2.5, 2, -1, 0.5 });
        a->o.round(a->o.ctx, &(sefl_round_result){ 2, 3, 1, 0, -1, -1, -1, -1, 1.5 });
    }
    while (!a->stopped)
        usleep(1000);
    return SEFL_OK;
}

void sefl_aggregator_stop(sefl_aggregator *a)
{
    a->stopped = 1;
}
unsigned sefl_aggregator_port(const sefl_aggregator *a)
{
    return a ? 4711 : 0;
}
void sefl_aggregator_close(sefl_aggregator *a)
{
    free(a);
}

sefl_status sefl_privacy_compute(sefl_privacy_claim *out, const sefl_privacy_plan *p)
{
    if (out->size != sizeof *out || p->size != sizeof *p)
        return fail(SEFL_EINVAL, "another size");
    if (p->delta <= 0)
        return fail(SEFL_ERANGE, "delta must be above 0");
    *out = (sefl_privacy_claim){ .size = sizeof *out,
                                 .claimed = 1,
                                 .z = p->z ? p->z : 9 / p->epsilon,
                                 .epsilon_server = p->epsilon ? p->epsilon : 9 / p->z,
                                 .epsilon_others = p->rate * p->noise * (double)p->rounds,
                                 .noise_over_signal = 0.5,
                                 .clients_for_signal = (double)p->values };
    return SEFL_OK;
}

sefl_status sefl_ledger_read(sefl_ledger_status *out, const char *path, double delta)
{
    *out = (sefl_ledger_status){
        .size = sizeof *out, .tasks = 1, .rounds = 2, .unit = SEFL_UNIT_RECORD, .delta = delta
    };
    snprintf(out->why_not, sizeof out->why_not, "no claim in %s", path);
    return SEFL_OK;
}
