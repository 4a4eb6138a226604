#include "privacy/combinations.h"

#include <stdbool.h>

/* Why a pair is refused. */
#define R(letter, text) [letter - 'a'] = text
static const char *const reasons[] = {
    R('a', "privacy.claim is dp: without noise the task must claim none"),
    R('b', "privacy.unit is record: this unit requires noise"),
    R('c', "privacy.clip_quantile: without noise (privacy.noise is none) nothing hides whose "
           "update is large"),
    R('d',
      "privacy.filter: there is no noise that a filter could take back (privacy.noise is none)"),
    R('e', "privacy.unit is record: only the built-in models train records one by one, and "
           "model.body is external"),
    R('f', "privacy.unit is record: a record's part is one step of plain sgd, so training.steps "
           "must be 1, training.optimiser sgd and training.weight_decay 0"),
    R('g', "privacy.unit is record: the clip bounds each record, not a client's update, so "
           "privacy.weights must be equal"),
    R('h', "privacy.clip_quantile: must be 0 if model.body is external, whose model files contain "
           "no clip"),
    R('i', "privacy.clip_quantile: a slot tells about a client's update, not about its records, so "
           "it must be 0 if privacy.unit is record"),
    R('j', "privacy.clip_quantile: an update has one slot, so privacy.weights must be equal"),
    R('k', "privacy.record_turns is below rounds.count, so rounds.separation must be 1: the turns "
           "of the records follow the numbers of the rounds, and a client that leaves out rounds "
           "may use some records each time and others never"),
    R('l', "privacy.record_turns is below rounds.count, so rounds.max_per_client must be 0: the "
           "turns of the records follow the numbers of the rounds, and a client that leaves out "
           "rounds never uses the records of these rounds"),
    R('m', "privacy.record_turns is below rounds.count, so privacy.filter must be empty: the "
           "ledgers charge correlated noise by the rounds of a client, not by those of a record"),
    R('n', "rounds.separation: with privacy.sampling, a client's coins alone decide when it takes "
           "part, so it must be 1"),
    R('o', "privacy.claim is dp: own noise under paillier has no proof for a claim that relies on "
           "sampling; use crypto.scheme pad, privacy.noise joint, or claim none"),
    R('p', "privacy.filter with own noise under paillier: nothing is proven about its carries over "
           "several rounds; use crypto.scheme pad, or claim none"),
    R('q', "privacy.clip_quantile: nothing is proven for it together with privacy.filter"),
    R('r', "privacy.filter: single rounds then have more noise, too much for the divisor of capped "
           "weights, so privacy.weights must be equal"),
    R('s', "privacy.filter: nothing is proven for correlated noise together with sampling, so "
           "privacy.sampling must be all; rounds.separation lets clients take turns instead"),
    R('t', "privacy.filter: single rounds then have more noise, too much for the divisor of server "
           "Adam, so server.step must be average or momentum"),
    R('u', "trainer: a command does not train records one by one, so privacy.unit must be client"),
    R('v', "trainer: device is for the built-in training, not for a command: set device: cpu"),
    R('w', "device: cuda: privacy.unit: record needs the gradient of each single record, which "
           "only the CPU computes: set device: cpu"),
    R('x', "device: cuda: privacy.clip_quantile needs device: cpu"),
    R('y', "privacy.clip_quantile: only one process can simulate it (no mpirun)"),
};

#define FEATURE_CHECK(NAME, cells, text) \
    _Static_assert(sizeof cells == FEATURE_##NAME + 2, "a cell for each feature up to " text);
FEATURES(FEATURE_CHECK)
_Static_assert(FEATURE_COUNT <= 32, "a set has 32 bits");

#define FEATURE_ENTRY(NAME, cells, text) { text, cells },
static const struct {
    const char *text, *cell;
} features[] = { FEATURES(FEATURE_ENTRY) };

static bool both(uint32_t set, unsigned i, unsigned j)
{
    return set >> i & set >> j & 1;
}

/* 0: not a section */
static unsigned section_of(char cell)
{
    return cell >= '1' && cell <= '9'   ? (unsigned)(cell - '0')
           : cell >= 'A' && cell <= 'F' ? (unsigned)(cell - 'A' + 10)
                                        : 0;
}

const char *combination_refused(uint32_t set)
{
    for (unsigned i = 0; i < FEATURE_COUNT; i++)
        for (unsigned j = 0; j < i; j++)
            if (both(set, i, j) && features[i].cell[j] >= 'a')
                return reasons[features[i].cell[j] - 'a'];
    return NULL;
}

sefl_status combination_check(uint32_t set)
{
    const char *why = combination_refused(set);
    return why ? sefl_fail(SEFL_EINVAL, "%s", why) : SEFL_OK;
}

sefl_status combination_sections(sefl_buf *out, uint32_t set)
{
    uint32_t named = 1 << 1;
    for (unsigned i = 0; i < FEATURE_COUNT; i++)
        for (unsigned j = 0; j < i; j++)
            if (both(set, i, j))
                named |= UINT32_C(1) << section_of(features[i].cell[j]);
    for (unsigned c = 1; c < 16; c++)
        if (named >> c & 1)
            SEFL_PASS(wr_fmt(out, "%s%u", c == 1 ? "" : named >> (c + 1) ? ", " : " and ", c));
    return SEFL_OK;
}

sefl_status combination_table(sefl_buf *out)
{
    SEFL_PASS(wr_fmt(out, "| | feature |"));
    for (unsigned i = 0; i < FEATURE_COUNT; i++)
        SEFL_PASS(wr_fmt(out, " %u |", i + 1));
    SEFL_PASS(wr_fmt(out, "\n|---|---|"));
    for (unsigned i = 0; i < FEATURE_COUNT; i++)
        SEFL_PASS(wr_fmt(out, "---|"));
    for (unsigned i = 0; i < FEATURE_COUNT; i++) {
        SEFL_PASS(wr_fmt(out, "\n| %u | %s |", i + 1, features[i].text));
        for (const char *c = features[i].cell; *c; c++)
            SEFL_PASS(*c == '.'   ? wr_fmt(out, " |")
                      : *c >= 'a' ? wr_fmt(out, " **%c** |", *c)
                                  : wr_fmt(out, " %u |", section_of(*c)));
    }
    SEFL_PASS(wr_fmt(out, "\n\n| | why not |\n|---|---|\n"));
    for (unsigned i = 0; i < sizeof reasons / sizeof *reasons; i++)
        SEFL_PASS(wr_fmt(out, "| **%c** | %s |\n", 'a' + i, reasons[i]));
    return SEFL_OK;
}
