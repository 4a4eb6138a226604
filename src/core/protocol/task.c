/* The rules between the members of a task, and the values derived from them.
 *
 * Each rule is one line that names the member it is about. Fixed rules (crypto/ahe/pack.h,
 * privacy/dp_grid.h) derive everything else from the document's integers and decimals, so that all
 * parties compute the same values. */
#include "protocol/task.h"

#include "base/alloc.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "crypto/seal/seal.h"
#include "model/lm_config.h"
#include "mpc/noise/online.h"
#include "privacy/accountant/accountant.h"
#include "privacy/combinations.h"
#include "privacy/mechanism/quantise.h"
#include "protocol/head.h"
#include "protocol/modes/mode.h"
#include "protocol/modes/own.h"
#include "protocol/task_fields.h"
#include "protocol/update.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- rules ----------------------------------------------------------------------------------- */

static double share(pack_nano v)
{
    return (double)v / (double)PACK_ONE;
}

static sefl_status check_training(const task *t)
{
    SEFL_NEED(t->step_nano > 0, SEFL_EINVAL, "task: server.lr is 0: nothing would be learned");
    SEFL_PASS(sefl_at(optim_config_check(&t->server_optim, "server"), "task"));
    if (t->external)
        return SEFL_OK;
    SEFL_NEED(t->lr > 0, SEFL_EINVAL, "task: training.lr is 0: nothing would be learned");
    SEFL_NEED(t->schedule != TASK_CONSTANT || t->lr_last == 0, SEFL_EINVAL,
              "task: training.lr_last is %g: must be 0 for a constant schedule", t->lr_last);
    SEFL_NEED(t->schedule == TASK_CONSTANT || t->lr_last > 0, SEFL_EINVAL,
              "task: training.lr_last is 0: the last round would learn nothing; set it above 0");
    SEFL_NEED(t->warmup < t->rounds, SEFL_EINVAL,
              "task: training.warmup is %llu: must be below rounds.count (%llu)",
              (unsigned long long)t->warmup, (unsigned long long)t->rounds);
    SEFL_NEED(fmax(t->lr, t->lr_last) * t->optim.weight_decay < 1, SEFL_EINVAL,
              "task: training.lr x training.weight_decay is %g: must be below 1",
              fmax(t->lr, t->lr_last) * t->optim.weight_decay);
    SEFL_NEED(t->dropout < 1, SEFL_EINVAL, "task: training.dropout is 1: must be below 1");
    SEFL_PASS(sefl_at(optim_config_check(&t->optim, "training"), "task"));
    SEFL_NEED((t->local_epochs == 0) != (t->local_steps == 0), SEFL_EINVAL,
              "task: exactly one of training.epochs and training.steps must be above 0");
    return SEFL_OK;
}

static sefl_status check_rounds(const task *t)
{
    SEFL_NEED(
        t->threshold >= 2, SEFL_EINVAL,
        "task: rounds.threshold is %u: must be at least 2: the sum of one update is that update",
        t->threshold);
    SEFL_NEED(t->threshold <= t->clients_max, SEFL_EINVAL,
              "task: rounds.threshold is %u, above rounds.clients_max (%u): no round could "
              "succeed",
              t->threshold, t->clients_max);
    SEFL_NEED(t->threshold <= t->enrolled, SEFL_EINVAL,
              "task: rounds.threshold is %u, above rounds.enrolled (%u): no round could succeed",
              t->threshold, t->enrolled);
    SEFL_NEED(t->patience == 0 || t->has_valid, SEFL_EINVAL,
              "task: rounds.patience is %u, but valid.sha256 names no validation text: a text that "
              "can end the task must be part of it",
              t->patience);
    SEFL_NEED(t->enough == 0 || (t->enough >= t->threshold && t->enough <= t->clients_max),
              SEFL_EINVAL,
              "task: rounds.enough is %u: must be 0, or from rounds.threshold (%u) to "
              "rounds.clients_max (%u)",
              t->enough, t->threshold, t->clients_max);
    return SEFL_OK;
}

/* Clients take turns by hash (task_is_turn), so a round has enrolled / separation of them on
 * average. */
static sefl_status check_turns(const task *t)
{
    if (t->separation == 1)
        return SEFL_OK;
    SEFL_NEED(t->separation <= t->rounds, SEFL_EINVAL,
              "task: rounds.separation is %llu: must be at most rounds.count (%llu), or some "
              "clients would never take part",
              (unsigned long long)t->separation, (unsigned long long)t->rounds);
    SEFL_NEED(t->enrolled / t->separation >= t->threshold, SEFL_EINVAL,
              "task: rounds.enrolled / rounds.separation is %llu, below rounds.threshold (%u): "
              "most rounds would be skipped; enrol more clients, or lower one of the other two",
              (unsigned long long)(t->enrolled / t->separation), t->threshold);
    return SEFL_OK;
}

/* Correlated noise (docs/PRIVACY.md, section 11). */
static sefl_status check_filter(const task *t)
{
    SEFL_PASS(sefl_at(dp_filter_check(&t->filter), "task: privacy"));
    SEFL_NEED(t->filter.b == 0 || t->rounds <= DP_FILTER_ROUNDS_MAX, SEFL_EINVAL,
              "task: rounds.count is %llu: at most %d with privacy.filter",
              (unsigned long long)t->rounds, DP_FILTER_ROUNDS_MAX);
    return SEFL_OK;
}

/* Amplification by sampling (docs/PRIVACY.md) requires that each client flips its own coin, that
 * the number of participants is not published, and that nothing closes a round early. */
static sefl_status check_sampling(const task *t, pack_nano rate)
{
    if (t->sampling == TASK_ALL) {
        SEFL_NEED(rate == PACK_ONE, SEFL_EINVAL,
                  "task: privacy.rate is %g: must be 1 if privacy.sampling is all", share(rate));
        return SEFL_OK;
    }
    SEFL_NEED(rate > 0 && rate < PACK_ONE, SEFL_EINVAL,
              "task: privacy.rate is %g: with sampling, it must be between 0 and 1", share(rate));
    SEFL_NEED(
        t->clients_max >= t->enrolled, SEFL_EINVAL,
        "task: rounds.clients_max is %u: with sampling, it must allow every enrolled client (%u)",
        t->clients_max, t->enrolled);
    SEFL_NEED(share(rate) * t->enrolled >= t->threshold, SEFL_EINVAL,
              "task: privacy.rate x rounds.enrolled is %g, below rounds.threshold (%u): most "
              "rounds would be skipped",
              share(rate) * t->enrolled, t->threshold);
    return SEFL_OK;
}

static sefl_status check_records(const task *t)
{
    if (t->unit != TASK_UNIT_RECORD) {
        SEFL_NEED(t->records_max == 0, SEFL_EINVAL,
                  "task: privacy.records_max is %u: must be 0 if privacy.unit is client",
                  t->records_max);
        SEFL_NEED(t->record_turns == 0, SEFL_EINVAL,
                  "task: privacy.record_turns is %llu: must be 0 if privacy.unit is client; "
                  "rounds.max_per_client limits the rounds of a client",
                  (unsigned long long)t->record_turns);
        SEFL_NEED(t->record_words == 0, SEFL_EINVAL,
                  "task: privacy.record_words is %u: must be 0 if privacy.unit is client",
                  t->record_words);
        return SEFL_OK;
    }
    SEFL_NEED(t->records_max >= 1, SEFL_EINVAL,
              "task: privacy.records_max is 0: must be above 0 if privacy.unit is record");
    SEFL_NEED(t->record_words >= 1, SEFL_EINVAL,
              "task: privacy.record_words is 0: must be above 0 if privacy.unit is record");
    SEFL_NEED(t->record_turns >= 1 && t->record_turns <= t->rounds, SEFL_EINVAL,
              "task: privacy.record_turns is %llu: must be from 1 to rounds.count (%llu) if "
              "privacy.unit is record",
              (unsigned long long)t->record_turns, (unsigned long long)t->rounds);
    return SEFL_OK;
}

static sefl_status check_clip(const task *t)
{
    if (t->clip_quantile == 0)
        return SEFL_OK;
    SEFL_NEED(t->clip_quantile < 1, SEFL_EINVAL,
              "task: privacy.clip_quantile is 1: the clip would grow without end");
    SEFL_NEED(t->clip_nano >= TASK_CLIP_RANGE && t->clip_nano <= TASK_COUNT_MAX, SEFL_EINVAL,
              "task: privacy.clip is %s: must be from 0.000001024 to 9007199 with "
              "privacy.clip_quantile",
              t->clip);
    return SEFL_OK;
}

static sefl_status check_privacy(const task *t, pack_nano z)
{
    const release_mode *m = task_mode(t);
    if (!m->noisy) {
        SEFL_NEED(z == 0, SEFL_EINVAL, "task: privacy.z is %s: must be 0 without noise", t->z);
    } else {
        SEFL_NEED(z > 0, SEFL_EINVAL, "task: privacy.z is 0: must be above 0 with noise");
    }
    if (t->claim && m->noisy) {
        const double least = dp_law_of(m->source->law)->z_min;
        SEFL_NEED(share(z) >= least, SEFL_EINVAL,
                  "task: privacy.z is %s: below %g nothing can be claimed for %s noise, so the "
                  "task must claim none",
                  t->z, least, m->name);
        SEFL_PASS(sefl_at(dp_epsilon_check(t->epsilon), "task: privacy"));
        SEFL_PASS(sefl_at(dp_delta_check(t->delta), "task: privacy"));
    } else if (!t->claim) {
        SEFL_NEED(t->epsilon == 0 && t->delta == 0, SEFL_EINVAL,
                  "task: privacy.epsilon and privacy.delta must be 0 if privacy.claim is none; set "
                  "privacy.claim to dp to claim them");
    }
    SEFL_NEED((t->weights == TASK_CAPPED) == (t->weight_cap > 0), SEFL_EINVAL,
              "task: privacy.weight_cap is %llu: must be above 0 for capped weights, else 0",
              (unsigned long long)t->weight_cap);
    return SEFL_OK;
}

/* ---- derived values -------------------------------------------------------------------------- */

static sefl_status derive_model(task *t)
{
    if (t->external) {
        SEFL_PASS(sefl_at(layout_only(&t->layout, t->only), "task: training.only"));
    } else {
        t->model.only = t->only;
        SEFL_PASS(sefl_at(lm_config_check(&t->model), "task"));
        SEFL_PASS(sefl_at(lm_config_layout(&t->model, &t->layout), "task"));
    }
    t->params = t->layout.count;
    t->values = t->layout.trained + task_slots(t);
    return SEFL_OK;
}

/* Unit record: a client adds up to records_max vectors of the grid, so its range is that many times
 * the grid's, and the slots are wide enough for clients_max * records_max of them. */
static sefl_status derive_pack(pack *out, const task *t, pack_scheme scheme, pack_nano clip,
                               pack_nano z)
{
    bool records = t->unit == TASK_UNIT_RECORD;
    uint64_t vectors = (uint64_t)t->clients_max * (records ? t->records_max : 1);
    pack_config c = {
        .scheme = records ? PACK_PAILLIER : scheme, .dimension = t->values, .clip = clip, .noise = z
    };
    SEFL_NEED(vectors <= 1 << 24, SEFL_ERANGE,
              "privacy.records_max x rounds.clients_max is %llu: must be at most 2^24",
              (unsigned long long)vectors);
    c.clients = (uint32_t)vectors;
    SEFL_PASS(pack_init(out, &c));
    if (records) {
        out->clients = t->clients_max;
        out->value_max *= t->records_max;
        if (scheme != PACK_PAILLIER) {
            out->scheme = scheme;
            out->s = out->g = 0;
        }
        SEFL_PASS(pack_check(out));
    }
    return SEFL_OK;
}

/* The kept noise has k + F + 12 = 64 bits, and F holds every bit of a digit below the coarse
 * step. */
static sefl_status derive_filter(task *t)
{
    const pack *p = &t->ahe.pack;
    if (t->filter.b == 0)
        return SEFL_OK;
    if (!task_mode(t)->shares) {
        t->filter_bits = DP_FILTER_OWN_BITS;
        return SEFL_OK;
    }
    t->filter_bits = DP_FILTER_SUM_BITS - p->k;
    SEFL_NEED(t->filter_bits >= p->t + p->g, SEFL_ERANGE,
              "privacy.filter: with a ring of %u bits, %u bits remain below the coarse step, but a "
              "masked sum has %u: lower rounds.clients_max, or use more noise",
              p->k, t->filter_bits, p->t + p->g);
    return SEFL_OK;
}

static sefl_status derive_grid(task *t, pack_nano clip, pack_nano z)
{
    const pack *p = &t->ahe.pack;
    uint64_t records = t->unit == TASK_UNIT_RECORD ? t->records_max : 1;
    /* clients = 1: widths and the bound on a coordinate are the packing's */
    SEFL_PASS(dp_grid_init(
        &t->grid,
        &(dp_grid_config){ .z = share(z), .clip = share(clip), .dim = t->values, .clients = 1 }));
    SEFL_NEED(t->grid.t == p->t && t->grid.s2 == p->s2 && t->grid.r_2p16 == p->r_2p16 &&
                  t->grid.q == p->q && t->grid.h == p->h && t->grid.d_sens == p->sensitivity,
              SEFL_ECRYPTO, "grid and packing disagree: this machine made an arithmetic error");
    t->grid.clients = t->clients_max * records;
    t->grid.k = p->k;
    t->grid.value_max = p->value_max / (int64_t)records;
    if (task_mode(t)->derive)
        SEFL_PASS(task_mode(t)->derive(t));
    return derive_filter(t);
}

/* Refuses a claim that the first round would break, before any training. */
static sefl_status check_claim(const task *t)
{
    dp_event ev = task_event(t, 1);
    dp_claim c;
    if (t->filter.b > 0) {
        const dp_event all = task_event(t, t->rounds);
        const double least = dp_law_of(all.noise)->z_min;
        SEFL_NEED(all.z >= least, SEFL_EINVAL,
                  "privacy.z is %s: with privacy.filter, all rounds are one release with noise "
                  "%.4g, and below %g nothing can be claimed; use more noise, or claim none",
                  t->z, all.z, least);
    }
    ev.rate = 1;
    SEFL_PASS(dp_event_check(&ev));
    SEFL_PASS(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = t->delta }));
    SEFL_NEED(c.claimed, SEFL_EINVAL, "privacy.claim is dp: %s", c.why_not ? c.why_not : "?");
    const bool carries = t->noise == TASK_NOISE_OWN && t->ahe.pack.g > 0;
    SEFL_NEED(
        !carries || c.order <= OWN_ORDER_MAX, SEFL_EINVAL,
        "privacy.z is %s: own noise under paillier has a proof for Renyi orders up to %d, and "
        "so much noise uses %.0f; use crypto.scheme pad, less noise, or claim none",
        t->z, OWN_ORDER_MAX, c.order);
    SEFL_NEED(c.epsilon <= t->epsilon, SEFL_ERANGE,
              "privacy.epsilon is %g: the first round alone costs %.3f; use more noise "
              "(privacy.z), a larger epsilon, or claim none",
              t->epsilon, c.epsilon);
    return SEFL_OK;
}

uint32_t task_features(const task *t)
{
    const bool own = t->noise == TASK_NOISE_OWN, paillier = t->pub != NULL;
    const uint64_t most = t->max_rounds_per_client;
    const bool steps =
        t->local_steps != 1 || t->optim.kind != OPTIM_SGD || t->optim.weight_decay != 0;
    return (task_mode(t)->noisy ? own ? FEATURE(OWN) : FEATURE(JOINT) : FEATURE(EXACT)) |
           (t->claim ? FEATURE(CLAIM) : 0) | (paillier ? FEATURE(PAILLIER) : 0) |
           (t->claim && own && paillier ? FEATURE(CARRIES) : 0) |
           (t->external ? FEATURE(EXTERNAL) : 0) |
           (t->unit == TASK_UNIT_RECORD ? FEATURE(RECORD) : 0) |
           (task_limits_records(t) ? FEATURE(TURNS) : 0) |
           (steps && !t->external ? FEATURE(STEPS) : 0) |
           (t->clip_quantile > 0 ? FEATURE(QUANTILE) : 0) |
           (t->weights == TASK_CAPPED ? FEATURE(CAPPED) : 0) |
           (t->sampling == TASK_OPEN ? FEATURE(OPEN) : 0) |
           (t->amplified ? FEATURE(AMPLIFIED) : 0) | (t->separation > 1 ? FEATURE(SEPARATION) : 0) |
           (most > 0 && most < t->rounds ? FEATURE(MOST) : 0) |
           (t->filter.b > 0 ? FEATURE(FILTER) : 0) | (t->server == TASK_ADAM ? FEATURE(ADAM) : 0);
}

/* A scheme of pads needs a seal and no key, the others a key and no seal. */
static sefl_status derive_keys(task *t, const task_draft *d, pack_scheme scheme)
{
    static const char *const seals[] = { NULL, "x25519", "xwing" };
    bool pad = scheme == PACK_PAD;
    SEFL_NEED(pad == (d->seal != 0), SEFL_EINVAL, "task: crypto.seal is %s: %s",
              seals[d->seal] ? seals[d->seal] : "none",
              pad ? "it must be x25519 or xwing if the scheme is pad"
                  : "it must be none if the scheme is paillier");
    SEFL_NEED(pad == (t->pub == NULL), SEFL_EPROTO, "task: crypto.key is %s",
              pad ? "set: must be empty if the scheme is pad"
                  : "empty: this scheme needs CSP's public key");
    if (pad)
        t->seal = seal_suite_named(seals[d->seal]);
    return SEFL_OK;
}

static sefl_status derive_numbers(task *t, const ahe_scheme *ahe, pack_scheme scheme,
                                  pack_nano clip, pack_nano z)
{
    pack slots = { 0 };
    SEFL_PASS(derive_pack(&slots, t, scheme, clip, z));
    SEFL_PASS(ahe_params_init(&t->ahe, ahe, &slots, t->pub, t->values));
    if (task_mode(t)->noisy)
        SEFL_PASS(derive_grid(t, clip, z));
    return t->claim ? check_claim(t) : SEFL_OK;
}

#define OPTIM_OF(NAME, name, OPTIM) OPTIM_##OPTIM,
const optim_kind task_server_optims[] = { TASK_SERVERS(OPTIM_OF) };

const char *task_unit_name(task_unit unit)
{
#define UNIT_NAME(NAME, name) #name,
    static const char *const names[] = { TASK_UNITS(UNIT_NAME) };
    return names[unit];
}

static sefl_status derive(task *t, const task_draft *d)
{
    static const struct {
        const ahe_scheme *ahe;
        pack_scheme pack;
    } schemes[] = { { &ahe_pad, PACK_PAD }, { &ahe_paillier, PACK_PAILLIER } };
    static const uint8_t none[SHA256_BYTES];
    pack_nano clip, z;

    t->external = d->body == TASK_BODY_EXTERNAL;
    t->model.body = t->external ? "external" : lm_body_name((lm_body_kind)d->body);
    t->claim = d->claim != 0;
    t->has_valid = memcmp(t->valid_hash, none, sizeof none) != 0;
    t->rate = share(d->rate);
    t->clip_quantile = share(d->clip_quantile);
    t->server_lr = share(t->step_nano);
    t->server_optim.kind = task_server_optims[t->server];
    SEFL_PASS(pack_decimal(&clip, t->clip));
    SEFL_PASS(pack_decimal(&z, t->z));
    SEFL_NEED(clip > 0, SEFL_EINVAL, "task: privacy.clip is 0: must be above 0");
    t->clip_nano = clip;
    SEFL_PASS(check_training(t));
    SEFL_PASS(check_rounds(t));
    SEFL_PASS(check_sampling(t, d->rate));
    SEFL_PASS(check_turns(t));
    SEFL_PASS(check_privacy(t, z));
    SEFL_PASS(check_records(t));
    SEFL_PASS(check_filter(t));
    SEFL_PASS(check_clip(t));
    SEFL_NEED(memcmp(t->servers.as, t->servers.csp, sizeof t->servers.as) != 0, SEFL_EINVAL,
              "task: servers.aggregator and servers.csp are the same key: the servers must be "
              "different parties");
    t->amplified =
        t->claim && t->unit == TASK_UNIT_CLIENT && t->sampling == TASK_OPEN && t->enough == 0;
    t->publish_count = !t->amplified;
    SEFL_PASS(sefl_at(combination_check(task_features(t)), "task"));

    SEFL_PASS(derive_keys(t, d, schemes[d->scheme].pack));
    SEFL_PASS(derive_model(t));
    return sefl_at(derive_numbers(t, schemes[d->scheme].ahe, schemes[d->scheme].pack, clip, z),
                   "task");
}

/* ---- public ---------------------------------------------------------------------------------- */

sefl_status task_read(task *out, sefl_span document)
{
    sefl_status st = SEFL_OK;
    task_draft *d = NULL;

    *out = (task){ 0 };
    SEFL_TRY(sefl_new(&d, 1, sizeof *d));
    SEFL_TRY(task_draft_read(d, document));
    d->t.pub = d->key.pub;
    d->key.pub = NULL;
    sha256_of(d->t.id, document);
    SEFL_TRY(derive(&d->t, d));
    *out = d->t;
    d->t = (task){ 0 };
done:
    if (d) {
        paillier_pub_free(d->key.pub);
        task_clear(&d->t);
    }
    sefl_free(d);
    return st;
}

void task_clear(task *t)
{
    paillier_pub_free(t->pub);
    layout_clear(&t->layout);
    sefl_free(t->only);
    *t = (task){ 0 };
}

sefl_status task_open(task *out, sefl_span bytes, const pinned *p)
{
    sefl_status st = SEFL_OK;
    envelope env;
    task t = { 0 };
    *out = (task){ 0 };
    SEFL_TRY(envelope_read(&env, bytes));
    SEFL_TRY(envelope_check(&env, SIGN_TASK, p));
    SEFL_TRY(task_read(&t, env.content));
    SEFL_CHECK(memcmp(t.servers.as, p->as, sizeof p->as) == 0, SEFL_EAUTH,
               "task: servers.aggregator is not the pinned key");
    SEFL_CHECK(memcmp(t.servers.csp, p->csp, sizeof p->csp) == 0, SEFL_EAUTH,
               "task: servers.csp is not the pinned key");
    *out = t;
    t = (task){ 0 };
done:
    task_clear(&t);
    return st;
}

bool task_is_sealed(const task *t)
{
    return t->seal != NULL;
}

static void context(uint8_t out[AHE_CONTEXT_BYTES], const char *what, const task *t, uint64_t round,
                    sefl_span client)
{
    uint8_t number[8];
    store_u64(number, round);
    sha256_join(out, span_of_str(what), span_of(t->id, sizeof t->id),
                span_of(number, sizeof number), client);
}

void task_context(uint8_t out[AHE_CONTEXT_BYTES], const task *t, uint64_t round)
{
    context(out, "sefl context 1", t, round, span_of(NULL, 0));
}

void task_upload_context(uint8_t out[AHE_CONTEXT_BYTES], const task *t, uint64_t round,
                         const uint8_t client[32])
{
    if (task_is_sealed(t))
        context(out, "sefl pad 1", t, round, span_of(client, 32));
    else
        task_context(out, t, round);
}

void task_file_name(char out[TASK_FILE_NAME], const task *t)
{
    snprintf(out, TASK_FILE_NAME, "%s%s", t->name[0] == '.' ? "_" : "", t->name);
    for (char *p = out; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            *p = '_';
}

size_t task_body_bytes(const task *t)
{
    return update_front_bytes(t->seal) + ahe_body_bytes(&t->ahe);
}

noise_params task_noise_params(const task *t, uint64_t round, uint64_t attempt)
{
    noise_params p = { .round = round,
                       .attempt = attempt,
                       .count = t->values,
                       .k = t->ahe.pack.k,
                       .t = t->ahe.pack.t,
                       .g = t->ahe.pack.g,
                       .shape = task_mode(t)->shape };
    memcpy(p.task, t->id, sizeof p.task);
    if (task_mode(t)->shares) /* else each server filters its own noise: modes/own.c */
        memcpy(p.gamma, t->filter.gamma, sizeof p.gamma);
    return p;
}

unsigned task_share_bits(const task *t)
{
    return t->ahe.pack.k > 20 ? 40 : 32;
}

sefl_status task_output_bytes(size_t *bytes, const task *t)
{
    noise_params p = task_noise_params(t, 1, 1);
    if (task_mode(t)->reply)
        return noise_reply_bytes(bytes, &p);
    *bytes = t->ahe.units * t->ahe.plain_bytes;
    return SEFL_OK;
}

double task_lr(const task *t, uint64_t round)
{
    const double pi = 3.14159265358979323846;
    if (round <= t->warmup)
        return t->lr * (double)round / (double)(t->warmup + 1);
    const uint64_t after = round - t->warmup - 1, last = t->rounds - t->warmup - 1;
    const double part = last == 0 ? 0 : after < last ? (double)after / (double)last : 1;
    if (t->schedule == TASK_CONSTANT || part == 0)
        return t->lr;
    const double left = t->schedule == TASK_LINEAR ? 1 - part : (1 + cos(pi * part)) / 2;
    return left * t->lr + (1 - left) * t->lr_last;
}

static uint64_t record_uses(const task *t, uint64_t rounds)
{
    const dp_record_turns turns = task_record_turns(t);
    return rounds > 0 ? dp_record_uses(&turns, 1, rounds) : 0;
}

dp_event task_event(const task *t, uint64_t count)
{
    if (!t->claim)
        return (dp_event){ .count = count };
    const dp_source *source = task_mode(t)->source;
    const dp_noise law = source ? source->law : DP_NOISE_NONE;
    const dp_event ev = { .noise = law,
                          .z = t->grid.z,
                          .rate = t->amplified ? t->rate : 1,
                          .count = task_limits_records(t) ? record_uses(t, count) : count,
                          .dim = dp_law_of(law)->uses_dim ? t->values : 0,
                          .sigma_steps = t->sigma_steps };
    if (t->filter.b == 0)
        return ev;
    return dp_filter_event(&ev, task_filter_s(t, count), count);
}

uint64_t task_group(const task *t, const uint8_t client[32])
{
    uint8_t hash[SHA256_BYTES];
    if (t->separation <= 1)
        return 0;
    sha256_join(hash, span_of_str("sefl turn 1"), span_of(t->id, sizeof t->id), span_of(client, 32),
                span_of(NULL, 0));
    return load_u64(hash) % t->separation;
}

bool task_is_turn(const task *t, const uint8_t client[32], uint64_t round)
{
    return t->separation <= 1 || task_group(t, client) == round % t->separation;
}

bool task_is_soon(const task *t, uint64_t last, uint64_t round)
{
    return t->separation > 1 && last > 0 &&
           (round > last ? round - last : last - round) < t->separation;
}

double task_filter_s(const task *t, uint64_t rounds)
{
    return dp_filter_s(&t->filter, rounds, &(dp_turns){ t->max_rounds_per_client, t->separation }) +
           dp_filter_slack(&t->filter, rounds, t->values, t->grid.z,
                           dp_filter_units(t->filter_bits));
}

double task_model_z(const task *t)
{
    const double momentum = t->server == TASK_MOMENTUM ? t->server_optim.momentum : 0;
    if (t->filter.b == 0)
        return t->grid.z;
    return t->grid.z * dp_filter_models(&t->filter, t->rounds, momentum).last /
           dp_filter_models(&(dp_filter){ 0 }, t->rounds, momentum).last;
}

double task_divisor(const task *t, uint32_t clients)
{
    if (t->weights == TASK_CAPPED)
        return NAN;
    if (t->filter.b > 0) {
        const double turn = (double)t->enrolled / (double)t->separation;
        return turn < t->clients_max ? turn : t->clients_max;
    }
    if (t->publish_count)
        return clients;
    return t->rate * (double)t->enrolled;
}

bool task_clip_fits(const task *t, uint64_t clip)
{
    return clip >= t->clip_nano / TASK_CLIP_RANGE && clip / TASK_CLIP_RANGE <= t->clip_nano &&
           clip > 0;
}

double task_clip_scale(const task *t, uint64_t clip)
{
    return t->clip_quantile > 0 && clip > 0 ? (double)t->clip_nano / (double)clip : 1;
}

uint64_t task_next_clip(const task *t, uint64_t clip, const int64_t *w, uint32_t clients)
{
    if (t->clip_quantile == 0)
        return 0;
    const double part = dp_norm_share(task_value(t, w[t->values - 1]), share(t->clip_nano),
                                      task_divisor(t, clients));
    /* exp(-x) as (1 - x / 1024)^1024: products alone have the same bits on every machine */
    double f = 1 - TASK_CLIP_RATE * (part - t->clip_quantile) / 1024;
    for (int i = 0; i < 10; i++)
        f *= f;
    const uint64_t bound = (t->clip_nano + TASK_CLIP_RANGE - 1) / TASK_CLIP_RANGE;
    const double least = (double)bound;
    const double most = (double)(t->clip_nano * TASK_CLIP_RANGE);
    return (uint64_t)fmin(fmax(floor((double)clip * f + 0.5), least), most);
}
