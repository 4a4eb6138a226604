/* lease: a round of a task, served by two processes of AS and two of CSP, with a database behind
 * each pair.
 *
 * What is modelled, and where the code is
 *   - Two databases, AS's (src/parties/as/share.h) and CSP's (src/parties/csp/active.c). In each
 *     database a lease (src/host/journal/lease.h) names one process, with a fencing number that
 *     every take raises. AS and CSP share no lease; they meet only on the link. So one model has
 *     both pairs, and any combination of stopped processes.
 *   - A process may stop anywhere and wake anywhere: it simply takes no step for as long as others
 *     like. It learns of a lost lease only when it asks.
 *   - A write is a transaction. It checks the fencing number and holds the lease's row until it
 *     ends; a take waits for it. The database ends a transaction that stands still. So at a take
 *     the other process's transaction has either committed, or is rolled back.
 *   - The answer to a commit may get lost; then the change is there or not, and the process does
 *     not know. (src/host/pg/pg.c waits until the database has decided.)
 *   - AS: close the round, freeze its set, count the attempt, charge, mask, digest of the output,
 *     integers, release (src/core/sum/as). Without an answer, or without the lease, it hangs up
 *     and follows; the next leader continues from the database.
 *   - CSP: charge, OUTPUT, REVEAL, the mark, then the digest, then the output
 *     (src/core/sum/csp/csp_store.c). It reads its state anew for each question. Without an answer
 *     it ends the stream, without the lease itself.
 *   - The link: any AS process may dial any CSP process that believes it is active; but one that
 *     has lost its lease only once, because it ends soon after it wakes. CSP answers the newest
 *     stream only. What was sent on a stream may be read after its sender has left.
 *   - Uploads (src/host/journal/shared.c): a client sends to either process of AS, again after a
 *     failure. The row enters in one statement, which holds the round's row.
 *   - An input is the masked sum of one attempt. It stands for the output that CSP makes of it.
 * Not here: crashes between two writes and old copies (round.pml), the file ledger.latest, parts of
 * one process's sum that another makes, lost messages on a living stream.
 *
 * Properties
 *   1. A process without the lease commits nothing.
 *   2. Outputs of at most one input leave CSP, and every digest that leaves is that output's.
 *   3. No output leaves before both servers have charged, and the mark is durable.
 *   4. AS completes an output only with the mask of its own input, and stores one result.
 *   5. An acknowledged upload is in the frozen set, and the sum is of exactly this set.
 *   6. A process that has lost its lease dials CSP at most once more.
 *   7. No state without a next step, except the end: the round is released. (No round is skipped:
 *      there is nothing here that would need it.)
 *
 * Bounds: LEASES lost leases, COMMITS lost answers, in all four processes together; CLIENTS
 * clients. The first process of each pair has the first lease: the pairs are symmetric.
 * A macro of lease.bugs puts a fault in, which the search must find. */

#ifndef LEASES
#define LEASES 2
#endif
#ifndef COMMITS
#define COMMITS 1
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#define NOBODY 2
#define MOST 7 /* attempts: more than any run needs */

mtype = { COLLECTING, FREEZING, REVEALING, OVER,  /* AS's phase */
          SIGNED, REVEALED,                       /* CSP's state of the round */
          NONE, HELLO, REVEAL, SUM, ACK,          /* AS asks */
          WELCOME, GO, KEPT, DIGEST, REPLY, NO }; /* CSP answers */

/* ---- the databases: 0 AS's, 1 CSP's ---------------------------------------------------------- */

byte leases = LEASES, commits = COMMITS; /* how many may still get lost */
bool mine[4]; /* the fencing number of process p is the one in database d */
bool tx[4];   /* process p is in a transaction with database d */
#define MINE(d, p) mine[2 * (d) + (p)]
#define TX(d, p)   tx[2 * (d) + (p)]

/* AS's. attempt, mask, reply and integers are inputs, 0: none. */
mtype phase = COLLECTING;
byte rows, set;         /* uploads, one bit a client */
bool row_held[CLIENTS]; /* the transaction of an upload holds the round's row */
bool as_charged;
byte attempt, mask, reply, integers;

/* CSP's. output is the record OUTPUT, stored the input that the record REVEAL names. */
mtype state = SIGNED;
bool csp_charged;
byte output, stored;

/* Nobody has the lease, or it has expired. */
#define MAY_TAKE(d, p) (!MINE(d, p) && (!MINE(d, 1 - p) || leases > 0))

/* Process p takes the lease. */
inline take(d, p)
{
    if
    :: MINE(d, 1 - p) -> leases--
    :: else
    fi;
#ifndef BUG_CHECK_WITHOUT_LOCK
    TX(d, 1 - p) = false; /* it has ended, or the database ends it */
#endif
#ifndef BUG_SAME_NUMBER
    MINE(d, 1 - p) = false;
#endif
    MINE(d, p) = true
}

/* A write of process p. If p does not know afterwards that CHANGE is durable, it goes to `failed`.
 * Check and commit are one step: a take in between would have waited, or ended the transaction.
 * With TWO_STEPS they are two, which shows just that. */
#ifdef TWO_STEPS
#ifdef BUG_CHECK_BEFORE
#define BEGIN(d, p) ok = MINE(d, p); TX(d, p) = ok; ok = false;
#else
#define BEGIN(d, p) TX(d, p) = MINE(d, p);
#endif
#define MAY_COMMIT(d, p) TX(d, p)
#else
#define BEGIN(d, p)
#ifdef BUG_NO_CHECK
#define MAY_COMMIT(d, p) true
#else
#define MAY_COMMIT(d, p) MINE(d, p)
#endif
#endif
#ifdef BUG_UNKNOWN_IS_DONE
#define IF_UNKNOWN(failed) skip
#else
#define IF_UNKNOWN(failed) goto failed
#endif
#define CHECK_OWN(d, p) assert(MINE(d, p) && !MINE(d, 1 - p)) /* property 1 */
#define WRITE(d, p, CHANGE, failed)                                        \
    BEGIN(d, p)                                                            \
    atomic {                                                               \
        if                                                                 \
        :: MAY_COMMIT(d, p) -> CHECK_OWN(d, p); CHANGE                     \
        :: MAY_COMMIT(d, p) && commits > 0 -> /* done, but no answer */    \
            CHECK_OWN(d, p); CHANGE;                                       \
            commits--; TX(d, p) = false; IF_UNKNOWN(failed)                \
        :: MAY_COMMIT(d, p) && commits > 0 -> /* not done, and no answer */ \
            commits--; TX(d, p) = false; IF_UNKNOWN(failed)                \
        :: !MAY_COMMIT(d, p) -> goto failed                                \
        fi;                                                                \
        TX(d, p) = false                                                   \
    }

/* ---- the link -------------------------------------------------------------------------------- */

bool up[2];                           /* this CSP process believes that it is active */
byte peer[2] = NOBODY;                /* the AS process at the other end of its newest stream */
bool met[2];                          /* AS has dialled it since it lost the lease */
bool live[2];                         /* that stream carried the question CSP works on */
mtype question[2] = NONE; byte about[2];
mtype answer[2] = NONE; byte with[2]; /* to AS process p */

inline dial(p, c)
{
    if
    :: up[0] && (MINE(1, 0) || !met[0]) -> c = 0
    :: up[1] && (MINE(1, 1) || !met[1]) -> c = 1
    fi;
    met[c] = !MINE(1, c);
    peer[c] = p;
#ifndef BUG_OLD_STREAM
    live[c] = false;
#endif
    question[c] = HELLO;
    about[c] = 0;
    answer[p] = NONE;
    with[p] = 0
}

inline hang_up(p, c)
{
    if
    :: peer[c] == p -> peer[c] = NOBODY; live[c] = false
    :: else
    fi;
    answer[p] = NONE;
    with[p] = 0;
    c = 0
}

#define GONE(p, c) (peer[c] != p || !MINE(1, c)) /* hung up, or silent for too long */

/* Ends at `broken` if the stream is broken. */
#ifdef BUG_OLD_STREAM
#define OPEN(p, c) true
#else
#define OPEN(p, c) (peer[c] == p)
#endif
#define ASK(p, c, what, x)                                    \
    atomic {                                                  \
        if                                                    \
        :: OPEN(p, c) -> question[c] = what; about[c] = x   \
        :: !OPEN(p, c) -> goto broken                         \
        fi                                                    \
    }
#define HEAR(p, c)                                            \
    if                                                        \
    :: answer[p] != NONE && answer[p] != NO                   \
    :: answer[p] == NO -> goto broken                         \
    :: answer[p] == NONE && GONE(p, c) -> goto broken         \
    fi

/* CSP takes the question off the stream; what it answers goes there, if that is still open. */
inline read(c, x)
{
    x = about[c];
    about[c] = 0;
    question[c] = NONE;
    live[c] = (peer[c] != NOBODY)
}

inline say(c, what, x)
{
    if
    :: live[c] -> answer[peer[c]] = what; with[peer[c]] = x; live[c] = false
    :: else
    fi
}

/* ---- what has happened, for the properties --------------------------------------------------- */

byte acked;   /* clients that have a receipt */
byte ended;   /* number of clients that have a receipt, or were too late */
byte told;    /* the input whose output CSP has announced */
byte left;    /* the input of which an output has left CSP */
#ifdef BUG_RUNNING_SUM
byte running; /* uploads in the running sums of AS's processes */
#define SUMMED running
#define ADD(k) running = running | (1 << (k))
#else
#define SUMMED rows /* share_sum.c compares its running sum with the rows */
#define ADD(k) skip
#endif

#define LACKS(a, b) (((a) & ~(b)) != 0)
#define BIT(k) (1 << (k))

/* ---- clients --------------------------------------------------------------------------------- */

#ifdef TWO_STEPS
#define HOLD_ROW(k)   row_held[k] = true; goto held
#define MAY_ENTER(k)  row_held[k]
#elif defined BUG_UPLOAD_WITHOUT_LOCK
#define HOLD_ROW(k)   goto held
#define MAY_ENTER(k)  true
#else
#define HOLD_ROW(k)   goto held
#define MAY_ENTER(k)  (phase == COLLECTING)
#endif

proctype Client(byte k)
{
again:
    atomic {
        if
        :: rows & BIT(k) -> goto receipt /* the receipt again */
        :: !(rows & BIT(k)) && phase == COLLECTING -> HOLD_ROW(k)
        :: !(rows & BIT(k)) && phase != COLLECTING -> goto late
        fi
    };
held:
#ifdef BUG_RECEIPT_FIRST
    acked = acked | BIT(k);
#endif
    atomic {
        if
        :: MAY_ENTER(k) -> rows = rows | BIT(k); ADD(k); row_held[k] = false; goto receipt
        :: MAY_ENTER(k) && commits > 0 -> commits--; rows = rows | BIT(k); IF_UNKNOWN(unknown)
        :: MAY_ENTER(k) && commits > 0 -> commits--; IF_UNKNOWN(unknown)
        :: !MAY_ENTER(k) -> goto again
        fi
    };
    goto receipt;
unknown:
    atomic { row_held[k] = false; goto again };
receipt:
    atomic {
        acked = acked | BIT(k);
        assert(phase == COLLECTING || phase == FREEZING || !LACKS(acked, set)) /* property 5 */
    };
late:
    ended++
}

/* ---- AS -------------------------------------------------------------------------------------- */

proctype AS(byte p)
{
    byte at, seen, c;
    bool ok, late;
    if
    :: p == 0 -> goto leads
    :: p == 1
    fi;
follow:
    atomic {
        if
        :: phase == OVER -> goto over
        :: phase != OVER && MAY_TAKE(0, p) -> take(0, p)
        :: phase != OVER && MAY_TAKE(0, p) && commits > 0 -> /* the answer is lost */
            commits--; take(0, p); MINE(0, p) = false; goto follow
        fi
    };
leads: /* reads the state */
    if
    :: phase == COLLECTING -> goto collecting
    :: phase == FREEZING -> goto freezing
    :: phase == REVEALING && integers == 0 -> goto reveal
    :: phase == REVEALING && integers != 0 -> goto release
    :: phase == OVER -> goto down
    fi;

collecting:
#ifdef BUG_SET_FROM_MEMORY
    seen = rows;
#endif
#ifdef BUG_UPLOAD_WITHOUT_LOCK
    WRITE(0, p, phase = FREEZING, down);
#elif CLIENTS == 1
    WRITE(0, p, phase = FREEZING; row_held[0] = false, down);
#else /* it waits for the transactions that hold the round's row, or the database ends them */
    WRITE(0, p, phase = FREEZING; row_held[0] = false; row_held[1] = false, down);
#endif
freezing:
#ifndef BUG_SET_FROM_MEMORY
    seen = rows;
#endif
    WRITE(0, p, set = seen; phase = REVEALING; assert(!LACKS(acked, set)) /* property 5 */, down);

reveal: /* dials, but first asks the database (share_still) */
    seen = 0;
    ended == CLIENTS; /* first: what clients still do changes nothing that the servers read */
#ifndef BUG_FORMER_LEADER_DIALS
    if
    :: MINE(0, p)
    :: !MINE(0, p) -> goto down
    fi;
#endif
    atomic {
        dial(p, c);
        assert(MINE(0, p) || !late); /* property 6 */
        late = !MINE(0, p)
    };
    atomic { HEAR(p, c); answer[p] = NONE };
    WRITE(0, p, attempt++; at = attempt; assert(attempt <= MOST), down);
    if
    :: !as_charged -> WRITE(0, p, as_charged = true, down)
    :: as_charged
    fi;
    ASK(p, c, REVEAL, at);
    atomic {
        HEAR(p, c);
        if
        :: answer[p] == KEPT ->
            assert(with[p] == mask); /* else the round is lost */
            at = mask;
            answer[p] = NONE;
            goto digest
        :: answer[p] == GO -> answer[p] = NONE
        fi
    };
    WRITE(0, p, mask = at, down);
    atomic { assert(SUMMED == set); /* property 5 */ ASK(p, c, SUM, at) };
    atomic { HEAR(p, c); assert(answer[p] == DIGEST); answer[p] = NONE };
digest:
    WRITE(0, p, assert(reply == 0 || reply == with[p]); reply = with[p], down);
    ASK(p, c, ACK, with[p]);
    atomic {
        HEAR(p, c);
        assert(answer[p] == REPLY && with[p] == at && with[p] == left); /* property 4 */
        answer[p] = NONE
    };
    WRITE(0, p, assert(integers == 0 || integers == at); integers = at, down);
release:
    WRITE(0, p, phase = OVER, down);
    goto down;

broken:
    atomic { hang_up(p, c); at = 0; goto reveal };
down: /* gives the lease back, if it still has it */
    atomic {
        hang_up(p, c);
        MINE(0, p) = false;
        at = 0;
        seen = 0;
        late = false;
        goto follow
    };
over:
    skip
}

/* ---- CSP ------------------------------------------------------------------------------------- */

#ifdef BUG_STANDBY_READS_EARLY
#define STATE     known
#define HALF_DONE false
#else
#define STATE     state
#define HALF_DONE (stored != 0 && stored == output) /* only the mark is missing */
#endif

proctype CSP(byte c)
{
    byte x, at, announced;
    bool ok;
#ifdef BUG_STANDBY_READS_EARLY
    mtype known = SIGNED;
#endif
    if
    :: c == 0 -> goto serve
    :: c == 1
    fi;
end_standby:
    atomic {
        if
        :: MAY_TAKE(1, c) -> take(1, c); up[c] = true
        :: MAY_TAKE(1, c) && commits > 0 -> /* the answer is lost */
            commits--; take(1, c); MINE(1, c) = false; goto end_standby
        fi
    };
serve:
end_serve:
    if
    :: atomic { question[c] == HELLO ->
        read(c, x);
#ifndef BUG_OLD_STREAM
        at = 0; /* what an earlier stream began is forgotten */
#endif
        announced = 0;
        say(c, WELCOME, 0);
        goto serve }
    :: atomic { question[c] == REVEAL -> read(c, x); goto reveal }
    :: atomic { question[c] == SUM -> read(c, x);
        if
        :: at == 0 -> goto fault
        :: at != 0 -> goto sum
        fi }
    :: atomic { question[c] == ACK -> read(c, x);
        if
        :: announced != 0 && announced == x ->
            assert(left == 0 || left == x);    /* property 2 */
            assert(as_charged && csp_charged); /* property 3 */
            left = x;
            say(c, REPLY, x)
        :: else -> say(c, NO, 0)
        fi;
        x = 0;
#ifdef BUG_MARK_AFTER_SEND
        goto mark_late
#else
        goto serve
#endif
        }
    :: atomic { !MINE(1, c) -> goto lost } /* the thread that renews */
    fi;

reveal:
    if
    :: STATE == REVEALED -> goto kept
    :: STATE == SIGNED && HALF_DONE -> /* csp_store_resume */
        WRITE(1, c, state = REVEALED, fault);
        goto kept
    :: STATE == SIGNED && !HALF_DONE
    fi;
#ifdef BUG_GO_WITHOUT_WRITE
    if
    :: csp_charged
    :: !csp_charged -> WRITE(1, c, csp_charged = true, fault)
    fi;
#else
    WRITE(1, c, csp_charged = true, fault); /* CHARGING, also if the round is charged already */
#endif
    atomic { at = x; x = 0; say(c, GO, 0); goto serve };
kept:
    atomic {
        announced = stored;
        x = 0;
        assert(stored == output && (told == 0 || told == stored)); /* property 2 */
        told = stored;
        say(c, KEPT, stored);
        goto serve
    };

sum:
    WRITE(1, c, output = x, fault);
#ifndef BUG_MARK_AFTER_SEND
    WRITE(1, c, stored = x, fault);
    WRITE(1, c, state = REVEALED, fault);
#endif
    atomic {
        assert(told == 0 || told == x); /* property 2 */
        told = x;
        announced = x;
        at = 0;
        say(c, DIGEST, x);
        x = 0;
        goto serve
    };
#ifdef BUG_MARK_AFTER_SEND
mark_late:
    WRITE(1, c, stored = output; state = REVEALED, fault);
    goto serve;
#endif

fault: /* NO FAULT ends the stream */
    atomic {
        say(c, NO, 0);
        at = 0;
        announced = 0;
        x = 0;
        if
        :: MINE(1, c) -> goto serve
        :: !MINE(1, c)
        fi
    };
lost: /* the process ends; the next one waits for the lease */
    atomic {
        up[c] = false;
        met[c] = false;
        peer[c] = NOBODY;
        live[c] = false;
        question[c] = NONE;
        about[c] = 0;
        at = 0;
        announced = 0;
#ifdef BUG_STANDBY_READS_EARLY
        known = state;
#endif
        goto end_standby
    }
}

init
{
    atomic {
        byte k = 0;
        MINE(0, 0) = true;
        MINE(1, 0) = true;
        up[0] = true;
        run AS(0);
        run AS(1);
        run CSP(0);
        run CSP(1);
        do
        :: k < CLIENTS -> run Client(k); k++
        :: else -> break
        od
    }
}
