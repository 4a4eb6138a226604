/* combinations: which features of a federation go together, and why not, or where the proof is.
 *
 *     SEFL_TRY(combination_check(task_features(&t) | FEATURE(GPU)));      // protocol/task.h
 *
 * One row per feature, with a cell for each feature up to itself; a feature without a full row does
 * not compile. A cell is
 *     a hexadecimal digit   the section of docs/PRIVACY.md that covers the pair
 *     a small letter        the reason to refuse it (combinations.c)
 *     .                     the two cannot occur together, or one contains the other
 * `sefl config table` writes the page (docs/SETTINGS.md), `sefl task show --explain` names the
 * sections.
 *
 * Threads: pure functions.   Secrets: none. */
#ifndef PRIVACY_COMBINATIONS_H
#define PRIVACY_COMBINATIONS_H

#include "base/buf.h"

/* clang-format off */
#define FEATURES(F)                                                                                \
    F(EXACT,      ".",                     "privacy.noise: none")                                  \
    F(JOINT,      "..",                    "privacy.noise: joint")                                 \
    F(OWN,        "...",                   "privacy.noise: own")                                   \
    F(CLAIM,      "a45.",                  "privacy.claim: dp")                                    \
    F(PAILLIER,   "8451.",                 "crypto.scheme: paillier")                              \
    F(CARRIES,    "..555.",                "privacy.claim: dp with own noise under paillier")      \
    F(EXTERNAL,   "811111.",               "model.body: external")                                 \
    F(RECORD,     "b11111e.",              "privacy.unit: record")                                 \
    F(TURNS,      ".77777.7.",             "privacy.record_turns below rounds.count")              \
    F(STEPS,      "811111.f..",            "training other than one step of plain sgd")            \
    F(QUANTILE,   "cCCCCChi.C.",           "privacy.clip_quantile")                                \
    F(CAPPED,     "8222222g.2j.",          "privacy.weights: capped")                              \
    F(OPEN,       "8222222222C2.",         "privacy.sampling: open")                               \
    F(AMPLIFIED,  ".2222o2..2C22.",        "a claim that counts on sampling")                      \
    F(SEPARATION, "82222222k222nn.",       "rounds.separation above 1")                            \
    F(MOST,       "82222222l222222.",      "rounds.max_per_client below rounds.count")             \
    F(FILTER,     "dBBBBpBBmBqrssBB.",     "privacy.filter")                                       \
    F(ADAM,       "8111111111111111t.",    "server.step: adam")                                    \
    F(TRAINER,    "8111111u.1C11111B1.",   "trainer: a command")                                   \
    F(GPU,        "811111.w.1x11111B1v.",  "device: cuda")                                         \
    F(RANKS,      "8111111171y11111B111.", "a simulation in several processes")
/* clang-format on */

#define FEATURE_ENUM(NAME, cells, text) FEATURE_##NAME,
enum { FEATURES(FEATURE_ENUM) FEATURE_COUNT };
#define FEATURE(NAME) (UINT32_C(1) << FEATURE_##NAME)

/* Returns why the first refused pair of the set is refused; NULL: all go together. */
const char *combination_refused(uint32_t set);
/* The same as SEFL_EINVAL with that message. */
sefl_status combination_check(uint32_t set) SEFL_MUST_CHECK;

/* Appends the sections of docs/PRIVACY.md that cover the pairs of the set, after the first, which
 * has the statement: "1, 4 and 7". */
sefl_status combination_sections(sefl_buf *out, uint32_t set) SEFL_MUST_CHECK;
/* Appends all pairs and all reasons as two tables in Markdown. */
sefl_status combination_table(sefl_buf *out) SEFL_MUST_CHECK;

#endif
