/* The scheme checks units in groups of `group`: Paillier checks eight in parallel. The sum that it
 * needs for a check has room for one group only; the length of the vector does not matter. */
#include "roles/aggregator/body.h"

#include "base/alloc.h"

#include <string.h>

enum { GROUP = 8, GROUP_BYTES = 16 << 10 };

sefl_status body_rule_init(body_rule *r, const ahe_params *p, const ahe_pub *pub)
{
    *r = (body_rule){ .p = p, .group = p->unit_bytes * GROUP <= GROUP_BYTES ? GROUP : 1 };
    r->carry_bytes = r->group * p->unit_bytes;
    SEFL_PASS(ahe_params_init(&r->small, p->scheme, &p->pack, pub, r->group * p->unit_values));
    return ahe_sum_new(&r->sum, &r->small, pub);
}

void body_rule_clear(body_rule *r)
{
    if (r->sum)
        ahe_sum_free(&r->small, r->sum);
    *r = (body_rule){ 0 };
}

/* Finds the bad unit and names it. */
static sefl_status name_bad(const body_check *c, const uint8_t *bytes, size_t units)
{
    const body_rule *r = c->rule;
    for (size_t i = 0; i < units; i++) {
        sefl_status st = ahe_sum_check_units(&r->small, r->sum, bytes + i * r->p->unit_bytes, 1);
        if (st != SEFL_OK)
            return sefl_fail_at(st, "unit %zu of %zu", c->unit + i, r->p->units);
    }
    return sefl_fail(SEFL_EPROTO, "units %zu to %zu are not ciphertexts", c->unit,
                     c->unit + units - 1);
}

static sefl_status check_units(body_check *c, const uint8_t *bytes, size_t units)
{
    const body_rule *r = c->rule;
    while (units > 0) {
        size_t n = units < r->group ? units : r->group;
        if (ahe_sum_check_units(&r->small, r->sum, bytes, n) != SEFL_OK)
            return name_bad(c, bytes, n);
        c->unit += n;
        bytes += n * r->p->unit_bytes;
        units -= n;
    }
    return SEFL_OK;
}

/* Returns the number of bytes that the next check needs. */
static size_t wanted(const body_check *c)
{
    const ahe_params *p = c->rule->p;
    size_t left = p->units - c->unit;
    return (left < c->rule->group ? left : c->rule->group) * p->unit_bytes;
}

sefl_status body_check_feed(body_check *c, sefl_span piece)
{
    sefl_status st = SEFL_OK;
    const body_rule *r = c->rule;
    uint64_t total = ahe_body_bytes(r->p);
    if (c->st != SEFL_OK)
        return c->st;
    SEFL_CHECK(piece.n <= total - c->seen, SEFL_ERANGE, "more than the %llu bytes of an update",
               (unsigned long long)total);
    c->seen += piece.n;
    while (piece.n > 0) {
        size_t want = wanted(c);
        if (c->have == 0 && piece.n >= want) { /* checks all complete groups in place */
            size_t left = (r->p->units - c->unit) * r->p->unit_bytes;
            size_t n = (piece.n < left ? piece.n : left) / want * want;
            SEFL_TRY(check_units(c, piece.p, n / r->p->unit_bytes));
            piece = span_of(piece.p + n, piece.n - n);
            continue;
        }
        if (!c->carry)
            SEFL_TRY(sefl_new(&c->carry, 1, r->carry_bytes));
        size_t n = want - c->have < piece.n ? want - c->have : piece.n;
        memcpy(c->carry + c->have, piece.p, n);
        c->have += n;
        piece = span_of(piece.p + n, piece.n - n);
        if (c->have == want) {
            c->have = 0;
            SEFL_TRY(check_units(c, c->carry, want / r->p->unit_bytes));
        }
    }
done:
    c->st = st;
    return st;
}

sefl_status body_check_end(const body_check *c)
{
    uint64_t total = ahe_body_bytes(c->rule->p);
    if (c->st != SEFL_OK)
        return c->st;
    if (c->seen == total && c->have == 0 && c->unit == c->rule->p->units)
        return SEFL_OK;
    return sefl_fail(SEFL_EPROTO, "%llu of %llu bytes of an update", (unsigned long long)c->seen,
                     (unsigned long long)total);
}

void body_check_clear(body_check *c)
{
    sefl_free(c->carry);
    *c = (body_check){ .rule = c->rule };
}
