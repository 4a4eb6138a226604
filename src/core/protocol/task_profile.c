#include "protocol/task_profile.h"

#include "protocol/modes/mode.h"
#include "protocol/task_make.h"

#include <inttypes.h>
#include <string.h>

static const char *const names[TASK_PROFILES] = { "operator", "operator", "provision",
                                                  "try",      "demo",     "experiment" };

/* privacy.claim comes before privacy.z, which may follow from it. */
/* clang-format off */
static const struct {
    const char *key, *value[TASK_PROFILES];
} rows[] = {
    /*                        operator  rehearsal  provision  try       demo    experiment */
    { "name",               { NULL,     NULL,      "trial",   "try",    "demo", NULL } },
    { "population",         { NULL,     NULL,      "trial",   "try",    "demo", NULL } },
    { "vocab.kind",         { NULL,     NULL,      NULL,      "bpe",    NULL,   NULL } },
    { "model.vocab",        { NULL,     NULL,      NULL,      "2048",   NULL,   NULL } },
    { "model.embed",        { "48",     "48",      "48",      "128",    "64",   "48" } },
    { "model.hidden",       { "48",     "48",      "48",      "128",    "64",   "48" } },
    { "model.layers",       { "1",      "1",       "1",       NULL,     NULL,   "1" } },
    { "model.block",        { "8",      "8",       "8",       NULL,     NULL,   "8" } },
    { "model.batch",        { "5",      "5",       "5",       "10",     NULL,   "5" } },
    { "model.steps",        { "20",     "20",      "20",      NULL,     NULL,   "20" } },
    { "training.lr",        { NULL,     NULL,      NULL,      "20",     NULL,   NULL } },
    { "training.epochs",    { NULL,     NULL,      "2",       "1",      NULL,   NULL } },
    { "training.dropout",   { "0",      "0",       "0",       NULL,     NULL,   "0" } },
    { "privacy.claim",      { "dp",     "none",    "none",    "none",   NULL,   "none" } },
    { "privacy.epsilon",    { "3",      NULL,      NULL,      NULL,     NULL,   NULL } },
    { "privacy.clip",       { "1",      "8",       "8",       "100",    NULL,   "8" } },
    { "privacy.z",          { NULL,     "0.02",    "0.02",    "0.001",  NULL,   "0.02" } },
    { "rounds.count",       { "10",     "10",      "5",       NULL,     NULL,   "10" } },
    { "rounds.deadline_ms", { NULL,     NULL,      "60000",   "300000", NULL,   "60000" } },
    { "rounds.extend_ms",   { NULL,     NULL,      "15000",   NULL,     NULL,   "60000" } },
    { "rounds.extensions",  { NULL,     NULL,      "1",       NULL,     NULL,   "1" } },
};
/* clang-format on */

/* ---- rounds.threshold: of the clients that have a turn --------------------------------------- */

/* A quarter is enough for a trial. */
static uint64_t quarter(uint64_t n)
{
    return n < 8 ? 2 : n / 4;
}

/* Half of the sites, and at least 5 of them; with fewer than 7 sites, two may be missing, as far as
 * a new site's policy allows that. */
static uint64_t most_sites(uint64_t n)
{
    uint64_t least = n >= 7 ? 5 : n > 2 ? n - 2 : 0;
    if (least < TASK_POLICY_CLIENTS)
        least = n < TASK_POLICY_CLIENTS ? n : TASK_POLICY_CLIENTS;
    return n / 2 > least ? n / 2 : least;
}

static uint64_t (*const threshold[TASK_PROFILES])(uint64_t) = {
    [TASK_OF_OPERATOR] = most_sites,
    [TASK_OF_REHEARSAL] = most_sites,
    [TASK_OF_PROVISION] = quarter,
    [TASK_OF_EXPERIMENT] = quarter, /* NULL: provision chooses */
};

/* ---------------------------------------------------------------------------------------------- */

const char *task_profile_value(task_profile p, const char *key)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].key, key) == 0)
            return rows[i].value[p];
    return NULL;
}

/* True for a key that another one decides: task_make chooses its value. */
static bool follows(const settings *s, const char *key)
{
    if (strcmp(key, "privacy.z") == 0)
        return !task_settings_mode(s)->noisy || task_settings_classic(s) != 0 ||
               settings_is(s, "privacy.claim", "dp");
    return strcmp(key, "training.epochs") == 0 &&
           (settings_u64(s, "training.steps") > 0 || settings_is(s, "privacy.unit", "record"));
}

/* A round ends when every client has sent its update, unless that weakens the claim. */
static sefl_status fill_rounds(settings *s, task_profile p)
{
    const uint64_t enrolled = settings_u64(s, "rounds.enrolled");
    const uint64_t most = settings_u64(s, "rounds.clients_max");
    const uint64_t turn = enrolled / task_make_separation(s);
    const bool all = settings_is(s, "privacy.sampling", "all");
    if (all && !settings_given(s, "rounds.threshold"))
        SEFL_PASS(settings_setf(s, names[p], "rounds.threshold=%" PRIu64, threshold[p](turn)));
    if (all && !settings_given(s, "rounds.enough"))
        SEFL_PASS(settings_setf(s, names[p], "rounds.enough=%" PRIu64,
                                most > 0 && most < enrolled ? most : enrolled));
    return SEFL_OK;
}

sefl_status task_profile_fill(settings *s, task_profile p)
{
    const bool external = task_settings_external(s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *key = rows[i].key, *value = rows[i].value[p];
        if (value && !settings_given(s, key) && task_setting_applies(key, external) &&
            !follows(s, key))
            SEFL_PASS(settings_set_pair(s, span_of_str(key), span_of_str(value), names[p]));
    }
    return threshold[p] ? fill_rounds(s, p) : SEFL_OK;
}
