/* The age of the round key, by a clock that nobody sets.
 *
 *  1. Key time is the machine's boot time plus a constant. It begins at the wall clock's time when
 *     CSP signs a header, and only boot time moves it: a wall clock that jumps expires no key and
 *     keeps none.
 *  2. The record CSP_CLOCK has both clocks as they were when the header was signed, and then of
 *     every minute. After another start of the process, the boot id decides. Same boot: key time
 *     goes on by boot time alone.
 *  3. After another boot, or on another machine, key time goes on from the record, and lacks the
 *     time in between, which only wall clocks know. Until AS's clock (HELLO) agrees with CSP's, or
 *     the operator confirms CSP's, CSP is unsure: it refuses HELLO, so it neither signs nor
 *     reveals.
 *  4. AS may lie about its clock. A clock of CSP that is behind the record and the time since is
 *     wrong, so AS's agreement with it counts for nothing. (A clock that stood still while the
 *     machine was off looks right.)
 *  5. An unsure CSP still counts the time that it runs. So AS gains at most one lifetime of running
 *     time by disagreeing, or by not coming at all: then the key expires anyway. */
#include "sum/csp_internal.h"

#include <stdio.h>
#include <string.h>

enum { KEEP_MS = 60000, APART_MS = 60000 };

/* The record, byte by byte: boot id 16 (zeros: another boot in any case), boot time, key time, and
 * the time that CSP's wall clock shows at that key time if nothing is missing from it (u64
 * each). */
typedef struct kept {
    uint8_t boot_id[CLOCK_BOOT_ID];
    uint64_t boot_ms, key_ms, wall_ms;
} kept;
enum { KEPT_BYTES = CLOCK_BOOT_ID + 24 };

static uint64_t wall_ms(const csp *c)
{
    return clock_ms(c->c.wall);
}

static uint64_t boot_ms(const csp *c)
{
    return clock_ms(c->c.boot);
}

uint64_t csp_key_time_ms(const csp *c)
{
    return c->c.wall ? boot_ms(c) + atomic_load(&c->clock.base_ms) : 0;
}

static void set_key_time(csp *c, uint64_t ms)
{
    atomic_store(&c->clock.base_ms, ms - boot_ms(c)); /* modulo 2^64 */
}

/* CSP is unsure: what its wall clock shows at least, if it is right. */
static uint64_t least_ms(const csp *c)
{
    return boot_ms(c) + c->clock.expected_ms;
}

bool csp_is_unsure(const csp *c)
{
    return atomic_load(&c->clock.unsure);
}

void csp_confirm_clock(csp *c)
{
    atomic_store(&c->clock.confirmed, true);
}

/* ---- the record ------------------------------------------------------------------------------ */

static sefl_status keep(csp *c)
{
    const csp_store *s = c->c.store;
    uint8_t bytes[KEPT_BYTES] = { 0 }, *p = bytes + CLOCK_BOOT_ID;
    const uint64_t boot = boot_ms(c);
    const bool unsure = csp_is_unsure(c);
    if (!unsure)
        memcpy(bytes, c->c.boot_id, CLOCK_BOOT_ID);
    store_u64(p, boot);
    store_u64(p + 8, csp_key_time_ms(c));
    store_u64(p + 16, unsure ? least_ms(c) : wall_ms(c));
    SEFL_PASS(s->put(s->ctx, CSP_CLOCK, 0, span_of(bytes, sizeof bytes)));
    c->clock.kept_ms = boot;
    return SEFL_OK;
}

/* Without a record, as if CSP had died when it signed the header. */
static sefl_status load(const csp *c, const csp_round *live, kept *out)
{
    sefl_status st = SEFL_OK;
    const csp_store *s = c->c.store;
    sefl_buf b = { 0 };
    *out = (kept){ .key_ms = live->signed_ms, .wall_ms = live->signed_ms };
    st = s->get(s->ctx, CSP_CLOCK, 0, &b);
    if (st == SEFL_ENOTFOUND) {
        st = SEFL_OK;
        goto done;
    }
    SEFL_TRY(st);
    SEFL_CHECK(b.n == KEPT_BYTES, SEFL_EPROTO, "csp: the record of the clocks has %zu bytes", b.n);
    memcpy(out->boot_id, b.p, CLOCK_BOOT_ID);
    out->boot_ms = load_u64(b.p + CLOCK_BOOT_ID);
    out->key_ms = load_u64(b.p + CLOCK_BOOT_ID + 8);
    out->wall_ms = load_u64(b.p + CLOCK_BOOT_ID + 16);
done:
    buf_clear(&b);
    return st;
}

/* ---- start, and once a minute ---------------------------------------------------------------- */

sefl_status csp_clock_begin(csp *c)
{
    if (!c->c.wall)
        return SEFL_OK;
    atomic_store(&c->clock.unsure, false);
    set_key_time(c, wall_ms(c));
    return keep(c);
}

sefl_status csp_clock_restore(csp *c, const csp_round *live)
{
    static const uint8_t unknown[CLOCK_BOOT_ID];
    const uint64_t boot = c->c.wall ? boot_ms(c) : 0;
    kept k;
    if (!c->c.wall)
        return SEFL_OK;
    SEFL_PASS(load(c, live, &k));
    set_key_time(c, k.key_ms);
    if (memcmp(k.boot_id, unknown, sizeof unknown) != 0 && k.boot_ms <= boot &&
        memcmp(k.boot_id, c->c.boot_id, sizeof k.boot_id) == 0) {
        set_key_time(c, k.key_ms + (boot - k.boot_ms));
        return SEFL_OK;
    }
    c->clock.expected_ms = k.wall_ms - boot; /* modulo 2^64 */
    atomic_store(&c->clock.unsure, true);
    log_warn(
        c->c.log,
        "the machine restarted in the middle of a round, or this is another one: CSP waits for "
        "AS's clock to tell the age of the round key",
        lf_u64("round", live->round));
    return SEFL_OK;
}

/* CSP's wall clock is right: adds the time that boot time did not see. */
static void settle(csp *c, const char *why)
{
    const uint64_t least = least_ms(c), now = wall_ms(c);
    const uint64_t away = now > least ? now - least : 0;
    set_key_time(c, csp_key_time_ms(c) + away);
    atomic_store(&c->clock.unsure, false);
    log_info(c->c.log, why, lf_u64("away_s", away / 1000));
}

void csp_clock_look(csp *c)
{
    if (c->live == 0 || !c->c.wall)
        return;
    const bool settles = csp_is_unsure(c) && atomic_exchange(&c->clock.confirmed, false);
    if (settles)
        settle(c, "the operator confirmed this server's clock: the round goes on");
    if (!settles && boot_ms(c) - c->clock.kept_ms < KEEP_MS)
        return;
    c->clock.kept_ms = boot_ms(c); /* after a failure, a minute later: the key only gets older */
    if (keep(c) != SEFL_OK)
        log_warn(c->c.log, "the clock was not stored", lf_str("why", sefl_last_error()));
}

sefl_status csp_clock_compare(csp *c, uint64_t as_ms)
{
    char why[200];
    if (!c->c.wall)
        return SEFL_OK;
    const uint64_t ours = wall_ms(c), apart = ours > as_ms ? ours - as_ms : as_ms - ours;
    if (csp_is_unsure(c) && ours + APART_MS < least_ms(c)) {
        snprintf(why, sizeof why, "CSP's clock is %llu s behind its own record",
                 (unsigned long long)((least_ms(c) - ours) / 1000));
        return csp_no(c, LINK_NO_CLOCK, why);
    }
    if (apart <= APART_MS) {
        if (csp_is_unsure(c))
            settle(c, "this server's clock and AS's agree: the round goes on");
        return SEFL_OK;
    }
    snprintf(why, sizeof why, "CSP's clock is %llu s %s AS's", (unsigned long long)(apart / 1000),
             ours > as_ms ? "ahead of" : "behind");
    if (csp_is_unsure(c))
        return csp_no(c, LINK_NO_CLOCK, why);
    log_warn(c->c.log, "the two servers' clocks differ: check both, and run NTP",
             lf_str("why", why));
    return SEFL_OK;
}
