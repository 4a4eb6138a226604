/* Whom the open round waits for, and whom no more (turnout.h). */
#include "roles/aggregator/turnout_inside.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void name_one(view_sites *s, const char *name, const someone *known, uint64_t round,
                     bool revoked)
{
    if (s->named < VIEW_SITES) {
        view_site *p = &s->at[s->named++];
        *p = (view_site){ .revoked = revoked };
        snprintf(p->name, sizeof p->name, "%s", name);
        p->asked = known && known->told == round;
        p->missed = known ? known->missed : 0;
    }
    s->all++;
}

static bool is_revoked(const trust *list, const uint8_t key[32])
{
    const trust_member *m = list ? trust_find(list, key) : NULL;
    return m && m->state != TRUST_ACTIVE;
}

/* It asks for news, and no update follows. A round waits for it again after 4, 8, 16 ... such
 * rounds in a row: perhaps the others were faster each time. */
static bool is_idle(const someone *s)
{
    return s->idle == TURNOUT_MISSED || (s->idle & (s->idle - 1)) != 0;
}

/* AS would admit no other update of it. */
static bool is_spent(const task *of, const someone *s)
{
    return of->max_rounds_per_client > 0 && s->spent >= of->max_rounds_per_client;
}

static void look_at_known(const turnout *t, uint64_t round, const trust *list, turnout_missing *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const someone *s = &t->who[i];
        const char cell = i < t->now.n ? t->now.cells[i] : '.';
        if (cell == 'a' || cell == 'x')
            out->expected++;
        else if (is_spent(t->of, s))
            continue;
        else if (is_revoked(list, s->key))
            name_one(&out->left, s->name, s, round, true);
        else if (s->missed >= TURNOUT_MISSED && (s->told != round || is_idle(s)))
            name_one(&out->left, s->name, s, round, false);
        else if (turnout_is_turn(t, s, round))
            out->expected++, name_one(&out->waits, s->name, s, round, false);
    }
}

/* True if only members of the list may connect as clients. */
static bool names_all(const trust *list)
{
    bool any = false;
    for (size_t i = 0; list && i < list->issuers; i++) {
        const trust_issuer *s = &list->issuer[i];
        if (s->role != TRUST_CLIENT || s->state != TRUST_ACTIVE)
            continue;
        if (!s->listed)
            return false;
        any = true;
    }
    return any;
}

/* Members that have not connected in this task, and tokens that nobody has used. */
static void look_at_listed(const turnout *t, uint64_t round, const trust *list, view_sites *out)
{
    const int64_t now = (int64_t)time(NULL);
    for (const trust_member *m = list->member; m < list->member + list->members; m++)
        if (m->role == TRUST_CLIENT && m->state == TRUST_ACTIVE && turnout_find(t, m->key) == NONE)
            name_one(out, m->name, NULL, round, false);
    for (const trust_token *k = list->token; k < list->token + list->tokens; k++)
        if (k->state == TRUST_OPEN && k->expires > now && !trust_find_name(list, k->name))
            name_one(out, k->name, NULL, round, false);
}

/* Sites that AS has not seen in this task. */
static void look_at_unknown(const turnout *t, uint64_t round, const trust *list,
                            turnout_missing *out)
{
    view_sites *to = t->full >= TURNOUT_MISSED ? &out->left : &out->waits;
    const uint32_t before = to->all, named = to->named;
    if (names_all(list))
        look_at_listed(t, round, list, to);
    else if (t->of->enrolled > t->n)
        to->all += t->of->enrolled - (uint32_t)t->n;
    for (uint32_t i = named; i < to->named; i++)
        to->at[i].missed = (uint32_t)(t->full < UINT32_MAX ? t->full : UINT32_MAX);
    if (to == &out->waits)
        out->expected += to->all - before;
}

void turnout_look(turnout *t, uint64_t round, const trust *list, turnout_missing *out)
{
    *out = (turnout_missing){ 0 };
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    round = round > 0 ? round : t->now.round;
    if (round > 0 && round == t->now.round) {
        look_at_known(t, round, list, out);
        look_at_unknown(t, round, list, out);
        if (t->of->sampling != TASK_ALL)
            out->waits = (view_sites){ 0 };
    }
    pthread_mutex_unlock(&t->lock);
}
