#define _GNU_SOURCE
#include "roles/lane_words.h"

#include "base/sha256.h"

#include <sys/resource.h>

uint64_t lanes_session(const task *t)
{
    uint64_t n = 2 * t->values, least = t->values / (SLICE_PARTS_MAX / 2) + 1;
    n = n < 1 << 16 ? 1 << 16 : n > 1 << 20 ? 1 << 20 : n;
    n = n < least ? least : n;
    return n < SHARES_COUNT_MAX ? n : SHARES_COUNT_MAX;
}

uint64_t lanes_pool_max(const task *t)
{
    uint64_t n = 2 * t->values + LANES_MAX * lanes_session(t);
    return n < SHARES_POOL_MAX ? n : SHARES_POOL_MAX;
}

void lane_params(shares_params *p, const task *t, const uint8_t pair[LINK_PAIR], uint64_t count)
{
    sha256_join(p->pair, span_of_str("sefl pair 1"), span_of(t->servers.as, SIGN_PUB_BYTES),
                span_of(t->servers.csp, SIGN_PUB_BYTES), span_of(pair, LINK_PAIR));
    p->count = count;
    p->bits = task_share_bits(t);
}

void lane_low_priority(void)
{
    enum { NICE = 10 };
    (void)!setpriority(PRIO_PROCESS, 0, NICE); /* Linux: this thread only; a failure is harmless */
}

sefl_status lane_hear(channel *ch, uint8_t *seed, uint16_t *no)
{
    sefl_status st = SEFL_OK;
    link_msg m = { 0 };
    *no = 0;
    SEFL_TRY(link_recv(ch, &m));
    rd r = rd_over(buf_span(&m.body));
    if (m.kind == LINK_NO) { /* its text is for people */
        SEFL_TRY(rd_u16(&r, no));
        SEFL_CHECK(*no != 0, SEFL_EPROTO, "lane: CSP sent NO without a reason");
        goto done;
    }
    SEFL_CHECK(m.kind == (seed ? LINK_SEED : LINK_YES), SEFL_EPROTO,
               "lane: CSP sent %s, expected %s", link_kind_name(m.kind), seed ? "SEED" : "YES");
    if (seed)
        SEFL_TRY(rd_raw(&r, seed, AUDIT_SEED));
    SEFL_TRY(rd_end(&r));
done:
    buf_clear(&m.body);
    return st;
}

sefl_status lane_count(journal *j, const char *name, unsigned more, unsigned *count)
{
    uint8_t bytes[4] = { 0 };
    *count = 0;
    sefl_status st = journal_fact_fixed(j, 0, name, bytes, sizeof bytes);
    SEFL_PASS(st == SEFL_ENOTFOUND ? SEFL_OK : st);
    *count = load_u32(bytes);
    *count = *count <= UINT32_MAX - more ? *count + more : UINT32_MAX;
    store_u32(bytes, *count);
    if (more > 0)
        SEFL_PASS(journal_fact_put(j, 0, name, span_of(bytes, sizeof bytes)));
    return SEFL_OK;
}
