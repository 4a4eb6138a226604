/* pool: the shares of joint noise, from the session that makes them to the answer that uses them.
 *
 * What is modelled, and where the code is
 *   - Guest: a stream of a lane at CSP (src/parties/csp/lane_host.c), with the seed file of the
 *     lane, the facts "dropped ID", the lock, and CSP's pool (src/core/mpc/noise/shares_pool.c).
 *   - Lane: AS's end (src/parties/as/lanes.c): settle the open audit, FILL, the coin, KEEP or
 *     AUDIT, and AS's pool.
 *   - Link: CSP's end of a reveal (src/core/sum/csp/csp_reveal.c): the slice leaves the pool with
 *     GO; output and mark are durable before the answer leaves; KEPT is the same bytes.
 *   - Round: AS's end (src/core/sum/as/as_reveal.c): the gate (lanes_wait), the slice, x^A and the
 *     mask durable before the sum leaves, the answer.
 *   - Chaos: either server stops and starts with what is durable; a lane's stream or the link
 *     breaks. What was sent may still arrive. A new link empties both pools.
 *   - Evil (with the macro EVIL) takes the place of Lane and Round: an AS that says KEEP, AUDIT and
 *     SEED of any session, names any slice and sends any sum at any time, over two streams.
 * A session has two shares, and a round needs one: a slice is (session, index). An input is a
 * round with an attempt. CSP is honest; one that is silent looks like a stream that breaks.
 * Not here: charges and ledgers (round.pml), fail-over (lease.pml), failed checks of transfers, a
 * seed that CSP lost with its disk.
 *
 * Properties
 *   1. A share enters at most one answer: answers that leave CSP for two inputs have two shares.
 *   2. A round has at most one answer.
 *   3. A session whose seed AS has seen gives no share to an answer, and is in no pool of CSP.
 *   4. KEEP is final: CSP shows no seed of a session that it has kept.
 *   With an honest AS also
 *   5. AS takes no share into a round while CSP owes it a seed, though AS was restarted.
 *   6. An honest CSP never answers LOST, and never lacks a share that AS names.
 *   7. AS completes each answer with its own share and mask: no round is lost.
 *   8. Every run ends, with an answer for every round.
 *
 * Bounds: SESSIONS (2, 6 or 9), AUDITS, CRASHES of both servers together, STREAMS that break. With
 * an honest AS there must be as many sessions as the other bounds can spoil, and one more.
 * A macro of pool.bugs puts a fault in, which the search must find. */

#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef AUDITS
#define AUDITS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef STREAMS
#define STREAMS 0
#endif
#define ROUNDS 2
#define SHARES 2 /* of a session */

mtype = { NONE,
          FILL, KEEP, AUDIT, SEED,   /* on a lane, from AS */
          CLOSE, YES, SHOW, LOST,    /* from CSP */
          REVEAL, SUM,               /* on the link, from AS */
          GO, NO_SLICE, KEPT, ANSWER /* from CSP */ };

#define BIT(s)    (1 << (s))
#define HAS(m, s) (((m) >> (s)) & 1)

/* ---- durable --------------------------------------------------------------------------------- */

/* CSP: the session whose seed the file of a lane has, 0: none; sessions dropped; answers */
byte seed[2];
short dropped; /* sessions, one bit each */
byte marked[ROUNDS + 1]; /* the answer of a round: see CODE; 0: none */
/* AS: the open audit; the round; the attempt; x^A and the mask, as the answer they belong to */
byte open, round = 1, attempt, x_stored, mask;

/* An answer: share and attempt. */
#define CODE(share, n) ((share) + 32 * (n)) /* a share: session + 16 index */
#define SHARE_OF(a)    ((a) % 32)
#define SESSION_OF(a)  ((a) % 16)
#define INDEX_OF(a)    ((a) / 16)

/* ---- not durable ----------------------------------------------------------------------------- */

byte made; /* sessions so far */
byte at_csp[SESSIONS + 1], at_as[SESSIONS + 1]; /* the pools: 0: not there, else 1 + cursor */
bool up; /* the link */

/* The streams of lanes: two, so that an old one may still run beside a new one. FILL stands for
 * AS's hello, after which CSP draws the seed. */
mtype asks[2] = NONE, says[2] = NONE;
byte about[2];   /* the session that asks is about, with SEED */
bool joined[2];  /* AS is still there */
byte number[2];  /* the lane's number, which names the seed file */
byte newest[2];  /* the newest stream of each number: no other may begin a session */
mtype = { FREE, READY, DRAWN, MADE, KEEPING, WIPED, FOUND, DROPPED, /* at CSP */
          SHOWN, LATE };
mtype guest[2] = FREE;
byte id[2];
bool locked;

/* The link. */
mtype question = NONE, reply = NONE;
byte q_round, q_share, q_attempt, r_answer; /* q_share: session + 16 index */
mtype = { IDLE, TAKEN, SUMMED, MARKED };
mtype csp = IDLE;

/* ---- what has happened, for the properties --------------------------------------------------- */

short seen, kept;              /* sessions: AS has the seed; CSP has destroyed it */
byte used[32];                 /* share: 1 + the input whose answer has left; 0: none */
byte answered[ROUNDS + 1];     /* the answer that has left */
byte owed;                     /* the session of which CSP has read AUDIT, or may */
#define INPUT(r, a) (8 * (r) + (a) / 32)

inline shows(s)
{
    assert(!HAS(kept, s));                                       /* property 4 */
    assert(at_csp[s] == 0 && used[s] == 0 && used[s + 16] == 0); /* property 3 */
    seen = seen | BIT(s)
}

inline leaves(r, a)
{
    assert(used[SHARE_OF(a)] == 0 || used[SHARE_OF(a)] == 1 + INPUT(r, a)); /* property 1 */
    assert(answered[r] == 0 || answered[r] == a);                           /* property 2 */
    assert(!HAS(seen, SESSION_OF(a)));                                      /* property 3 */
    used[SHARE_OF(a)] = 1 + INPUT(r, a);
    answered[r] = a
}

/* What AS asks. An evil AS asks for anything at any time: CSP reads what it likes. */
#ifdef EVIL
#define ASKS(g, what)       true
#define QUESTION(what)      up
#define EVIL_NAMES(x, a, b) if :: x = a :: x = b fi
#else
#define ASKS(g, what)       (asks[g] == what)
#define QUESTION(what)      (question == what)
#define EVIL_NAMES(x, a, b) skip
#endif

/* ---- CSP: a lane's stream -------------------------------------------------------------------- */

#ifdef BUG_NO_LOCK
#define LOCK   skip
#define UNLOCK skip
#define OPEN_LOCK true
#else
#define LOCK   locked = true
#define UNLOCK locked = false
#define OPEN_LOCK (!locked)
#endif

inline tell(g, what)
{
#ifndef EVIL /* which does not need to hear */
    if
    :: joined[g] -> says[g] = what
    :: else
    fi
#else
    skip
#endif
}

inline answers(what, a)
{
#ifndef EVIL
    if
    :: up -> reply = what; r_answer = a
    :: else
    fi
#else
    skip
#endif
}

inline leave(g) /* the stream ends, and what it made is discarded */
{
    guest[g] = FREE;
    joined[g] = false;
    asks[g] = NONE;
    about[g] = 0;
    id[g] = 0;
    number[g] = 0
}

proctype Guest(byte g)
{
end:
    do
    /* FILL: the seed is durable, then the commitment leaves */
    :: atomic { guest[g] == READY && ASKS(g, FILL) && OPEN_LOCK && made < SESSIONS ->
        asks[g] = NONE;
#ifndef BUG_OLD_STREAM_DRAWS
        if
        :: newest[number[g]] != g -> leave(g); goto end
        :: else
        fi;
#endif
        made++;
        id[g] = made;
#ifdef BUG_SEED_LATE
        tell(g, CLOSE);
        guest[g] = LATE }
    :: atomic { guest[g] == LATE -> seed[number[g]] = id[g]; guest[g] = MADE }
#else
        seed[number[g]] = id[g];
        guest[g] = DRAWN }
    :: atomic { guest[g] == DRAWN -> tell(g, CLOSE); guest[g] = MADE }
#endif
    /* KEEP: with the lock: destroy the seed, which must be there; then the pool */
    :: atomic { guest[g] == MADE && ASKS(g, KEEP) && OPEN_LOCK ->
        asks[g] = NONE;
        if
#ifndef BUG_DROPPED_KEPT
        :: HAS(dropped, id[g]) -> leave(g)
#endif
        :: else -> LOCK; guest[g] = KEEPING
        fi }
    :: atomic { guest[g] == KEEPING ->
        if
        :: seed[number[g]] != id[g] -> UNLOCK; leave(g)
        :: else ->
#ifndef BUG_SEED_KEPT
            seed[number[g]] = 0;
#endif
            kept = kept | BIT(id[g]);
            guest[g] = WIPED
        fi }
    :: atomic { guest[g] == WIPED ->
        at_csp[id[g]] = 1;
        UNLOCK;
        tell(g, YES);
        id[g] = 0;
        guest[g] = READY }
    /* AUDIT: drop the session, then show the seed */
    :: atomic { guest[g] == MADE && ASKS(g, AUDIT) ->
        asks[g] = NONE;
        dropped = dropped | BIT(id[g]);
        guest[g] = DROPPED }
    :: atomic { guest[g] == DROPPED -> shows(id[g]); tell(g, SHOW); id[g] = 0; guest[g] = READY }
    /* SEED: the same, with the lock, for a session of any stream */
    :: atomic { guest[g] == READY && ASKS(g, SEED) && OPEN_LOCK ->
        asks[g] = NONE;
        EVIL_NAMES(about[g], 1, made);
        if
        :: seed[0] != about[g] && seed[1] != about[g] -> tell(g, LOST)
        :: else -> LOCK; id[g] = about[g]; guest[g] = FOUND
        fi;
        about[g] = 0 }
#ifdef BUG_SHOW_BEFORE_DROP
    :: atomic { guest[g] == FOUND -> UNLOCK; shows(id[g]); tell(g, SHOW); guest[g] = SHOWN }
    :: atomic { guest[g] == SHOWN -> dropped = dropped | BIT(id[g]); id[g] = 0; guest[g] = READY }
#else
    :: atomic { guest[g] == FOUND -> dropped = dropped | BIT(id[g]); UNLOCK; guest[g] = DROPPED }
#endif
    /* nobody is there any more */
    :: atomic { (guest[g] == READY || guest[g] == MADE) && asks[g] == NONE && !joined[g] ->
        leave(g) }
    od
}

/* ---- CSP: the link --------------------------------------------------------------------------- */

proctype Link()
{
    byte r, a;
end:
    do
    :: atomic { csp == IDLE && QUESTION(REVEAL) ->
        question = NONE;
        EVIL_NAMES(q_round, 1, 2);
        EVIL_NAMES(q_share, 1, 2);
        EVIL_NAMES(q_share, q_share, q_share + 16);
        r = q_round;
        a = q_share;
        if
        :: marked[r] != 0 -> leaves(r, marked[r]); answers(KEPT, marked[r]); r = 0; a = 0
        :: marked[r] == 0 && at_csp[SESSION_OF(a)] != 0 &&
            INDEX_OF(a) >= at_csp[SESSION_OF(a)] - 1 -> /* at or beyond the cursor */
#ifndef BUG_SHARE_NOT_ERASED
            at_csp[SESSION_OF(a)] = (INDEX_OF(a) + 1 == SHARES -> 0 : INDEX_OF(a) + 2);
#endif
            csp = TAKEN;
            answers(GO, 0)
        :: else -> answers(NO_SLICE, 0); r = 0; a = 0
        fi;
        q_round = 0;
        q_share = 0 }
    :: atomic { csp == TAKEN && QUESTION(SUM) ->
        question = NONE;
        EVIL_NAMES(q_attempt, 1, 2);
        a = CODE(a, q_attempt);
        q_attempt = 0;
        csp = SUMMED }
#ifdef BUG_MARK_AFTER_SEND
    :: atomic { csp == SUMMED -> leaves(r, a); answers(ANSWER, a); csp = MARKED }
    :: atomic { csp == MARKED -> marked[r] = a; r = 0; a = 0; csp = IDLE }
#else
    :: atomic { csp == SUMMED -> marked[r] = a; csp = MARKED }
    :: atomic { csp == MARKED ->
        leaves(r, a);
        answers(ANSWER, a);
        r = 0;
        a = 0;
        csp = IDLE }
#endif
    :: atomic { csp == IDLE && (r != 0 || a != 0) -> r = 0; a = 0 } /* after a crash */
    od
}

/* ---- AS: a lane ------------------------------------------------------------------------------ */

mtype = { DOWN, SETTLE, ASKED, WANTS, FILLED, TO_AUDIT, STORED, SENT_KEEP, HEARD, SENT_AUDIT };
mtype lane = DOWN;
byte g;        /* its stream */
byte session;
bool lane_old; /* of an earlier link */
byte audits = AUDITS;

#define LEFT(s) (at_as[s] == 0 -> 0 : SHARES + 1 - at_as[s])
#define LEFT_2 (LEFT(1) + LEFT(2))
#define LEFT_6 (LEFT_2 + LEFT(3) + LEFT(4) + LEFT(5) + LEFT(6))
#if SESSIONS == 2
#define HAVE LEFT_2
#elif SESSIONS == 6
#define HAVE LEFT_6
#else
#define HAVE (LEFT_6 + LEFT(7) + LEFT(8) + LEFT(9))
#endif

inline ends()
{
    joined[g] = false;
    says[g] = NONE;
    session = 0;
    g = 0;
    lane_old = false;
    lane = DOWN
}

#ifdef BUG_OLD_LANE
#define STALE false
#else
#define STALE lane_old
#endif

proctype Lane()
{
end:
    do
    :: atomic { lane == DOWN && up && round <= ROUNDS && (guest[0] == FREE || guest[1] == FREE) ->
        if
        :: guest[0] == FREE -> g = 0
        :: guest[0] != FREE && guest[1] == FREE -> g = 1
        fi;
        guest[g] = READY;
        newest[0] = g;
        joined[g] = true;
        says[g] = NONE;
        lane = SETTLE }
    :: atomic { lane == SETTLE && joined[g] && !STALE ->
        if
#ifndef BUG_NEXT_BEFORE_SETTLE
        :: open != 0 -> asks[g] = SEED; about[g] = open; lane = ASKED
#endif
        :: else -> lane = WANTS
        fi }
    :: atomic { lane == ASKED && says[g] == SHOW ->
        says[g] = NONE;
        open = 0;
        owed = 0;
        lane = SETTLE }
    :: atomic { lane == WANTS && joined[g] && !STALE && HAVE < ROUNDS + 1 - round ->
        asks[g] = FILL;
        lane = FILLED }
    :: atomic { lane == FILLED && says[g] == CLOSE ->
        says[g] = NONE;
        session = id[g];
        if
        :: asks[g] = KEEP;
#ifdef BUG_AS_ADDS_FIRST
            at_as[session] = 1;
#endif
            lane = SENT_KEEP
        :: audits > 0 -> audits--; lane = TO_AUDIT
        fi }
#ifdef BUG_AUDIT_NOT_STORED
    :: atomic { lane == TO_AUDIT -> asks[g] = AUDIT; owed = session; lane = STORED }
    :: atomic { lane == STORED -> open = session; lane = SENT_AUDIT }
#else
    :: atomic { lane == TO_AUDIT -> open = session; lane = STORED }
    :: atomic { lane == STORED && joined[g] -> asks[g] = AUDIT; owed = session; lane = SENT_AUDIT }
#endif
    :: atomic { lane == SENT_AUDIT && says[g] == SHOW ->
        says[g] = NONE;
        open = 0;
        owed = 0;
        session = 0;
        lane = WANTS }
    :: atomic { lane == SENT_KEEP && says[g] == YES -> says[g] = NONE; lane = HEARD }
    :: atomic { lane == HEARD ->
        if
#ifndef BUG_AS_ADDS_FIRST
        :: !STALE -> at_as[session] = 1
#endif
        :: else
        fi;
        session = 0;
        lane = WANTS }
    :: atomic { lane == ASKED && says[g] == LOST -> assert(false) } /* property 6 */
    :: atomic { lane != DOWN && lane != HEARD && (!joined[g] || STALE) -> ends() }
    od
}

/* ---- AS: a round ----------------------------------------------------------------------------- */

mtype = { START, GATED, PICKED, WAITS, GOT_GO, STORED_X, SUMMING };
mtype rounds = START;
byte slice; /* a share */

#ifdef BUG_NO_GATE
#define GATE true
#else
#define GATE (open == 0)
#endif

proctype Round()
{
    byte n;
end:
    do
    /* the gate, then the slice: lanes_wait, shares_pool_pick */
    :: atomic { rounds == START && up && round <= ROUNDS && HAVE > 0 && GATE ->
        assert(owed == 0); /* property 5 */
        rounds = GATED }
    :: atomic { rounds == GATED ->
        n = 1;
        do
        :: n <= SESSIONS && at_as[n] == 0 -> n++
        :: else -> break
        od;
        if
        :: n > SESSIONS -> rounds = START /* a new link has emptied the pool */
        :: else ->
            slice = n + 16 * (at_as[n] - 1);
            at_as[n] = (at_as[n] == SHARES -> 0 : at_as[n] + 1);
            attempt++;
            rounds = PICKED
        fi;
        n = 0 }
    :: atomic { rounds == PICKED && up ->
        question = REVEAL;
        q_round = round;
        q_share = slice;
        rounds = WAITS }
    /* in the first attempt x^A becomes durable while CSP charges; in a later one only after GO,
     * because CSP may still answer the earlier one */
#ifdef BUG_X_BEFORE_GO
    :: atomic { rounds == WAITS && SHARE_OF(x_stored) != slice -> x_stored = CODE(slice, attempt) }
#else
    :: atomic { rounds == WAITS && mask == 0 && x_stored != CODE(slice, attempt) ->
        x_stored = CODE(slice, attempt) }
#endif
    :: atomic { rounds == WAITS && reply == GO -> reply = NONE; rounds = GOT_GO }
    :: atomic { rounds == GOT_GO ->
#ifndef BUG_X_AFTER_SUM
        x_stored = CODE(slice, attempt);
        mask = x_stored;
#endif
        rounds = STORED_X }
    :: atomic { rounds == STORED_X && up ->
        question = SUM;
        q_attempt = attempt;
        rounds = SUMMING }
#ifdef BUG_X_AFTER_SUM
    :: atomic { rounds == SUMMING && mask != CODE(slice, attempt) ->
        x_stored = CODE(slice, attempt);
        mask = x_stored }
#endif
    :: atomic { ((rounds == SUMMING && reply == ANSWER) || (rounds == WAITS && reply == KEPT)) ->
        assert(r_answer == x_stored && r_answer == mask); /* property 7 */
        reply = NONE;
        r_answer = 0;
        x_stored = 0;
        mask = 0;
        slice = 0;
        attempt = 0;
        round++;
        rounds = START }
    :: atomic { rounds == WAITS && reply == NO_SLICE -> assert(false) } /* property 6 */
    :: atomic { rounds != START && rounds != GATED && !up && reply == NONE ->
        slice = 0;
        rounds = START }
    od
}

/* ---- an AS that does anything ---------------------------------------------------------------- */

#ifdef EVIL
#define OPENS(k)                                                  \
    atomic { up && guest[k] == FREE ->                            \
        guest[k] = READY;                                         \
        EVIL_NAMES(number[k], 0, 1);                              \
        newest[number[k]] = k }

proctype Evil()
{
end:
    do
    :: OPENS(0)
    :: OPENS(1)
    :: atomic { up -> up = false }
    od
}
#endif

/* ---- what goes wrong ------------------------------------------------------------------------- */

hidden byte e;

inline empty_as()
{
    for (e : 1 .. SESSIONS) {
        at_as[e] = 0
    }
}

inline empty_csp()
{
    for (e : 1 .. SESSIONS) {
#ifdef BUG_POOL_ON_DISK
        at_csp[e] = (HAS(kept, e) -> 1 : 0)
#else
        at_csp[e] = 0
#endif
    }
}

/* What AS's end of the link forgets. */
inline as_hangs_up()
{
    up = false;
    empty_as();
    lane_old = (lane != DOWN)
}

proctype Chaos()
{
    byte crashes = CRASHES, streams = STREAMS;
    do
#ifndef EVIL
    :: atomic { crashes > 0 && round <= ROUNDS -> /* AS stops and starts */
        crashes--;
        as_hangs_up();
        joined[0] = false;
        joined[1] = false;
        says[0] = NONE;
        says[1] = NONE;
        reply = NONE;
        r_answer = 0;
        session = 0;
        g = 0;
        lane_old = false;
        lane = DOWN;
        slice = 0;
        rounds = START }
#endif
    :: atomic { crashes > 0 && round <= ROUNDS -> /* CSP stops and starts */
        crashes--;
        leave(0);
        leave(1);
        locked = false;
        empty_csp();
        as_hangs_up();
        if
        :: reply = NONE; r_answer = 0
        :: skip
        fi;
        question = NONE;
        q_round = 0;
        q_share = 0;
        q_attempt = 0;
        csp = IDLE }
    :: atomic { streams > 0 && lane != DOWN && joined[g] -> /* a lane's stream breaks */
        streams--;
        joined[g] = false;
        if
        :: says[g] = NONE
        :: asks[g] = NONE; about[g] = 0
        :: skip
        fi }
    :: atomic { streams > 0 && up && round <= ROUNDS -> /* the link breaks */
        streams--;
        as_hangs_up();
        if
        :: reply = NONE; r_answer = 0
        :: skip
        fi }
    :: break
    od
}

/* AS dials CSP: a new link. CSP has ended all streams of the link before, and waited for them. */
proctype Dial()
{
end:
    do
    :: atomic { !up && !locked && rounds == START && round <= ROUNDS &&
        csp != SUMMED && csp != MARKED ->
        up = true;
        empty_csp();
        empty_as();
        leave(0);
        leave(1);
        question = NONE;
        q_round = 0;
        q_share = 0;
        q_attempt = 0;
        reply = NONE;
        r_answer = 0;
        csp = IDLE }
    od
}

#ifndef EVIL
proctype Watch()
{
    atomic { timeout -> assert(round > ROUNDS) } /* property 8 */
}
#endif

init
{
    atomic {
        run Guest(0);
        run Guest(1);
        run Link();
        run Chaos();
        run Dial();
#ifdef EVIL
        run Evil()
#else
        run Lane();
        run Round();
        run Watch()
#endif
    }
}
