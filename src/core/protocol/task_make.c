#include "base/hex.h"
#include "crypto/ahe/paillier.h"
#include "model/lm_config.h"
#include "protocol/modes/mode.h"
#include "protocol/task_budget.h"

#include "base/json.h"
#include "model/file/model_file.h"
#include "protocol/task_fields.h"
#include "protocol/task_make.h"

#include <assert.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* ---- settings, from the list of members ------------------------------------------------------ */

#define SETTING_NANO    SETTING_DECIMAL
#define SETTING_HASH    SETTING_TEXT
#define SETTING_TENSORS SETTING_TEXT
#define SETTING_NAMES   SETTING_TEXT
#define SETTING_FILTER  SETTING_TEXT
#define TO(member)      .size = 0 /* the document is written from the texts */
#define SET_F(...)

const setting_def task_schema[] = { TASK_FIELDS(SETTING_ROW, SET_F, SETTING_ROW){ 0 } };
_Static_assert(sizeof task_schema / sizeof task_schema[0] <= SETTINGS_MAX + 1, "they fit");

enum { RECORD_WORDS = 4096 }; /* privacy.record_words if it is not set */

/* ---- values that follow from others if they are not set -------------------------------------- */

typedef struct maker {
    const settings *s;
    const ahe_pub *pub;
    const pinned *servers;
    char number[24];
    char z[32]; /* of privacy.classic_epsilon or privacy.epsilon; "": as the settings say */
    char filter[DP_FILTER_TEXT]; /* of privacy.filter auto; "": as the settings say */
    uint64_t separation;         /* rounds.separation, or what privacy.filter auto chose */
    bool silent; /* a first document without a claim: the noise that it needs is not known yet */
} maker;

void task_settings_model(lm_config *out, const settings *s, uint32_t words)
{
    *out = (lm_config){ .body = settings_text(s, "model.body"),
                        .vocab = words,
                        .only = settings_text(s, "training.only") };
#define GET_U64(key)               (uint32_t) settings_u64(s, key)
#define GET_BOOL(key)              settings_bool(s, key)
#define GET(key, kind, field, ...) field = GET_##kind(key);
    MODEL_SETTINGS(GET, (*out))
}

bool task_settings_external(const settings *s)
{
    return settings_is(s, "model.body", "external");
}

bool task_setting_applies(const char *key, bool external)
{
    return task_field_applies(key, external);
}

sefl_status task_settings_tensors(settings *s, const char *init)
{
    sefl_status st = SEFL_OK;
    layout l = { 0 };
    sefl_buf text = { 0 };
    if (*settings_text(s, "model.tensors"))
        return SEFL_OK;
    SEFL_TRY(model_list_tensors(&l, init));
    SEFL_TRY(layout_write(&l, &text));
    SEFL_TRY(settings_set_pair(s, span_of_str("model.tensors"), buf_span(&text), init));
done:
    layout_clear(&l);
    buf_clear(&text);
    return st;
}

/* Few clients with many records each: nobody need trust one of the servers more. */
static const char *noise_of(const settings *s)
{
    const bool follows = !settings_given(s, "privacy.noise") &&
                         settings_is(s, "privacy.unit", "record") &&
                         settings_is(s, "crypto.scheme", "pad");
    return follows ? release_modes[TASK_NOISE_OWN]->name : settings_text(s, "privacy.noise");
}

const release_mode *task_settings_mode(const settings *s)
{
    return release_mode_named(span_of_str(noise_of(s)));
}

double task_settings_classic(const settings *s)
{
    return strtod(settings_text(s, "privacy.classic_epsilon"), NULL);
}

/* Sets m->z from privacy.classic_epsilon, rounded up to billionths. */
static sefl_status classic(maker *m)
{
    const settings *s = m->s;
    const double epsilon = task_settings_classic(s);
    const double delta = strtod(settings_text(s, "privacy.delta"), NULL);
    if (epsilon == 0)
        return SEFL_OK;
    SEFL_NEED(!settings_given(s, "privacy.z"), SEFL_EINVAL,
              "privacy.classic_epsilon sets privacy.z: give one of the two");
    SEFL_NEED(task_settings_mode(s)->noisy, SEFL_EINVAL,
              "privacy.classic_epsilon sets the size of the noise, but privacy.noise is %s",
              noise_of(s));
    SEFL_PASS(sefl_at(dp_epsilon_check(epsilon), "privacy.classic_epsilon"));
    SEFL_PASS(sefl_at(dp_delta_check(delta), "privacy.classic_epsilon"));
    snprintf(m->z, sizeof m->z, "%.9f", ceil(dp_classic(delta) / epsilon * 1e9) / 1e9);
    return SEFL_OK;
}

/* True if privacy.z follows from privacy.epsilon. */
static bool z_follows(const settings *s)
{
    return task_settings_mode(s)->noisy && settings_is(s, "privacy.claim", "dp") &&
           task_settings_classic(s) == 0 && strtod(settings_text(s, "privacy.z"), NULL) == 0;
}

/* The value of a settable member as it goes into the document. */
static const char *value_of(maker *m, const char *path)
{
    const settings *s = m->s;
    const bool claims = !m->silent && settings_is(s, "privacy.claim", "dp");
    bool given = settings_given(s, path);
    const char *v = settings_text(s, path);
    uint64_t enrolled = settings_u64(s, "rounds.enrolled"), n;

    if (strcmp(path, "rounds.clients_max") == 0 && strcmp(v, "0") == 0) {
        n = enrolled;
    } else if (strcmp(path, "rounds.threshold") == 0 && strcmp(v, "0") == 0) {
        pack_nano rate = PACK_ONE;
        if (settings_is(s, "privacy.sampling", "open") &&
            pack_decimal(&rate, settings_text(s, "privacy.rate")) != SEFL_OK)
            rate = PACK_ONE; /* task_read reports what is wrong with it */
        n = (uint64_t)((double)enrolled * ((double)rate / (double)PACK_ONE)) / 2;
        n /= m->separation; /* the clients take turns */
        n = n < 2 ? 2 : n;
    } else if (strcmp(path, "privacy.record_turns") == 0 &&
               settings_is(s, "privacy.unit", "record") && strcmp(v, "0") == 0) {
        n = settings_u64(s, "rounds.count");
    } else if (strcmp(path, "privacy.record_words") == 0 &&
               settings_is(s, "privacy.unit", "record") && strcmp(v, "0") == 0) {
        n = RECORD_WORDS;
    } else if (strcmp(path, "privacy.noise") == 0) {
        return noise_of(s);
    } else if (strcmp(path, "rounds.separation") == 0) {
        n = m->separation;
    } else if (strcmp(path, "training.lr") == 0 && strspn(v, "0.") == strcspn(v, "eE")) { /* 0 */
        return optim_usual_lr(settings_text(s, "training.optimiser"),
                              settings_text(s, "model.body"));
    } else if (!given && strcmp(path, "crypto.seal") == 0 &&
               !settings_is(s, "crypto.scheme", "pad")) {
        return "none";
    } else if (*m->z && strcmp(path, "privacy.z") == 0) {
        return m->z;
    } else if (!given && strcmp(path, "privacy.z") == 0) {
        return task_settings_mode(s)->noisy ? "1" : "0";
    } else if (m->silent && strcmp(path, "privacy.claim") == 0) {
        return "none";
    } else if (*m->z && !claims && strcmp(path, "privacy.delta") == 0) {
        return "0"; /* it is the formula's delta */
    } else if ((!given || m->silent) && !claims &&
               (strcmp(path, "privacy.epsilon") == 0 || strcmp(path, "privacy.delta") == 0)) {
        return "0";
    } else if (!given && strcmp(path, "training.steps") == 0 &&
               settings_is(s, "privacy.unit", "record")) {
        return "1";
    } else if (!given && strcmp(path, "training.epochs") == 0 &&
               (settings_is(s, "privacy.unit", "record") ||
                settings_u64(s, "training.steps") > 0)) {
        return "0";
    } else {
        return v;
    }
    snprintf(m->number, sizeof m->number, "%llu", (unsigned long long)n);
    return m->number;
}

/* ---- the document ---------------------------------------------------------------------------- */

static sefl_status wr_string(sefl_buf *out, const char *text)
{
    json j = json_into(out);
    json_str(&j, text);
    return json_end(&j);
}

static sefl_status wr_hash(sefl_buf *out, const uint8_t hash[SHA256_BYTES])
{
    char hex[HEX_CHARS(SHA256_BYTES)];
    return wr_string(out, hex_write(hex, hash, SHA256_BYTES));
}

static sefl_status wr_key(sefl_buf *out, const ahe_pub *pub)
{
    sefl_status st = SEFL_OK;
    sefl_buf raw = { .max = 4096 };
    char text[4096 * 4 / 3 + 8];
    SEFL_TRY(paillier_pub_write(pub, &raw));
    sodium_bin2base64(text, sizeof text, raw.p, raw.n, sodium_base64_VARIANT_ORIGINAL);
    SEFL_TRY(wr_string(out, text));
done:
    buf_clear(&raw);
    return st;
}

/* "fc.weight=10x784/32, ..." as an array of objects, one per line */
static sefl_status wr_tensors(sefl_buf *out, const settings *s)
{
    sefl_status st = SEFL_OK;
    layout l = { 0 };
    const uint32_t block =
        settings_given(s, "model.block") ? (uint32_t)settings_u64(s, "model.block") : 1;
    SEFL_TRY(sefl_at(layout_parse(&l, settings_text(s, "model.tensors"), block), "model.tensors"));
    SEFL_CHECK(l.n > 0, SEFL_EINVAL,
               "model.tensors is empty: list the model's tensors, or give its file (--init)");
    for (size_t i = 0; i < l.n; i++) {
        const layout_tensor *t = &l.tensor[i];
        SEFL_TRY(wr_fmt(out, "%s\n      { \"name\": \"%s\", \"shape\": [", i ? "," : "[", t->name));
        for (uint32_t k = 0; k < t->rank; k++)
            SEFL_TRY(wr_fmt(out, "%s%u", k ? ", " : "", t->shape[k]));
        SEFL_TRY(wr_fmt(out, "], \"block\": %u }", t->block));
    }
    SEFL_TRY(wr_fmt(out, "\n    ]"));
done:
    layout_clear(&l);
    return st;
}

/* "fc.*, head" as an array of strings */
static sefl_status wr_names(sefl_buf *out, const char *list)
{
    json j = json_into(out);
    json_open(&j, '[');
    for (char name[LAYOUT_NAME_MAX + 2]; *list;) {
        list += strspn(list, " ");
        const size_t n = strcspn(list, ",");
        size_t end = n;
        while (end > 0 && list[end - 1] == ' ')
            end--;
        SEFL_NEED(end >= 1 && end < sizeof name, SEFL_EINVAL,
                  "training.only: a name has 1 to %d characters", LAYOUT_NAME_MAX);
        snprintf(name, sizeof name, "%.*s", (int)end, list);
        json_str(&j, name);
        list += n + (list[n] == ',');
    }
    json_close(&j, ']');
    return json_end(&j);
}

/* "3000, 500" as an array of integers */
static sefl_status wr_filter(sefl_buf *out, const char *list)
{
    json j = json_into(out);
    json_open(&j, '[');
    for (const char *p = list + strspn(list, " "); *p;) {
        char *end;
        const unsigned long v = strtoul(p, &end, 10);
        const size_t blank = strspn(end, " ");
        SEFL_NEED(end > p && *p != '-' && v <= DP_FILTER_ONE &&
                      (end[blank] == 0 || (end[blank] == ',' && end[blank + 1])),
                  SEFL_EINVAL,
                  "privacy.filter is \"%.64s\": it must be auto, empty, or whole numbers from 0 to "
                  "%d, such as 3687 or 2900, 500",
                  list, DP_FILTER_ONE);
        json_u64(&j, v);
        p = end + blank + (end[blank] == ',');
    }
    json_close(&j, ']');
    return json_end(&j);
}

static sefl_status wr_value(sefl_buf *out, maker *m, const task_field *f)
{
    if (f->kind == TASK_KIND_TENSORS)
        return wr_tensors(out, m->s);
    if (f->kind == TASK_KIND_NAMES)
        return wr_names(out, settings_text(m->s, f->path));
    if (f->kind == TASK_KIND_FILTER)
        return wr_filter(out, *m->filter ? m->filter : settings_text(m->s, f->path));
    if (f->settable) {
        const char *v = value_of(m, f->path);
        if (f->kind == TASK_KIND_U64) /* "007" is no number in JSON */
            return wr_fmt(out, "%llu", strtoull(v, NULL, 10));
        if (f->kind == TASK_KIND_BOOL)
            return wr_fmt(out, "%s", v);
        return wr_string(out, v);
    }
    switch (f->kind) {
    case TASK_KIND_U64:
        return wr_fmt(out, "%d", TASK_VERSION);
    case TASK_KIND_KEY:
        return settings_is(m->s, "crypto.scheme", "pad") ? wr_string(out, "") : wr_key(out, m->pub);
    default:
        assert(f->kind == TASK_KIND_HASH);
        return wr_hash(out, strcmp(f->path, "servers.csp") == 0 ? m->servers->csp : m->servers->as);
    }
}

/* Writes one member per line; members of a group ("model.") are together in the list. */
static sefl_status wr_document(sefl_buf *out, maker *m)
{
    char group[64] = "";
    const bool external = task_settings_external(m->s);
    for (size_t i = 0; i < task_field_count; i++) {
        const task_field *f = &task_fields[i];
        if (!task_field_applies(f->path, external))
            continue;
        const char *point = strchr(f->path, '.'), *name = point ? point + 1 : f->path;
        int n = point ? (int)(point - f->path) : 0;
        bool same = strlen(group) == (size_t)n && strncmp(group, f->path, (size_t)n) == 0;
        SEFL_PASS(wr_fmt(out, "%s", i == 0 ? "{\n" : same || !*group ? ",\n" : "\n  },\n"));
        if (!same && n > 0)
            SEFL_PASS(wr_fmt(out, "  \"%.*s\": {\n", n, f->path));
        snprintf(group, sizeof group, "%.*s", n, f->path);
        SEFL_PASS(wr_fmt(out, "%s\"%s\": ", n > 0 ? "    " : "  ", name));
        SEFL_PASS(wr_value(out, m, f));
    }
    return wr_fmt(out, "\n%s}\n", *group ? "  }\n" : "");
}

/* Every setting that the task needs is set, and none that has no meaning for its model. */
static sefl_status check_applies(const settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf names = { 0 };
    const bool external = task_settings_external(s);
    for (const setting_def *d = s->schema; d->key; d++) {
        const bool given = settings_given(s, d->key);
        if (task_field_applies(d->key, external)) {
            if (!given && !d->fallback)
                SEFL_TRY(wr_fmt(&names, "%s%s", names.n ? ", " : "", d->key));
        } else if (strcmp(d->key, "model.block") != 0) { /* of the tensors without one */
            const bool usual =
                !given || (d->fallback && strcmp(settings_text(s, d->key), d->fallback) == 0);
            SEFL_CHECK(usual, SEFL_EINVAL, "%s: %s does not apply: model.body is %s",
                       settings_origin(s, d->key), d->key, settings_text(s, "model.body"));
        }
    }
    SEFL_CHECK(names.n == 0, SEFL_EINVAL, "required settings are missing: %.*s", (int)names.n,
               (const char *)names.p);
done:
    buf_clear(&names);
    return st;
}

/* Appends the document and reads it back. */
static sefl_status wr_checked(sefl_buf *document, task *t, maker *m)
{
    const size_t before = document->n;
    SEFL_PASS(wr_document(document, m));
    return task_read(t, span_of(document->p + before, document->n - before));
}

uint64_t task_make_separation(const settings *s)
{
    const uint64_t apart = settings_u64(s, "rounds.separation");
    return apart == 1 && settings_is(s, "privacy.filter", "auto")
               ? dp_turns_apart(settings_u64(s, "rounds.max_per_client"),
                                settings_u64(s, "rounds.count"))
               : apart;
}

/* privacy.filter auto: the filter for the task's turns. */
static sefl_status choose_filter(maker *m)
{
    const settings *s = m->s;
    const uint64_t rounds = settings_u64(s, "rounds.count");
    const dp_turns turns = { settings_u64(s, "rounds.max_per_client"), task_make_separation(s) };
    const bool momentum = settings_is(s, "server.step", "momentum");
    m->separation = turns.apart;
    if (!settings_is(s, "privacy.filter", "auto"))
        return SEFL_OK;
    SEFL_NEED(rounds <= DP_FILTER_ROUNDS_MAX, SEFL_EINVAL,
              "rounds.count is %llu: at most %d with "
              "privacy.filter",
              (unsigned long long)rounds, DP_FILTER_ROUNDS_MAX);
    SEFL_NEED(
        m->separation > 1, SEFL_EINVAL,
        "privacy.filter is auto: correlated noise gains something only if clients take turns; "
        "set rounds.max_per_client or rounds.separation ('sefl privacy plan --correlated' "
        "proposes them)");
    const dp_filter f = dp_filter_best(
        rounds, &turns, momentum ? strtod(settings_text(s, "server.momentum"), NULL) : 0);
    dp_filter_text(m->filter, &f);
    if (f.b == 0) /* no filter gains anything */
        snprintf(m->filter, sizeof m->filter, " ");
    return SEFL_OK;
}

/* ---- the target epsilon ---------------------------------------------------------------------- */

/* Sets m->z to the smallest noise with which all rounds keep privacy.epsilon. How much that is
 * depends on the number of values, which a first document without a claim shows. */
static sefl_status z_of_epsilon(maker *m)
{
    sefl_status st = SEFL_OK;
    sefl_buf document = { 0 };
    task t = { 0 };
    double z;
    const double epsilon = strtod(settings_text(m->s, "privacy.epsilon"), NULL);
    const double delta = strtod(settings_text(m->s, "privacy.delta"), NULL);
    SEFL_TRY(sefl_at(dp_epsilon_check(epsilon), "task: privacy"));
    SEFL_TRY(sefl_at(dp_delta_check(delta), "task: privacy"));
    m->silent = true;
    snprintf(m->z, sizeof m->z, "1");
    SEFL_TRY(wr_checked(&document, &t, m));
    m->silent = false;
    t.claim = true;
    t.amplified = false;
    t.epsilon = epsilon;
    t.delta = delta;
    SEFL_TRY(sefl_at(task_budget_z(&z, &t), "privacy.epsilon over %llu rounds",
                     (unsigned long long)t.rounds));
    snprintf(m->z, sizeof m->z, "%.6f", z); /* it has six places */
    if (t.filter.b > 0 && z < 1) { /* less noise needs a wider ring, which leaves fewer bits below
                                    * it: the slack grows */
        double again;
        task_clear(&t);
        document.n = 0;
        m->silent = true;
        SEFL_TRY(wr_checked(&document, &t, m));
        m->silent = false;
        t.claim = true, t.epsilon = epsilon, t.delta = delta;
        SEFL_TRY(task_budget_z(&again, &t));
        snprintf(m->z, sizeof m->z, "%.6f", fmax(z, again));
    }
done:
    task_clear(&t);
    buf_clear(&document);
    return st;
}

/* Refuses a task that would end before its last round, with the numbers that would not. */
static sefl_status check_budget(const maker *m, const task *t)
{
    uint64_t rounds;
    double z;
    dp_claim all;
    const dp_event ev = task_event_server(t, t->rounds);
    if (!t->claim || settings_bool(m->s, "privacy.early_end"))
        return SEFL_OK;
    SEFL_PASS(task_budget_rounds(&rounds, t));
    if (rounds >= t->rounds)
        return SEFL_OK;
    SEFL_PASS(dp_epsilon(&all, &ev, 1, &(dp_question){ .delta = t->delta }));
    SEFL_PASS(sefl_at(task_budget_z(&z, t), "privacy.epsilon over %llu rounds",
                      (unsigned long long)t->rounds));
    return sefl_fail(
        SEFL_EINVAL,
        "privacy.z = %s reaches epsilon %g after %llu of the task's %llu rounds: raise "
        "privacy.z to %.4g (or leave it out), lower rounds.count to %llu, or allow "
        "epsilon %.4g; privacy.early_end: true accepts a task that ends there",
        t->z, t->epsilon, (unsigned long long)rounds, (unsigned long long)t->rounds,
        dp_four_digits(z, true), (unsigned long long)rounds, dp_four_digits(all.epsilon, true));
}

sefl_status task_make(sefl_buf *document, const settings *s, const ahe_pub *pub,
                      const pinned *servers)
{
    sefl_status st = SEFL_OK;
    maker m = { .s = s, .pub = pub, .servers = servers };
    size_t before = document->n;
    task t = { 0 };
    assert(s->schema == task_schema);
    SEFL_TRY(check_applies(s));
    SEFL_CHECK(pub || settings_is(s, "crypto.scheme", "pad"), SEFL_EINVAL,
               "crypto.scheme is %s: it needs CSP's public key", settings_text(s, "crypto.scheme"));
    SEFL_TRY(classic(&m));
    SEFL_TRY(choose_filter(&m));
    if (z_follows(s))
        SEFL_TRY(z_of_epsilon(&m));
    SEFL_TRY(wr_checked(document, &t, &m));
    SEFL_TRY(check_budget(&m, &t));
done:
    if (st != SEFL_OK)
        document->n = before;
    task_clear(&t);
    return st;
}
