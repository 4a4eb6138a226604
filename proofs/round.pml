/* round: the rounds of one sealed task between AS, CSP and two clients.
 *
 * The model follows the code step by step. What stands for what:
 *
 *     as()       the driver of AS's rounds: src/core/sum/as/as_rounds.c (start, loop), as_orders.c (each order), and
 *                its end of the link: as_link.c, as_set.c, as_reveal.c
 *     v_...      the memory of agg (src/core/sum/as/agg.c); EVENT checks that its table accepts the event
 *     a_...      what AS has on disk: its store (as_store.h, src/host/disk/as_disk.h), its ledger and the note beside
 *                the ledger (src/core/sum/both/account.c)
 *     csp()      CSP's machine: src/core/sum/csp/csp.c, csp_key.c, csp_set.c, csp_reveal.c
 *     c_...      what CSP has on disk: csp_store.c, src/host/disk/csp_disk.c, its ledger and note
 *     clients()  two clients that upload (src/parties/client/client_round.c, src/parties/as/ingest.c)
 *     up, q, w   the link: whether the stream is up, AS's question on its way, CSP's answer on its way. AS asks and CSP
 *                answers, so at most one message is on its way. A stream that breaks loses it
 *
 * Each server acts in atomic pieces, from one message to the next. This loses no behaviour: what a server writes in
 * between, no other party sees, and CSP takes the next stream only when it is done with the last one. Each single
 * write (AW, CW) has a place for a crash before it, for a failed write that may have taken effect, and for an old copy
 * that is put back.
 *
 * proofs/check-tables compares this file with the code: it reads the lines with AGG_, ON, GOT, REFUSED, WISH, AW, CW.
 *
 * Faults, all bounded by macros that are 0 by default:
 *     CRASHES    a server dies before any durable step, or while it waits, and starts again
 *     BREAKS     the stream breaks while AS waits for an answer, before or after CSP has worked on the question
 *     FAULTS     a write fails; it may have taken effect all the same
 *     EXPIRIES   CSP's round key expires (csp_expire) between any two questions
 *     ROLLBACK   once, one server's files are put back to any earlier moment, at any later moment: 1 CSP's state folder;
 *                2 and its ledger.latest; 3 and its ledger; 4 AS's state folder; 5 and its ledger.latest and ledger
 * A deadline passes at any time. CSP keeps every head, L is 1, `enough` is 2.
 *
 * What must hold:
 *     - of each round, bytes of at most one output leave CSP. Outputs are numbered as CSP computes them: computing one
 *       again draws fresh noise, so it is another output;
 *     - before the first byte leaves, the charge is durable in both ledgers and the mark at CSP;
 *     - once a link is up, AS's ledger has every charge that CSP's has;
 *     - a client that has a receipt is in the round's sum, or the round is skipped (unless AS's files were put back);
 *     - no round is lost, and no server stops, unless a key expired or an old copy was put back;
 *     - no deadlock. With NP: no endless run. So every run ends: AS's task is over, or a server has stopped and reports
 *       an old copy.
 *
 * Left out: several processes as one server (lease.pml), noise shares (pool.pml), correlated noise (HISTORY), heads that
 * CSP refuses, EARLY, vouchers, pause, stop and close by an operator, the budget, blocked releases, convergence, the
 * clocks, extensions of a deadline (a later deadline), peers that deviate, tasks that are not sealed.
 *
 * Clients are alike, so the second uploads only after the first. */

#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef FAULTS
#define FAULTS 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 0
#endif
#ifndef ROLLBACK
#define ROLLBACK 0
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define REFUSALS_MAX 2 /* 5 in the code: AS only tries more often */
#define CLIENTS 3      /* one bit for each client */

/* agg_phase */
#define STARTING 0
#define SIGNING 1
#define COLLECTING 2
#define FREEZING 3
#define REVEALING 4
#define RELEASING 5
#define SKIPPING 6
#define DONE 7

/* The table of agg.c: the phases that accept an event.
 *     left out: AGG_LINK_DOWN any           no assertion: every phase accepts it
 *     left out: AGG_UPDATE COLLECTING FREEZING   clients() changes v_ph itself
 *     left out: AGG_BUDGET SIGNING COLLECTING REVEALING
 *     left out: AGG_PUT_OFF SIGNING
 *     left out: AGG_LEFT SIGNING
 *     left out: AGG_BLOCKED RELEASING
 *     left out: AGG_STOP any
 *     left out: AGG_PAUSE any
 *     left out: AGG_RESUME any
 *     left out: AGG_CLOSE any
 *     left out: AGG_EXPECT any */
#define IN(phase) (1 << phase)
#define AGG_LINK_UP 255
#define AGG_SIGNED (IN(SIGNING))
#define AGG_FROZEN (IN(FREEZING))
#define AGG_REVEALED (IN(REVEALING))
#define AGG_REVEAL_FAILED (IN(REVEALING))
#ifndef BUG_LOST_WHILE_FREEZING
#define AGG_LOST (IN(SIGNING) | IN(COLLECTING) | IN(FREEZING) | IN(REVEALING) | IN(SKIPPING))
#else
#define AGG_LOST (IN(SIGNING) | IN(COLLECTING) | IN(REVEALING))
#endif
#define AGG_RELEASED (IN(RELEASING))
#define AGG_SKIPPED (IN(SKIPPING))
#define EVENT(e) assert((1 << v_ph) & (e))

/* CSP's rounds (csp_round_state), and the phases of its stream */
#define NEW 0
#define SIGNED 1
#define REVEALED 2
#define SKIPPED 3

#define DOWN 0  /* CSP is not running */
#define START 1 /* it has no stream */
#define READY 2
#define SUM 3

mtype:kind = { NONE, HELLO, KEY, HEADER, SET, REVEAL, SUM_, ACK, SKIP, BYE,                       /* AS asks */
               WELCOME, VERDICT, GO, KEPT, DIGEST, REPLY, YES,                                    /* CSP answers */
               NO_LEDGER, NO_HEADER, NO_SKIPPED, NO_REVEALED, NO_KEY, NO_ORDER };

/* ---- durable: AS ------------------------------------------------------------------------------ */

byte a_ph = STARTING, a_r = 1, a_att; /* MEMORY */
byte a_mod;                           /* MODEL: the rounds released, a bit each */
/* records of the current round a_r, which is part of their names: a new round has none of them */
byte a_rows, a_ver;                   /* the updates; VERDICT */
byte a_mask, a_reply, a_rel;          /* MASK: its attempt. REPLY, RELEASE: the output */
byte a_head;                          /* the ledger's head as the journal remembers it */
byte a_note;                          /* ledger.latest */
byte a_led;                           /* the ledger: the rounds charged, a bit each */

/* ---- durable: CSP ----------------------------------------------------------------------------- */

byte c_top;                      /* the highest round signed */
byte c_st[ROUNDS + 2];           /* rows */
byte c_mod;                      /* HEADER: its model */
bool c_chg;                      /* CHARGING; this and the next ones of round c_top */
byte c_set, c_rev, c_att, c_out; /* SET; REVEAL: output and attempt; OUTPUT */
byte c_key;                      /* KEY: of which round, 0 none */
byte c_head, c_led;              /* as at AS */
byte c_nr, c_nid;                /* ledger.latest: round and output */

/* ---- not durable ------------------------------------------------------------------------------ */

byte v_ph = STARTING, v_r = 1, v_att; /* AS: agg */
bool v_linked, v_behind;              /* AS's view of the link; as_peer.behind */
byte v_rev, v_refused;                /* as_peer.revealed; refused reveals in a row */

bool up;                        /* the stream is up */
mtype:kind q = NONE, w = NONE;  /* on their way */
byte q_r, q_x, q_head;          /* of the question: its round, ... */
byte w_x, w_y, w_z, w_head;     /* of the answer */
byte c_ph = DOWN;               /* CSP: phase of the stream */
bool c_dec;                     /* CSP: this stream has the verdict */
byte c_ann;                     /* CSP: the output announced on this stream */

/* ---- what happened, for the assertions and bounds --------------------------------------------- */

byte crashes, breaks, faults, expiries;
byte computed[ROUNDS + 2];   /* outputs that CSP has computed */
byte left[ROUNDS + 2];       /* the output of which bytes have left CSP */
byte got[ROUNDS + 2];        /* the clients with a receipt */
byte released[ROUNDS + 2];   /* the output in the model */
bool skipped[ROUNDS + 2];
bool aged[ROUNDS + 2];       /* its key expired */
bool snapped, rolled, a_over, c_stopped;

#define BIT(r) (1 << ((r) - 1))
#define STEP(r, phase) ((r) * 8 + (phase)) /* step_of */

/* Ledgers. A ledger is a sequence of charges, in the order of rounds. */
#define MORE(t, o) ((t) ^ (o))
#define PREFIX(t, o) (((t) & MORE(t, o)) == 0 && (MORE(t, o) == 0 || (MORE(t, o) & (0 - MORE(t, o))) > (t)))
#define ONE_CHARGE(x) (((x) & ((x) - 1)) == 0)
#define AFTER(o, r) ((o) | BIT(r)) /* head_after */

inline hang_up() /* either end: both forget the stream (csp_restart) */
{
    up = false;
    q = NONE; q_r = 0; q_x = 0; q_head = 0;
    w = NONE; w_x = 0; w_y = 0; w_z = 0; w_head = 0;
    c_dec = false; c_ann = 0;
    if
    :: c_ph != DOWN -> c_ph = START
    :: else
    fi
}

/* ---- old copies ------------------------------------------------------------------------------- */

#if ROLLBACK != 0
byte s[14];
#endif

#if ROLLBACK >= 1 && ROLLBACK <= 3
inline c_save()
{
    s[0] = c_top; s[1] = c_st[1]; s[2] = c_st[2]; s[3] = c_mod; s[4] = c_chg; s[5] = c_set; s[6] = c_rev;
    s[7] = c_att; s[8] = c_out; s[9] = c_key; s[10] = c_head;
#if ROLLBACK >= 2
    s[11] = c_nr; s[12] = c_nid;
#endif
#if ROLLBACK >= 3
    s[13] = c_led
#endif
}
inline c_put_back()
{
    d_step {
        rolled = true;
        c_top = s[0]; c_st[1] = s[1]; c_st[2] = s[2]; c_mod = s[3]; c_chg = s[4]; c_set = s[5]; c_rev = s[6];
        c_att = s[7]; c_out = s[8]; c_key = s[9]; c_head = s[10];
#if ROLLBACK >= 2
        c_nr = s[11]; c_nid = s[12];
#endif
#if ROLLBACK >= 3
        c_led = s[13];
#endif
        s[0] = 0; s[1] = 0; s[2] = 0; s[3] = 0; s[4] = 0; s[5] = 0; s[6] = 0; s[7] = 0; s[8] = 0; s[9] = 0;
        s[10] = 0; s[11] = 0; s[12] = 0; s[13] = 0
    }
}
#define C_COPY \
    ; \
    if \
    :: true \
    :: !snapped -> d_step { snapped = true; c_save() } \
    fi
#define C_OLD :: snapped && !rolled && !a_over -> c_put_back(); goto c_crash
#else
#define C_COPY
#define C_OLD
#endif

#if ROLLBACK >= 4
inline a_save()
{
    s[0] = a_ph; s[1] = a_r; s[2] = a_att; s[3] = a_mod; s[4] = a_rows; s[5] = a_ver; s[6] = a_mask; s[7] = a_reply;
    s[8] = a_rel; s[9] = a_head;
#if ROLLBACK >= 5
    s[10] = a_note; s[11] = a_led
#endif
}
inline a_put_back()
{
    d_step {
        rolled = true;
        a_ph = s[0]; a_r = s[1]; a_att = s[2]; a_mod = s[3]; a_rows = s[4]; a_ver = s[5]; a_mask = s[6];
        a_reply = s[7]; a_rel = s[8]; a_head = s[9];
#if ROLLBACK >= 5
        a_note = s[10]; a_led = s[11];
#endif
        s[0] = 0; s[1] = 0; s[2] = 0; s[3] = 0; s[4] = 0; s[5] = 0; s[6] = 0; s[7] = 0; s[8] = 0; s[9] = 0;
        s[10] = 0; s[11] = 0
    }
}
#define A_COPY \
    ; \
    if \
    :: true \
    :: !snapped -> d_step { snapped = true; a_save() } \
    fi
#define A_OLD :: snapped && !rolled -> a_put_back(); up = false; q = NONE; goto crash
#else
#define A_COPY
#define A_OLD
#endif

/* ---- durable steps ---------------------------------------------------------------------------- */

/* AS may die here. */
#define A_DIE :: crashes < CRASHES -> crashes++; up = false; q = NONE; goto crash A_OLD
/* AW(NAME, write, on_fault): AS writes NAME durably; a write that fails leads to on_fault. */
#define AW(name, write, on_fault) \
    if \
    :: true -> write A_COPY \
    A_DIE \
    :: faults < FAULTS -> faults++; \
       if \
       :: true -> write A_COPY \
       :: true \
       fi; \
       goto on_fault \
    fi
#define C_DIE :: crashes < CRASHES && !a_over -> crashes++; goto c_crash C_OLD
/* CSP; a write that fails ends the stream, or the start. */
#define CW(name, write) \
    if \
    :: true -> write C_COPY \
    C_DIE \
    :: faults < FAULTS -> faults++; \
       if \
       :: true -> write C_COPY \
       :: true \
       fi; \
       goto c_fault \
    fi

/* ---- AS --------------------------------------------------------------------------------------- */

/* as_store_step: MEMORY, MODEL and the row in one transaction. The records of an earlier round have other names. */
inline a_step(model)
{
    d_step {
        if
        :: a_r != v_r -> a_rows = 0; a_ver = 0; a_mask = 0; a_reply = 0; a_rel = 0
        :: else
        fi;
        a_ph = v_ph; a_r = v_r; a_att = v_att; a_mod = model
    }
}

#define note_step(on_fault) \
    if \
    :: a_ph != STARTING && a_note != STEP(a_r, a_ph) -> AW(NOTE, a_note = STEP(a_r, a_ph), on_fault) \
    :: else \
    fi
#define as_rounds_remember(model, on_fault) \
    AW(STEP, a_step(model), on_fault); \
    note_step(on_fault)

/* as_rounds_tell stores the memory if it has changed. */
inline tell()
{
    if
    :: v_ph != a_ph || v_r != a_r || v_att != a_att -> as_rounds_remember(a_mod, crash)
    :: else
    fi
}

/* agg.c: what follows from the time alone. */
inline tick()
{
    if
    :: v_ph == COLLECTING && a_rows == CLIENTS -> v_ph = FREEZING
    :: v_ph == COLLECTING && a_rows != CLIENTS ->
        if
        :: true                                  /* not yet */
        :: a_rows != 0 -> v_ph = FREEZING        /* the deadline */
        :: a_rows == 0 -> v_ph = SKIPPING
        fi
    :: else
    fi
}

inline next_round()
{
    v_att = 0;
    if
    :: v_r == ROUNDS -> v_ph = DONE
    :: else -> v_r++; v_ph = SIGNING
    fi
}

#define WISH(phase, order) v_ph == phase

/* Nobody answers: the stream fails while AS waits, or AS dies. */
#define OR_NO_ANSWER \
    :: !up -> goto link_down \
    :: up && breaks < BREAKS -> breaks++; goto link_down \
    A_DIE

#define ASK(question, x, head, wait) \
    if \
    :: !up -> goto link_down \
    :: else -> q = question; q_r = v_r; q_x = x; q_head = head; goto wait \
    fi

/* AS has asked `question` and reads CSP's answer; a refusal has an outcome (of_no in as_link.c). The first argument, and
 * the outcome, are for the reader and for proofs/check-tables. Left out of the table `answers` of as_link.c:
 *     left out: LINK_TASK YES             WELCOME stands for both
 *     left out: LINK_VOUCH YES
 *     left out: LINK_EARLY EARLY
 *     left out: LINK_ACK PLAIN            mode none
 *     left out: LINK_COUNTED COUNTED      comes with REPLY
 *     left out: LINK_ENROL APPROVED
 *     left out: LINK_PING PONG */
#define GOT(question, answer) w == answer
#define REFUSED(question, no, outcome) w == no
#define ANSWERED w = NONE; w_x = 0; w_y = 0; w_z = 0; w_head = 0

#ifdef BUG_TREE_NOT_STORED
byte boots; /* AS draws another tree seed after each start */
#define SET_ID (a_rows + 4 * boots)
#else
#define SET_ID a_rows /* TREE, the seed, is drawn once: it determines nothing else */
#endif

active proctype as()
{
    byte id, att, sig, rev, skp;
    bool expired;
    skip A_COPY;

start: /* restore, check_age (as_rounds.c); account_open */
    atomic {
        if
        :: !PREFIX(a_head, a_led) -> goto stop
        :: else
        fi;
        if
        :: a_head != a_led -> AW(HEAD, a_head = a_led, crash)
        :: else
        fi;
        if
#ifndef BUG_AS_AGE_UNCHECKED
        :: (a_led & ~(BIT(a_r + 1) - 1)) != 0 -> goto stop /* account_knows */
        :: (a_led & BIT(a_r)) && a_ph < REVEALING -> goto stop
        :: a_note > STEP(a_r, a_ph) -> goto stop
#endif
        :: else
        fi;
#ifndef BUG_NOTE_STAYS_BEHIND
        note_step(crash);
#endif
        v_ph = a_ph; v_r = a_r; v_att = a_att
    }

next: /* next_order */
    atomic {
        tick();
        if
        :: v_ph == REVEALING && v_linked -> v_att++
        :: else
        fi;
        if
#ifdef BUG_ATTEMPT_NOT_STORED
        :: v_ph != a_ph || v_r != a_r -> as_rounds_remember(a_mod, crash)
#else
        :: v_ph == REVEALING && v_linked -> as_rounds_remember(a_mod, put_off)
        :: (v_ph != REVEALING || !v_linked) && (v_ph != a_ph || v_r != a_r || v_att != a_att) ->
            as_rounds_remember(a_mod, crash)
#endif
        :: else
        fi;
        /* wishes (agg.c): what each phase wants; what needs the link dials first */
        if
        :: WISH(FREEZING, AGG_FREEZE) -> goto freeze
        :: WISH(RELEASING, AGG_RELEASE) -> goto release
        :: WISH(STARTING, AGG_DIAL) -> goto dial
        :: WISH(SIGNING, AGG_SIGN) && v_linked -> ASK(KEY, 0, 0, wait_key)
        :: WISH(COLLECTING, AGG_DIAL) && v_linked -> goto collect /* the link is up: enough */
        :: WISH(REVEALING, AGG_REVEAL) && v_linked -> goto reveal
        :: WISH(SKIPPING, AGG_SKIP) && v_linked -> ASK(SKIP, 0, a_led, wait_skip)
        :: WISH(DONE, AGG_FINISH) && v_linked -> ASK(BYE, 0, 0, wait_bye)
        :: v_ph != FREEZING && v_ph != RELEASING && v_ph != STARTING && !v_linked -> goto dial
        fi
    }

put_off: /* the memory could not be stored: this attempt does not begin */
    atomic {
        EVENT(AGG_REVEAL_FAILED);
        v_att--;
        goto next
    }

    /* ---- the link: order_dial ---- */

dial:
    atomic {
        if
        :: c_ph != DOWN -> up = true; q = HELLO; q_head = a_led
        :: c_stopped -> goto over
        A_DIE
        fi
    }
wait_hello:
    atomic {
        if
        :: REFUSED(HELLO, NO_LEDGER, AS_APART) -> goto stop
        :: GOT(HELLO, WELCOME) ->
            /* on_welcome, as_check_mark */
            if
#ifndef BUG_LEDGERS_NOT_COMPARED
            :: !(PREFIX(w_head, a_led) && ONE_CHARGE(MORE(w_head, a_led))) -> goto stop
#endif
            :: else
            fi;
            v_behind = (w_head != a_led);
            sig = w_x; rev = w_y; skp = w_z;
            ANSWERED;
            /* compare_states */
            expired = (sig == v_r && skp == v_r && rev < v_r && v_ph < REVEALING);
            if
#ifndef BUG_NOT_COMPARED
            :: v_ph != DONE && !expired && /* AS's state is an old copy */
               !(sig <= v_r && ((rev < v_r && skp < v_r) || v_ph >= REVEALING)) -> goto stop
            :: v_ph != DONE && !expired && /* CSP's is */
               !((rev + 1 >= v_r || skp + 1 >= v_r) && (sig >= v_r || v_ph < COLLECTING)) -> goto stop
            :: v_ph != DONE && !expired && a_mask != 0 && v_behind -> goto stop
            :: v_ph != DONE && !expired && a_mask == 0 && v_ph == REVEALING && rev >= v_r -> goto stop
#endif
            :: else
            fi;
            assert((c_led & ~a_led) == 0);
            v_linked = true; v_rev = rev; sig = 0; rev = 0; skp = 0; v_behind = false;
            EVENT(AGG_LINK_UP);
            if
            :: v_ph == STARTING -> v_ph = SIGNING
            :: else
            fi;
            tick();
            tell();
            if
            :: expired -> expired = false; goto lost
            :: else -> goto next
            fi
        OR_NO_ANSWER
        fi
    }

link_down: /* as_rounds_link_down */
    atomic {
        hang_up();
        v_linked = false; v_rev = 0;
        id = 0; att = 0;
        goto next
    }

    /* ---- a round begins: order_sign ---- */

wait_key:
    atomic {
        if
        :: GOT(KEY, KEY) -> ANSWERED; ASK(HEADER, a_mod, a_led, wait_header)
#ifdef BUG_KEY_SKIPPED
        :: REFUSED(KEY, NO_SKIPPED, AS_LOST) -> goto stop
#else
        :: REFUSED(KEY, NO_SKIPPED, AS_LOST) -> ANSWERED; goto lost
#endif
        :: REFUSED(KEY, NO_KEY, AS_LOST) -> ANSWERED; goto lost
        :: REFUSED(KEY, NO_REVEALED, AS_APART) || REFUSED(KEY, NO_HEADER, AS_APART) -> goto stop
        OR_NO_ANSWER
        fi
    }
wait_header:
    atomic {
        if
        :: GOT(HEADER, HEADER) ->
            if
            :: !(PREFIX(w_head, a_led) && ONE_CHARGE(MORE(w_head, a_led))) -> goto stop
            :: else
            fi;
            ANSWERED;
            AW(HEADER, skip, crash);
            v_refused = 0;
            EVENT(AGG_SIGNED);
            v_ph = COLLECTING;
            as_rounds_remember(a_mod, crash);
            goto next
        :: REFUSED(HEADER, NO_LEDGER, AS_APART) || REFUSED(HEADER, NO_HEADER, AS_APART) ||
           REFUSED(HEADER, NO_ORDER, AS_APART) -> goto stop
        OR_NO_ANSWER
        fi
    }

collect: /* order_wait: clients() uploads meanwhile */
    atomic {
        if
        :: v_ph != COLLECTING -> goto next
        :: v_ph == COLLECTING && a_rows != 0 -> v_ph = FREEZING; goto next /* the deadline */
        :: v_ph == COLLECTING && a_rows == 0 -> v_ph = SKIPPING; goto next
        OR_NO_ANSWER
        fi
    }

    /* ---- a round closes: order_freeze ---- */

freeze:
    atomic {
        AW(SET, skip, crash);
        AW(TREE, skip, crash);
        EVENT(AGG_FROZEN);
        assert(a_rows != 0);
        v_ph = REVEALING;
        tell();
        goto next
    }

    /* ---- the reveal: order_reveal ---- */

reveal:
    atomic {
        if
        :: a_rel != 0 -> goto revealed /* the stored integers are the release */
        :: else
        fi;
        /* as_rounds_set */
#ifdef BUG_NO_DIGEST_IN_SET
        ASK(SET, SET_ID, 0, wait_set)
#else
        ASK(SET, SET_ID, a_reply, wait_set)
#endif
    }
wait_set:
    atomic {
        if
        :: GOT(SET, VERDICT) ->
            id = w_x; ANSWERED;
            if
            :: a_ver == 0 -> AW(VERDICT, a_ver = id, failed)
            :: a_ver == id
            :: a_ver != 0 && a_ver != id -> goto lost /* as_store_verdict */
            fi;
            id = 0;
            /* reveal: the charge is durable before the masked sum leaves */
            if
            :: !(a_led & BIT(v_r)) -> AW(LEDGER, a_led = AFTER(a_led, v_r), failed)
            :: else
            fi;
            if
            :: a_head != a_led -> AW(HEAD, a_head = a_led, failed)
            :: else
            fi;
            /* as_link_reveal, check_attempt */
            if
#ifndef BUG_ATTEMPT_AFTER_ACK
            :: v_rev < v_r && a_reply != 0 -> goto lost
#endif
            :: else
            fi;
            assert(v_rev >= v_r || v_att > a_mask);
            ASK(REVEAL, v_att, a_led, wait_reveal)
        :: REFUSED(SET, NO_SKIPPED, AS_LOST) || REFUSED(SET, NO_KEY, AS_LOST) ||
           REFUSED(SET, NO_REVEALED, AS_LOST) -> ANSWERED; goto lost
        :: REFUSED(SET, NO_ORDER, AS_APART) || REFUSED(SET, NO_HEADER, AS_APART) -> ANSWERED; goto refused
        OR_NO_ANSWER
        fi
    }
wait_reveal:
    atomic {
        if
        :: GOT(REVEAL, GO) ->
            if
            :: w_head != a_led || v_rev >= v_r -> goto link_down
            :: else
            fi;
            ANSWERED;
#ifndef BUG_MASK_NOT_STORED
            AW(MASK, a_mask = v_att, link_down); /* draw_mask: before the first byte of the masked sum */
#endif
            att = v_att;
            ASK(SUM_, 0, 0, wait_digest)
        :: GOT(REVEAL, KEPT) ->
            if
            :: w_head != a_led -> goto link_down
            :: else
            fi;
            id = w_x; att = w_y; ANSWERED;
            v_rev = v_r;
            if
            :: a_mask != att -> goto lost /* load_mask */
            :: else -> goto digest
            fi
        :: REFUSED(REVEAL, NO_SKIPPED, AS_LOST) || REFUSED(REVEAL, NO_KEY, AS_LOST) ||
           REFUSED(REVEAL, NO_REVEALED, AS_LOST) -> ANSWERED; goto lost
        :: REFUSED(REVEAL, NO_LEDGER, AS_APART) || REFUSED(REVEAL, NO_ORDER, AS_APART) ||
           REFUSED(REVEAL, NO_HEADER, AS_APART) -> ANSWERED; goto refused
        OR_NO_ANSWER
        fi
    }
wait_digest:
    atomic {
        if
        :: GOT(SUM_, DIGEST) -> id = w_x; ANSWERED; v_rev = v_r; goto digest
        OR_NO_ANSWER
        fi
    }
digest: /* as_on_digest: the digest is durable before AS asks for the output */
    atomic {
        if
#ifdef BUG_ACK_BEFORE_REPLIED
        :: a_reply == 0
#else
        :: a_reply == 0 -> AW(REPLY, a_reply = id, failed)
#endif
        :: a_reply == id
        :: a_reply != 0 && a_reply != id -> goto lost
        fi;
        ASK(ACK, id, 0, wait_reply)
    }
wait_reply:
    atomic {
        if
        :: GOT(ACK, REPLY) ->
            assert(w_x == id);
            ANSWERED;
#ifdef BUG_ACK_BEFORE_REPLIED
            AW(REPLY, a_reply = id, failed);
#endif
            AW(COUNTED, skip, failed);
#ifndef BUG_REVEALED_BEFORE_RELEASE
            AW(RELEASE, a_rel = id, failed); /* attempt: the integers are durable */
#endif
            id = 0; att = 0;
            goto revealed
        OR_NO_ANSWER
        fi
    }
revealed:
    atomic {
        id = 0; att = 0;
        EVENT(AGG_REVEALED);
        v_ph = RELEASING;
        tell();
        goto next
    }
failed: /* a failure of AS's disk: REVEAL_FAILED, the link stays */
    atomic {
        id = 0; att = 0;
        EVENT(AGG_REVEAL_FAILED);
        goto next
    }
refused: /* CSP refuses: perhaps every time */
    atomic {
        v_refused++;
        if
        :: v_refused >= REFUSALS_MAX -> goto lost
        :: else -> goto failed
        fi
    }
lost:
    atomic {
        id = 0; att = 0;
        assert(rolled || aged[v_r]);
        EVENT(AGG_LOST);
        if
        :: v_ph == FREEZING || v_ph == SKIPPING
        :: v_ph != FREEZING && v_ph != SKIPPING -> v_ph = SKIPPING
        fi;
        tell();
        goto next
    }

    /* ---- a round ends ---- */

release: /* order_release */
    atomic {
        assert(a_rel != 0);
        AW(MODEL, skip, crash);
        assert(released[v_r] == 0 || released[v_r] == a_rel);
        assert(!skipped[v_r] || ROLLBACK == 5);
        assert(a_led & BIT(v_r));
#if ROLLBACK != 3
        assert(c_led & BIT(v_r));
#endif
#if ROLLBACK < 4
        assert((got[v_r] & ~a_ver) == 0);
#endif
        released[v_r] = a_rel;
        EVENT(AGG_RELEASED);
        att = BIT(v_r);
        next_round();
        as_rounds_remember(a_mod | att, crash);
        att = 0;
        goto next
    }

wait_skip: /* order_skip */
    atomic {
        if
        :: GOT(SKIP, YES) ->
            ANSWERED;
            AW(ROW, skip, crash);
            assert(released[v_r] == 0 || ROLLBACK == 5);
            skipped[v_r] = true;
            EVENT(AGG_SKIPPED);
            next_round();
            tell();
            goto next
        :: REFUSED(SKIP, NO_LEDGER, AS_APART) || REFUSED(SKIP, NO_HEADER, AS_APART) -> goto link_down
        OR_NO_ANSWER
        fi
    }

wait_bye: /* order_finish */
    atomic {
        if
        :: GOT(BYE, YES) -> ANSWERED; AW(BYE, skip, crash); goto over
        OR_NO_ANSWER
        fi
    }

crash: /* AS dies and starts again, or its files are put back meanwhile */
    atomic {
        hang_up();
        v_ph = STARTING; v_r = 0; v_att = 0; v_linked = false; v_behind = false; v_rev = 0; v_refused = 0;
        id = 0; att = 0; sig = 0; rev = 0; skp = 0; expired = false;
#ifdef BUG_TREE_NOT_STORED
        boots++;
#endif
        goto start
    }

stop: /* cannot_go_on: AS reports an old copy */
    atomic {
        assert(rolled);
        hang_up();
        goto end
    }
over:
    atomic {
        assert(c_stopped || (v_ph == DONE && v_r == ROUNDS));
        hang_up();
        /* each round is released or skipped, once */
        assert(c_stopped || rolled || ((released[1] != 0) != skipped[1] && (released[ROUNDS] != 0) != skipped[ROUNDS]))
    }
end:
    a_over = true
}

/* ---- clients ---------------------------------------------------------------------------------- */

/* AS admits an update while it collects, makes it durable (body, then row), counts it (UPDATE) and sends the receipt.
 * A client that misses the receipt uploads again and gets it, at any time: so the row is as good as the receipt. */
#define UPLOAD(bit) \
    a_rows = a_rows | bit; \
    assert(released[v_r] == 0 || ROLLBACK >= 4); \
    got[v_r] = got[v_r] | bit; \
    if \
    :: v_ph == COLLECTING && a_rows == CLIENTS -> v_ph = FREEZING \
    :: else \
    fi \
    A_COPY

active proctype clients()
{
    byte round;
end:
    do
#ifdef BUG_ADMIT_LATE
    :: atomic { (v_ph == COLLECTING || v_ph == FREEZING || v_ph == REVEALING) && a_rows == 1 -> UPLOAD(2) }
#else
    :: atomic { v_ph == COLLECTING && a_rows == 1 -> UPLOAD(2) }
#endif
#ifdef BUG_RECEIPT_BEFORE_BODY
    :: atomic { v_ph == COLLECTING && a_rows == 0 && got[v_r] == 1 -> UPLOAD(2) }
#endif
#ifdef BUG_RECEIPT_BEFORE_BODY
    :: atomic { v_ph == COLLECTING && a_rows == 0 && got[v_r] == 0 -> got[v_r] = 1; round = v_r };
       atomic {
           if
           :: v_ph == COLLECTING && v_r == round -> a_rows = a_rows | 1
           :: else
           fi
       }
#else
    :: atomic { v_ph == COLLECTING && a_rows == 0 -> UPLOAD(1) }
#endif
    od
}

/* ---- CSP -------------------------------------------------------------------------------------- */

/* CSP's stream is in this phase, and the question has come: the table `questions` of csp.c. Left out:
 *     left out: LINK_TASK GREETED         HELLO stands for both, so that no stream is GREETED
 *     left out: LINK_PING GREETED READY
 *     left out: LINK_BYE GREETED
 *     left out: LINK_VOUCH READY
 *     left out: LINK_EARLY READY
 *     left out: LINK_HEADS HEADS          they come with SET
 *     left out: LINK_ENROL READY */
#define ON(question, phase) q == question && c_ph == phase
#define ANSWER(answer, x) w = answer; w_x = x; goto wait

inline csp_key_done()
{
    if
    :: c_key == c_top && c_key != 0 -> CW(KEY, c_key = 0)
    :: else
    fi
}

inline csp_round_over()
{
    c_dec = false; /* gather_drop */
    csp_key_done()
}

/* csp_store.c */
inline csp_new_row(model) /* the row of a new round; it has no other records yet */
{
    d_step {
        c_top++;
        c_st[c_top] = SIGNED;
        c_mod = model;
        c_chg = false; c_set = 0; c_rev = 0; c_att = 0; c_out = 0
    }
}
inline csp_store_sign(model)
{
    CW(HEADER, skip);
    CW(SIGNED, csp_new_row(model))
}
inline csp_store_charge(r)
{
#ifndef BUG_CHARGE_BEFORE_CHARGING
    CW(CHARGING, c_chg = true);
#endif
    if
    :: !(c_led & BIT(r)) -> CW(LEDGER, c_led = AFTER(c_led, r))
    :: else
    fi;
    if
    :: c_head != c_led -> CW(HEAD, c_head = c_led)
    :: else
    fi
#ifdef BUG_CHARGE_BEFORE_CHARGING
    ; CW(CHARGING, c_chg = true)
#endif
}
inline csp_store_reveal(attempt)
{
#ifdef BUG_NOTE_BEFORE_REVEAL
    CW(NOTE, c_nr = c_top; c_nid = computed[c_top]);
#endif
#ifdef BUG_MARK_BEFORE_OUTPUT
    CW(REVEALED, c_st[c_top] = REVEALED);
#endif
    CW(OUTPUT, c_out = computed[c_top]);
    CW(REVEAL, c_rev = computed[c_top]; c_att = attempt);
#ifndef BUG_NOTE_BEFORE_REVEAL
    CW(NOTE, c_nr = c_top; c_nid = computed[c_top]);
#endif
#if !defined(BUG_NO_MARK) && !defined(BUG_MARK_BEFORE_OUTPUT)
    CW(REVEALED, c_st[c_top] = REVEALED)
#else
    skip
#endif
}
inline csp_store_resume()
{
#ifndef BUG_NO_RESUME
    if
    :: c_st[c_top] == SIGNED && c_rev != 0 && c_out == c_rev ->
        CW(NOTE, c_nr = c_top; c_nid = c_rev);
        CW(REVEALED, c_st[c_top] = REVEALED)
    :: else
    fi
#else
    skip
#endif
}
inline csp_store_skip()
{
    CW(OUTPUT, c_out = 0);
    CW(SKIP, skip);
    CW(SKIPPED, c_st[c_top] = SKIPPED)
}

active proctype csp()
{
    byte x, h, at;
    skip C_COPY;

c_start: /* account_open; csp_disk_open, settle */
    atomic {
        if
        :: !PREFIX(c_head, c_led) -> goto c_stop
        :: else
        fi;
        if
        :: c_head != c_led -> CW(HEAD, c_head = c_led)
        :: else
        fi;
        if
        :: (c_led & ~(BIT(c_top + 1) - 1)) != 0 -> goto c_stop /* account_knows */
        :: c_nr > c_top -> goto c_stop
        :: else
        fi;
#ifndef BUG_NO_SETTLE
        if
        :: c_st[c_top] == SIGNED && c_nr == c_top && c_rev == c_nid && c_out == c_rev ->
            CW(REVEALED, c_st[c_top] = REVEALED)
        :: c_st[c_top] == SIGNED && ((c_nr == c_top && !(c_rev == c_nid && c_out == c_rev)) ||
                                     (c_nr != c_top && !c_chg && (c_led & BIT(c_top)))) ->
            csp_store_skip()
        :: else
        fi;
#endif
        if
        :: c_st[c_top] != SIGNED -> csp_round_over() /* journal_kem_sweep */
        :: else
        fi;
        c_ph = START
    }

wait:
end_wait:
    if
    /* csp_expire */
    :: atomic {
        c_st[c_top] == SIGNED && expiries < EXPIRIES ->
        expiries++;
        aged[c_top] = true;
        if
        :: c_ph == SUM -> hang_up() /* the role disconnects a peer that is still sending */
        :: else
        fi;
        at = 0;
        csp_store_skip();
        csp_round_over();
        goto wait
    }
    :: atomic { if C_DIE fi }
    :: atomic {
        ON(HELLO, START) ->
        h = q_head; q = NONE; q_r = 0; q_head = 0;
        /* ledgers_must_fit */
        if
#ifdef BUG_LEDGERS_NOT_COMPARED
        :: true
#endif
        :: c_led == h || (c_top > 0 && (c_st[c_top] == SIGNED || c_st[c_top] == SKIPPED) && AFTER(c_led, c_top) == h)
        :: else -> h = 0; w = NO_LEDGER; goto wait
        fi;
        h = 0;
        c_ph = READY;
        w_head = c_led;
        w_x = c_top;
        if
        :: c_st[2] == REVEALED -> w_y = 2
        :: c_st[2] != REVEALED && c_st[1] == REVEALED -> w_y = 1
        :: else
        fi;
        if
        :: c_st[2] == SKIPPED -> w_z = 2
        :: c_st[2] != SKIPPED && c_st[1] == SKIPPED -> w_z = 1
        :: else
        fi;
        w = WELCOME;
        goto wait
    }
    :: atomic { /* csp_on_key */
        ON(KEY, READY) ->
        x = q_r; q = NONE; q_r = 0;
        if
        :: c_st[x] == REVEALED -> x = 0; ANSWER(NO_REVEALED, 0)
        :: c_st[x] == SKIPPED -> x = 0; ANSWER(NO_SKIPPED, 0)
        :: c_st[x] == SIGNED && c_key != x -> x = 0; ANSWER(NO_KEY, 0)
        :: c_st[x] == SIGNED && c_key == x -> x = 0; ANSWER(KEY, 0)
        :: c_st[x] == NEW && (x != c_top + 1 || c_st[c_top] == SIGNED) -> x = 0; ANSWER(NO_HEADER, 0)
        :: c_st[x] == NEW && x == c_top + 1 && c_st[c_top] != SIGNED ->
            if
            :: c_key != x -> CW(KEY, c_key = x)
            :: else
            fi;
            x = 0;
            ANSWER(KEY, 0)
        fi
    }
    :: atomic { /* on_header; AS asks for the round whose key it has just got */
        ON(HEADER, READY) ->
        at = q_r; x = q_x; h = q_head; q = NONE; q_r = 0; q_x = 0; q_head = 0;
        if
        :: c_led == h || (c_top > 0 && (c_st[c_top] == SIGNED || c_st[c_top] == SKIPPED) && AFTER(c_led, c_top) == h)
        :: else -> x = 0; h = 0; at = 0; ANSWER(NO_LEDGER, 0)
        fi;
        h = 0;
        if
        :: at == c_top + 1 && c_key != at -> x = 0; at = 0; ANSWER(NO_ORDER, 0)
        :: at == c_top + 1 && c_key == at -> csp_store_sign(x)
        :: at != c_top + 1 -> assert(at == c_top)
        fi;
        at = 0;
        if
        :: c_mod != x -> x = 0; ANSWER(NO_HEADER, 0)
        :: else
        fi;
        x = 0;
        w_head = c_led;
        ANSWER(HEADER, 0)
    }
    :: atomic { /* csp_on_set ... answer_set */
        ON(SET, READY) ->
        x = q_x; h = q_head;
        assert(q_r == c_top);
        q = NONE; q_r = 0; q_x = 0; q_head = 0;
        if
        :: c_st[c_top] == SKIPPED -> x = 0; h = 0; ANSWER(NO_SKIPPED, 0)
        :: c_st[c_top] == SIGNED && h != 0 ->
            x = 0; h = 0;
            csp_store_skip(); /* old_copy */
            csp_round_over();
            ANSWER(NO_SKIPPED, 0)
        :: c_st[c_top] != SKIPPED && !(c_st[c_top] == SIGNED && h != 0) && c_set != 0 && c_set != x ->
            x = 0; h = 0;
            ANSWER(NO_ORDER, 0)
        :: c_st[c_top] == REVEALED && c_set == 0 -> x = 0; h = 0; ANSWER(NO_REVEALED, 0)
        :: c_st[c_top] == REVEALED && c_set == x -> h = 0
        :: c_st[c_top] == SIGNED && h == 0 && c_set == x && c_dec
        :: c_st[c_top] == SIGNED && h == 0 && (c_set == 0 || c_set == x) && !c_dec && c_key != c_top ->
            x = 0;
            ANSWER(NO_KEY, 0)
        :: c_st[c_top] == SIGNED && h == 0 && (c_set == 0 || c_set == x) && !c_dec && c_key == c_top ->
            if
            :: c_set == 0 -> CW(SET, c_set = x)
            :: else
            fi;
            c_dec = true
        fi;
        w_x = x; x = 0;
        w = VERDICT;
        goto wait
    }
    :: atomic { /* csp_on_reveal */
        ON(REVEAL, READY) ->
        at = q_x; h = q_head;
        assert(q_r == c_top);
        q = NONE; q_r = 0; q_x = 0; q_head = 0;
        if
        :: c_st[c_top] == SKIPPED -> at = 0; h = 0; ANSWER(NO_SKIPPED, 0)
        :: else
        fi;
        csp_store_resume();
        if
        :: c_st[c_top] == REVEALED -> /* reply_kept */
            at = 0;
            if
            :: c_led != h -> h = 0; ANSWER(NO_LEDGER, 0)
            :: else
            fi;
            h = 0;
            csp_round_over();
            if
            :: c_rev == 0 || c_out != c_rev -> ANSWER(NO_REVEALED, 0)
            :: else
            fi;
            c_ann = c_rev;
            w_y = c_att;
            w_head = c_led;
            ANSWER(KEPT, c_rev)
        :: c_st[c_top] == SIGNED && !c_dec -> at = 0; h = 0; ANSWER(NO_ORDER, 0) /* set_must_fit */
        :: c_st[c_top] == SIGNED && c_dec && AFTER(c_led, c_top) != h -> at = 0; h = 0; ANSWER(NO_LEDGER, 0)
        :: c_st[c_top] == SIGNED && c_dec && AFTER(c_led, c_top) == h
        fi;
        h = 0;
#ifndef BUG_CHARGE_AFTER_REVEAL
        csp_store_charge(c_top);
#endif
        w_head = AFTER(c_led, c_top);
        c_ph = SUM;
        ANSWER(GO, 0)
    }
    :: atomic { /* csp_on_sum: finish, keep_and_announce */
        ON(SUM_, SUM) ->
        q = NONE; q_r = 0;
        computed[c_top]++;
        assert(left[c_top] == 0); /* after the first byte CSP does not even compute another output */
#ifdef BUG_KEY_BEFORE_MARK
        CW(KEY, c_key = 0);
#endif
#ifdef BUG_ANNOUNCE_BEFORE_MARK
        assert(left[c_top] == 0 || left[c_top] == computed[c_top]);
        left[c_top] = computed[c_top];
#endif
        csp_store_reveal(at);
        at = 0;
        csp_key_done();
        c_dec = false;
        c_ph = READY;
        c_ann = c_rev;
        ANSWER(DIGEST, c_rev)
    }
    :: atomic { /* csp_on_ack: the first byte leaves */
        ON(ACK, READY) ->
        x = q_x; q = NONE; q_r = 0; q_x = 0;
        assert(c_ann == x);
        x = 0;
        assert((c_led & BIT(c_top)) && (a_led & BIT(c_top)) && c_st[c_top] == REVEALED);
        assert(left[c_top] == 0 || left[c_top] == c_ann);
        left[c_top] = c_ann;
        w_x = c_ann;
        c_ann = 0;
#ifdef BUG_CHARGE_AFTER_REVEAL
        csp_store_charge(c_top);
#endif
        w = REPLY;
        goto wait
    }
    :: atomic { /* on_skip */
        ON(SKIP, READY) ->
        x = q_r; h = q_head; q = NONE; q_r = 0; q_head = 0;
        if
        :: c_st[x] == NEW -> x = 0; h = 0; ANSWER(NO_HEADER, 0)
        :: else
        fi;
        if
        :: c_led == h
        :: c_led != h && c_st[x] != REVEALED && AFTER(c_led, x) == h ->
#ifdef BUG_SKIP_WITHOUT_CHARGE
            skip
#else
            csp_store_charge(x)
#endif
        :: c_led != h && !(c_st[x] != REVEALED && AFTER(c_led, x) == h) -> x = 0; h = 0; ANSWER(NO_LEDGER, 0)
        fi;
        h = 0;
        if
        :: c_st[x] == SIGNED -> csp_store_skip()
#ifdef BUG_SKIP_TWICE
        :: c_st[x] == SKIPPED -> goto c_fault
#endif
        :: else
        fi;
        x = 0;
        csp_round_over();
        ANSWER(YES, 0)
    }
    :: atomic { /* on_bye */
        ON(BYE, READY) ->
        q = NONE; q_r = 0;
        CW(OVER, skip);
        ANSWER(YES, 0)
    }
    fi;

c_fault: /* CSP's own failure: NO FAULT, and the stream ends. At a start: it starts again */
    atomic {
        hang_up();
        x = 0; h = 0; at = 0;
        if
        :: c_ph == DOWN -> goto c_start
        :: else -> goto wait
        fi
    }
c_crash:
    atomic {
        c_ph = DOWN;
        hang_up();
        x = 0; h = 0; at = 0;
        goto c_start
    }
c_stop: /* CSP refuses the task: an old copy */
    assert(rolled);
    c_stopped = true
}
