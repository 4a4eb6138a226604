/* AS's operator drafts a task. The files are made in FOLDER/tasks/.draft-PID, which the server does
 * not look at and which gets its name at the end. */
#define _GNU_SOURCE
#include "operator/organisation.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/outfile.h"
#include "operator/draft.h"
#include "operator/task_file.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "protocol/task_profile.h"
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

typedef struct drafting {
    const org_task_config *c;
    dir_tree home, at; /* the folder; the folder of the new files */
    settings s;
    vocab *v;
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

/* Epsilon 0 claims nothing. */
static sefl_status fill_settings(drafting *d)
{
    const bool none = strtod(settings_text(&d->s, "privacy.epsilon"), NULL) == 0;
    if (none && is_free(d, "privacy.claim"))
        SEFL_PASS(SET(d, "privacy.claim=none"));
    const bool claim = settings_is(&d->s, "privacy.claim", "dp");
    return task_profile_fill(&d->s, claim ? TASK_OF_OPERATOR : TASK_OF_REHEARSAL);
}

static sefl_status start_settings(drafting *d)
{
    uint32_t sites;
    settings_init(&d->s, task_schema);
    SEFL_PASS(count_sites(d, &sites));
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
    return fill_settings(d);
}

static sefl_status make_files(drafting *d)
{
    const char *valid = dir_in(&d->at, "valid.txt");
    SEFL_PASS(outfile_copy(valid, d->c->text, 0644, NULL));
    SEFL_PASS(draft_vocab(&d->v, &d->s, valid, NULL, dir_in(&d->at, "vocab.txt")));
    SEFL_PASS(draft_model(&d->s, d->v, 1, dir_in(&d->at, "init.safetensors")));
    return draft_hash(&d->s, "valid.sha256", valid);
}

/* Copies what `explain` says about a task. */
static sefl_status in_words(char out[ORG_DEADLINE_TEXT], const task *t,
                            sefl_status (*explain)(sefl_buf *out, const task *t))
{
    sefl_buf text = { .max = ORG_DEADLINE_TEXT - 1 };
    sefl_status st = explain(&text, t);
    if (st == SEFL_OK)
        snprintf(out, ORG_DEADLINE_TEXT, "%.*s", (int)text.n, (const char *)text.p);
    buf_clear(&text);
    return st;
}

static sefl_status note(drafting *d, const task *t)
{
    org_task_report *r = &d->report;
    sefl_status st = in_words(r->deadline, t, task_explain_deadline);
    if (st == SEFL_OK)
        st = in_words(r->mode, t, task_explain_mode);
    memcpy(r->id, t->id, sizeof r->id);
    task_file_name(r->name, t);
    r->enrolled = t->enrolled;
    r->threshold = t->threshold;
    r->rounds = t->rounds;
    r->claim = t->claim;
    r->unit_record = t->unit == TASK_UNIT_RECORD;
    r->z = t->grid.z;
    r->epsilon = t->epsilon;
    r->noise_over_signal = task_noise_clients(t) / task_cohort(t);
    task_turns_warning(r->turns_warning, t);
    return st;
}

/* A task after those that the ledger records. */
typedef struct after {
    ledger *l;
    ledger_terms terms;
    uint64_t rounds;
} after;

static sefl_status price_after(void *ctx, double z, dp_claim *out)
{
    after *p = ctx;
    p->terms.z = z;
    return ledger_would_spend(p->l, &p->terms, p->rounds, out);
}

/* Finds the noise with which all rounds keep the target, although the population has spent
 * something already. Sets privacy.z, if it must be larger than t's. */
static sefl_status raise_noise(drafting *d, const task *t, bool *raised)
{
    sefl_status st = SEFL_OK;
    after p = { .terms = terms_of_task(t), .rounds = t->rounds };
    ledger_total spent;
    dp_claim c = { 0 };
    double z;
    SEFL_TRY(ledger_open_read(&p.l, dir_in(&d->home, "ledger")));
    SEFL_TRY(ledger_spent(p.l, t->delta, &spent));
    SEFL_TRY(ledger_would_spend(p.l, &p.terms, t->rounds, &c));
    *raised = !c.claimed || c.epsilon > t->epsilon;
    if (!*raised)
        goto done;
    st = dp_search_z(&z, &(dp_search){ price_after, &p, t->epsilon, p.terms.z });
    if (st == SEFL_EBUDGET)
        sefl_note_before(
            "the population has spent epsilon %.4f already, and a task's epsilon is the total of "
            "all its tasks: %g leaves nothing for this one. Pass a larger --epsilon, which the "
            "sites' policies must accept too",
            spent.server.epsilon, t->epsilon);
    SEFL_TRY(st);
    SEFL_TRY(SET(d, "privacy.z=%.6f", z));
done:
    ledger_close(p.l);
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
