/* rule_text: a text to learn from, and small models for it. */
#ifndef TESTS_MODEL_RULE_TEXT_H
#define TESTS_MODEL_RULE_TEXT_H

#include "support/check.h"

#include "model/lm.h"
#include "seeded/seeded.h"

enum { WORDS = 700, VOCAB = 41 };

static uint32_t text[WORDS];

/* Words that mostly follow a rule, so that there is something to learn. */
static inline void make_text(void)
{
    seeded g;
    seeded_init(&g, 5, "text");
    for (size_t i = 0; i < WORDS; i++)
        text[i] = i > 0 && seeded_unit(&g) < 0.9 ? (text[i - 1] * 3 + 1) % VOCAB
                                                 : (uint32_t)seeded_below(&g, VOCAB);
}

static const lm_config sizes[] = {
    { .body = "lstm",
      .vocab = VOCAB,
      .embed = 12,
      .hidden = 10,
      .block = 4,
      .batch = 6,
      .steps = 9 },
    { .vocab = VOCAB, .embed = 12, .hidden = 12, .batch = 7, .steps = 5, .tied = true },
    { .body = "transformer",
      .vocab = VOCAB,
      .embed = 12,
      .hidden = 10,
      .block = 8,
      .batch = 6,
      .steps = 9 },
    { .vocab = VOCAB,
      .embed = 12,
      .hidden = 10,
      .block = 4,
      .block_embed = 8,
      .block_decoder = 1,
      .batch = 6,
      .steps = 9 },
    { .body = "transformer",
      .vocab = VOCAB,
      .embed = 12,
      .hidden = 10,
      .block = 1,
      .block_embed = 2,
      .block_decoder = 8,
      .batch = 6,
      .steps = 9 },
};
#define SIZES (sizeof sizes / sizeof sizes[0])

#endif
