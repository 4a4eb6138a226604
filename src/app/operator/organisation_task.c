/* AS's operator drafts a task. The files are made in FOLDER/tasks/.draft-PID, which the server does
 * not look at and which gets its name at the end. */
#define _GNU_SOURCE
#include "operator/organisation.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/file.h"
#include "operator/draft.h"
#include "operator/task_file.h"
#include "privacy/plan.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "protocol/task_model.h"
#include "roles/ca.h"
#include "store/ledger.h"
#include "sum/terms.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX   (UINT64_C(1) << 30)
#define MOST_NOISE 1e4 /* z */

typedef struct drafting {
    const org_task_config *c;
    dir_tree home, at; /* the folder; the folder of the new files */
    settings s;
    vocab *v;
    size_t params;
    org_task_report report;
} drafting;

#define SET(d, ...) settings_setf(&(d)->s, "operator", __VA_ARGS__)

/* Returns the number of sites that are members or have an open token; notes the latter. */
static sefl_status count_sites(drafting *d, uint32_t *out)
{
    trust *t = NULL;
    sefl_clock wall = clock_wall();
    const int64_t now = (int64_t)(clock_ms(&wall) / 1000);
    SEFL_PASS(ca_read(&t, dir_in(&d->home, "ca")));
    for (const trust_token *k = t->token; k < t->token + t->tokens; k++)
        d->report.absent +=
            k->state == TRUST_OPEN && k->expires > now && !trust_find_name(t, k->name);
    *out = (uint32_t)trust_count(t, TRUST_CLIENT) + d->report.absent;
    trust_free(t);
    return SEFL_OK;
}

static sefl_status set_population(drafting *d)
{
    ledger *l = NULL;
    SEFL_PASS(ledger_open_read(&l, dir_in(&d->home, "ledger")));
    sefl_status st = SET(d, "population=%s", ledger_population(l));
    ledger_close(l);
    return st;
}

static bool is_free(const drafting *d, const char *key)
{
    return !settings_given(d->c->task, key);
}

/* The claim: epsilon 0 is none. */
static sefl_status set_claim(drafting *d)
{
    if (is_free(d, "privacy.epsilon"))
        SEFL_PASS(SET(d, "privacy.epsilon=3"));
    d->report.epsilon = strtod(settings_text(&d->s, "privacy.epsilon"), NULL);
    d->report.claim = d->report.epsilon > 0;
    if (is_free(d, "privacy.claim"))
        SEFL_PASS(SET(d, "privacy.claim=%s", d->report.claim ? "dp" : "none"));
    if (is_free(d, "privacy.clip") && d->report.claim)
        SEFL_PASS(SET(d, "privacy.clip=1"));
    return d->report.claim ? SEFL_OK : SET(d, "privacy.delta=0");
}

/* Half of the sites, and at least 5 of them; with fewer than 7 sites, two may be missing, as far as
 * a new site's policy.yml allows that. */
static sefl_status set_threshold(drafting *d)
{
    const uint64_t n = settings_u64(&d->s, "rounds.enrolled");
    uint64_t least = n >= 7 ? 5 : n - 2;
    if (least < ORG_POLICY_CLIENTS)
        least = n < ORG_POLICY_CLIENTS ? n : ORG_POLICY_CLIENTS;
    return SET(d, "rounds.threshold=%" PRIu64, n / 2 > least ? n / 2 : least);
}

static sefl_status start_settings(drafting *d)
{
    uint32_t sites;
    settings_init(&d->s, task_schema);
    for (const char *const *p = task_small; *p; p++)
        SEFL_PASS(SET(d, "%s", *p));
    SEFL_PASS(count_sites(d, &sites));
    /* a round ends when every site has sent its update; a missing one costs ten minutes */
    SEFL_PASS(SET(d, "rounds.count=10"));
    SEFL_PASS(SET(d, "rounds.deadline_ms=600000"));
    SEFL_PASS(SET(d, "rounds.extend_ms=300000"));
    SEFL_PASS(SET(d, "rounds.extensions=2"));
    if (is_free(d, "rounds.enrolled")) {
        SEFL_NEED(
            sites >= 2, SEFL_EINVAL,
            "%u sites have a token or are members, and a task needs at least 2: create tokens "
            "with 'sefl ca token', or pass --set rounds.enrolled=N",
            sites);
        SEFL_PASS(SET(d, "rounds.enrolled=%" PRIu32, sites));
    }
    SEFL_PASS(settings_overlay(&d->s, d->c->task));
    SEFL_NEED(!task_settings_external(&d->s), SEFL_EINVAL,
              "model.body is external: make such a task with 'sefl task new'");
    SEFL_PASS(set_population(d));
    const uint64_t n = settings_u64(&d->s, "rounds.enrolled");
    if (is_free(d, "rounds.threshold"))
        SEFL_PASS(set_threshold(d));
    if (is_free(d, "rounds.enough") && strcmp(settings_text(&d->s, "privacy.sampling"), "all") == 0)
        SEFL_PASS(SET(d, "rounds.enough=%" PRIu64, n));
    return set_claim(d);
}

/* Sets the noise that the claim needs over all rounds. */
static sefl_status set_noise(drafting *d)
{
    dp_plan p = { .clients = settings_u64(&d->s, "rounds.enrolled"),
                  .rounds = settings_u64(&d->s, "rounds.count"),
                  .rate = 1,
                  .dim = d->params,
                  .delta = strtod(settings_text(&d->s, "privacy.delta"), NULL),
                  .epsilon = d->report.epsilon,
                  .source = DP_SOURCE_JOINT };
    if (!d->report.claim || !is_free(d, "privacy.z"))
        return SEFL_OK;
    SEFL_NEED(strcmp(settings_text(&d->s, "privacy.sampling"), "all") == 0 &&
                  strcmp(settings_text(&d->s, "privacy.noise"), "joint") == 0,
              SEFL_EINVAL,
              "with other noise or sampling than the default, give privacy.z too ('sefl privacy "
              "plan' computes it)");
    SEFL_PASS(dp_plan_compute(&p));
    d->report.noise_over_signal = p.noise_over_signal;
    d->report.least_cohort = p.least_cohort;
    return SET(d, "privacy.z=%.6f", ceil(p.z * 1e6 + 1) / 1e6); /* up, never down */
}

static sefl_status make_files(drafting *d)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    const char *valid = dir_in(&d->at, "valid.txt");
    SEFL_TRY(file_read(&text, d->c->text, TEXT_MAX));
    SEFL_TRY(file_write_new(valid, buf_span(&text), 0644));
    SEFL_TRY(draft_vocab(&d->v, &d->s, valid, NULL, dir_in(&d->at, "vocab.txt")));
    SEFL_TRY(draft_model(&d->s, d->v, 1, dir_in(&d->at, "init.safetensors"), &d->params));
    SEFL_TRY(draft_hash(&d->s, "valid.sha256", valid));
    SEFL_TRY(set_noise(d));
done:
    buf_clear(&text);
    return st;
}

static sefl_status note(drafting *d, const task *t)
{
    org_task_report *r = &d->report;
    sefl_buf text = { .max = sizeof r->deadline - 1 };
    sefl_status st = task_explain_deadline(&text, t);
    if (st == SEFL_OK)
        snprintf(r->deadline, sizeof r->deadline, "%.*s", (int)text.n, (const char *)text.p);
    buf_clear(&text);
    memcpy(r->id, t->id, sizeof r->id);
    task_file_name(r->name, t);
    r->enrolled = t->enrolled;
    r->threshold = t->threshold;
    r->rounds = t->rounds;
    r->claim = t->claim;
    r->unit_record = t->unit == TASK_UNIT_RECORD;
    r->z = strtod(t->z, NULL);
    task_turns_warning(r->turns_warning, t);
    return st;
}

/* Finds the noise with which all rounds keep the target, although the population has spent
 * something already. Sets privacy.z, if it must be larger than t's. */
static sefl_status raise_noise(drafting *d, const task *t, bool *raised)
{
    sefl_status st = SEFL_OK;
    ledger *l = NULL;
    ledger_terms terms = terms_of_task(t);
    ledger_total spent;
    dp_claim c = { 0 };
    double low = terms.z, high = low;
    SEFL_TRY(ledger_open_read(&l, dir_in(&d->home, "ledger")));
    SEFL_TRY(ledger_spent(l, t->delta, &spent));
    SEFL_TRY(ledger_would_spend(l, &terms, t->rounds, &c));
    *raised = !c.claimed || c.epsilon > t->epsilon;
    if (!*raised)
        goto done;
    while (!c.claimed || c.epsilon > t->epsilon) {
        SEFL_CHECK(terms.z < MOST_NOISE, SEFL_EBUDGET,
                   "the population has spent epsilon %.4f already, and a task's epsilon is the "
                   "total of all its tasks: %g leaves nothing for this one. Pass a larger "
                   "--epsilon, which the sites' policies must accept too",
                   spent.server.epsilon, t->epsilon);
        low = terms.z, high = terms.z *= 2;
        SEFL_TRY(ledger_would_spend(l, &terms, t->rounds, &c));
    }
    for (int i = 0; i < 40; i++) {
        terms.z = (low + high) / 2;
        SEFL_TRY(ledger_would_spend(l, &terms, t->rounds, &c));
        *(c.claimed && c.epsilon <= t->epsilon ? &high : &low) = terms.z;
    }
    SEFL_TRY(SET(d, "privacy.z=%.6f", ceil(high * 1e6 + 1) / 1e6)); /* up, never down */
done:
    ledger_close(l);
    return st;
}

static sefl_status make_task(drafting *d)
{
    sefl_status st = SEFL_OK;
    sefl_buf document = { 0 }, half = { 0 };
    sign_key *key = NULL;
    pinned keys;
    task t = { 0 };
    bool again = false;
    SEFL_TRY(sign_key_read(&key, dir_in(&d->home, "ca/sign.key")));
    memcpy(keys.as, sign_key_pub(key), sizeof keys.as);
    SEFL_TRY(sign_pub_read(keys.csp, dir_in(&d->home, "csp.pub")));
    SEFL_TRY(task_make(&document, &d->s, NULL, &keys));
    SEFL_TRY(task_read(&t, buf_span(&document)));
    if (t.claim && is_free(d, "privacy.z"))
        SEFL_TRY(raise_noise(d, &t, &again));
    if (again) {
        buf_reset(&document);
        task_clear(&t);
        SEFL_TRY(task_make(&document, &d->s, NULL, &keys));
        SEFL_TRY(task_read(&t, buf_span(&document)));
    }
    envelope env = { .kind = SIGN_TASK, .content = buf_span(&document) };
    SEFL_TRY(task_file_sign(&half, &env, &t, SIGNER_AS, key));
    SEFL_TRY(file_write_new(dir_in(&d->at, "task.json"), buf_span(&document), 0644));
    SEFL_TRY(file_write_new(dir_in(&d->at, "task.half"), buf_span(&half), 0644));
    SEFL_TRY(note(d, &t));
done:
    sign_key_free(key);
    task_clear(&t);
    buf_clear(&document);
    buf_clear(&half);
    return st;
}

static sefl_status put_in_place(drafting *d)
{
    const char *to = dir_in(&d->home, "tasks/%s", d->report.name);
    SEFL_NEED(!file_exists(to), SEFL_EEXIST,
              "%s already exists: give the task another name with --set name=NAME", to);
    SEFL_NEED(rename(d->at.root, to) == 0, SEFL_EIO, "%s: %s", to, strerror(errno));
    return file_sync_parent(to);
}

static sefl_status check_folder(drafting *d)
{
    const char *f = d->home.root;
    SEFL_NEED(file_exists(dir_in(&d->home, "aggregator.card")) &&
                  !file_exists(dir_in(&d->home, "csp.yml")),
              SEFL_EINVAL, "%s is not AS's folder: AS's operator drafts the task", f);
    SEFL_NEED(file_exists(dir_in(&d->home, "csp.pub")), SEFL_ESTATE,
              "%s does not trust a CSP yet: pass its card with --peer", f);
    return SEFL_OK;
}

sefl_status org_task(const org_task_config *c, org_task_report *out)
{
    sefl_status st = SEFL_OK;
    drafting *d = NULL;
    bool begun = false;
    SEFL_TRY(sefl_new(&d, 1, sizeof *d));
    d->c = c;
    SEFL_TRY(dir_root(&d->home, c->folder));
    SEFL_TRY(check_folder(d));
    SEFL_TRY(dir_root(&d->at, dir_in(&d->home, "tasks/.draft-%ld", (long)getpid())));
    SEFL_TRY(start_settings(d));
    SEFL_TRY(file_new_folder(d->at.root, 0755));
    begun = true;
    SEFL_TRY(make_files(d));
    SEFL_TRY(make_task(d));
    SEFL_TRY(put_in_place(d));
    begun = false;
    *out = d->report;
done:
    if (begun)
        dir_remove(d->at.root);
    if (d) {
        vocab_free(d->v);
        settings_clear(&d->s);
    }
    sefl_free(d);
    return st;
}
