/* lane_words: what both ends of a lane share (roles/aggregator/lanes.h, roles/csp/lane_host.h).
 *
 * The servers generate noise shares (mpc/noise/shares.h) in parallel with the rounds, on separate
 * streams and threads, and each keeps its shares in a pool (mpc/noise/shares_pool.h). Only joint
 * noise needs lanes.
 *
 *     AS    lanes_bind(l, pair);                       // the link to CSP is up: WELCOME's pair
 *           SEFL_TRY(lanes_wait(l, values));           // a reveal needs this many values
 *           lanes_hold(l, true); ... lanes_hold(l, false);         // around a reveal
 *           lanes_bind(l, NULL);                       // the link is down
 *     CSP   lane_host_bind(h, pair);                   // csp_config.paired
 *           SEFL_TRY(lane_host_take(h, t));            // a lane has dialled
 *           lane_host_unbind(h);                       // the link is down
 *
 * A lane is one thread per server with its own stream (ALPN LANE_ALPN). AS dials, names the link to
 * which the lane belongs, and requests one session after another until the pool is full. Then it
 * hangs up:
 *
 *     AS    LANE pair, number      CSP   YES, or NO: PAIR (another link), CHECKS (the task is over)
 *     AS    SEED id, signature     CSP   SEED, or NO: LOST; for each audit that is open (below)
 *     AS    FILL count             CSP   YES, or NO: CHECKS
 *           shares_evaluate              shares_garble
 *                                        YES: its shares are in the pool. Then AS adds its own.
 *
 * count is always lanes_session(task). AS adds its shares last, so it never picks shares that CSP
 * does not have yet. At worst, a broken lane leaves CSP with shares that AS never uses; a full pool
 * erases its oldest shares.
 *
 * Timing. A lane begins a session if the pool and the running sessions together have fewer shares
 * than two rounds need. During a reveal all lanes pause, even in the middle of a session, unless
 * the reveal itself waits for shares. Lanes run at low priority (nice 10).
 *
 * Erasing. Shares are bound to a link; a new link has a new pair, even after a restart of either
 * server. A server that detects a protocol violation or a failed check erases its pool; the other
 * server learns of this from NO SLICE. A lane whose connection breaks loses only its own session,
 * whose shares were in no pool yet.
 *
 * Checks. CSP's check of AS's transfers (SEFL_ECRYPTO from shares_garble) never fails by accident.
 * If it fails, CSP logs an error and counts the failure in its journal (fact 0 "checks"). At
 * CSP_CHECKS_MAX the task is over: every lane and every request on the link gets NO CHECKS, and AS
 * ends with an error (lanes_ended).
 *
 * Audits (noise/noise_audit.h). AS audits one in `audit` sessions. An audit that reveals a wrong
 * circuit or a wrong seed ends the task at AS permanently (fact 0 "caught"). Audit records are
 * files in the folder `records`.
 *
 * Silence. From before AUDIT leaves until AS has judged the seed, the audit is open: fact 0
 * "audit N" of lane N has all that AS needs to ask again (SEED) on any stream, also after a restart
 * or in another process. While an audit is open, lanes_wait does not return, so no round uses a
 * share, and its lane begins no other session; the next stream asks for the seed first. So silence
 * stops the rounds, and no session is used after it. A broken stream is no answer: AS asks again,
 * and counts nothing. NO LOST is a refusal. AS counts the first one of a session durably and goes
 * on asking; a refusal LANES_REFUSAL_MS after it is the second, and ends the task permanently (fact
 * 0 "refused"). Until then the operators can start the machine of CSP that has the seed.
 *
 * Memory: the pool takes 4 bytes per value (5 if the ring has more than 20 bits) for at most two
 * rounds and one session per lane; a running session takes 8 bytes per value and about 6 MB.
 *
 * Threads: any.   Secrets: none here. */
#ifndef ROLES_LANE_WORDS_H
#define ROLES_LANE_WORDS_H

#include "mpc/noise/shares_pool.h"
#include "protocol/link.h"
#include "protocol/task.h"
#include "store/journal/journal.h"

enum { LANES_MAX = 16 };

/* Returns the number of values per session: as many as two rounds need, but at least 2^16 and at
 * most 2^20; more if a slice would otherwise have too many parts. */
uint64_t lanes_session(const task *t);
/* Returns the capacity of this task's pool: shares for two rounds and one session for each of
 * LANES_MAX lanes. */
uint64_t lanes_pool_max(const task *t);

/* Sets the pair, count and bits of a session, which must be equal at both ends. */
void lane_params(shares_params *p, const task *t, const uint8_t pair[LINK_PAIR], uint64_t count);

/* Receives CSP's answer: YES, or SEED if `seed` is not NULL. *no is 0, or NO's link_no code. */
sefl_status lane_hear(channel *ch, uint8_t *seed, uint16_t *no) SEFL_MUST_CHECK;

/* Lowers the priority of the calling thread. */
void lane_low_priority(void);

/* Adds `more` durably to the count in the journal's fact 0 `name`; with 0, only reads it. */
sefl_status lane_count(journal *j, const char *name, unsigned more,
                       unsigned *count) SEFL_MUST_CHECK;

#endif
