#include "simulate/past.h"

#include "base/alloc.h"
#include "base/file.h"

#include <string.h>

enum { PLACES = NOISE_LAGS + 1 };

struct past {
    dp_filter filter;
    size_t bytes;           /* of one server's numbers */
    uint64_t round[PLACES]; /* 0: none */
    uint8_t *kept[PLACES];  /* AS's numbers, then CSP's */
};

sefl_status past_new(past **out, const task *t)
{
    *out = NULL;
    if (t->filter.b == 0)
        return SEFL_OK;
    SEFL_MAKE(past, p, out);
    p->filter = t->filter;
    p->bytes = t->values * NOISE_KEPT;
    for (unsigned i = 0; i <= t->filter.b; i++)
        SEFL_TRY(sefl_new(&p->kept[i], PAST_SIDES, p->bytes));
    SEFL_HAND_OVER(out, p, past_free);
}

void past_free(past *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < PLACES; i++)
        sefl_free(p->kept[i]);
    sefl_free(p);
}

static unsigned at(const past *p, uint64_t round)
{
    return (unsigned)(round % (p->filter.b + 1));
}

static bool has(const past *p, uint64_t round)
{
    return round > 0 && p->round[at(p, round)] == round;
}

void past_use(past *p, past_side side, uint64_t round, uint8_t *lags, uint8_t **memory)
{
    *lags = 0;
    const uint8_t *kept[NOISE_LAGS] = { 0 };
    *memory = NULL;
    if (!p)
        return;
    for (unsigned j = 0; j < p->filter.b; j++) {
        if (p->filter.gamma[j] == 0 || round <= j + 1 || !has(p, round - 1 - j))
            continue;
        kept[j] = p->kept[at(p, round - 1 - j)] + side * p->bytes;
        *lags |= (uint8_t)(1u << j);
    }
    p->round[at(p, round)] = round;
    *memory = p->kept[at(p, round)] + side * p->bytes;
    noise_filter_back(*memory, p->filter.gamma, *lags, kept, p->bytes / NOISE_KEPT);
}

void past_drop(past *p, uint64_t round)
{
    if (p && has(p, round))
        p->round[at(p, round)] = 0;
}

sefl_status past_write(const past *p, uint64_t round, const char *path)
{
    const size_t n = has(p, round) ? PAST_SIDES * p->bytes : 0;
    return file_write_atomic(path, span_of(p->kept[at(p, round)], n), 0666);
}

sefl_status past_read(past *p, uint64_t round, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(file_read(&b, path, PAST_SIDES * p->bytes));
    if (b.n == 0)
        goto done;
    SEFL_CHECK(b.n == PAST_SIDES * p->bytes, SEFL_EPROTO, "%s has %zu bytes, not %zu", path, b.n,
               PAST_SIDES * p->bytes);
    memcpy(p->kept[at(p, round)], b.p, b.n);
    p->round[at(p, round)] = round;
done:
    buf_clear(&b);
    return st;
}
