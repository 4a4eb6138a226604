/* round: one reveal at CSP, with a crash between any two durable steps.
 *
 *     state     row of the round: SIGNED, REVEALED or SKIPPED   src/core/sum/csp/csp_store.h
 *     charging, output, reveal                                  records of the journal
 *     charged   the ledger                                      account_charge
 *     note      the note beside the ledger                      account_note
 *     settle    what CSP does at a start                        src/host/disk/csp_disk.c
 *
 * AS asks again until it has an output. Outputs are numbered as CSP computes them: a second
 * computation has fresh noise, so it is another output.
 * Left out: AS's own state, clients, links that break, old copies, rounds after the first. */
#ifndef CRASHES
#define CRASHES 0
#endif

#define SIGNED 1
#define REVEALED 2
#define SKIPPED 3

/* durable */
byte state = SIGNED, output, reveal, note;
bool charging, charged;

/* not durable */
byte computed;    /* outputs that CSP has computed */
byte left;        /* the one of which bytes have left */
byte crashes;

/* One durable step, with a crash before it. */
#define DURABLE(step) \
    if \
    :: true -> step \
    :: crashes < CRASHES -> crashes++; goto start \
    fi

active proctype csp()
{
start:
    if
    :: state == SIGNED && note != 0 && reveal == note && output == note -> state = REVEALED
    :: state == SIGNED && note != 0 && !(reveal == note && output == note) -> state = SKIPPED
    :: state == SIGNED && note == 0 && charged && !charging -> state = SKIPPED
    :: else
    fi;
    if
    :: state == SIGNED && reveal != 0 && output == reveal -> /* csp_store_resume */
#ifndef BUG_NO_RESUME_NOTE
        DURABLE(note = reveal);
#endif
        DURABLE(state = REVEALED)
    :: else
    fi;
    if
    :: state == SIGNED ->
#ifndef BUG_NO_CHARGING
        DURABLE(charging = true);
#endif
#ifndef BUG_CHARGE_AFTER_REVEAL
        DURABLE(charged = true);
#endif
        computed++;
        DURABLE(output = computed);
        DURABLE(reveal = computed);
        DURABLE(note = computed);
#ifndef BUG_NO_MARK
        DURABLE(state = REVEALED)
#endif
    :: else
    fi;
    if
    :: state == SKIPPED
    :: else ->
        assert(charged && state == REVEALED);
        assert(left == 0 || left == output);
        left = output;
        DURABLE(skip) /* AS has got it, or asks again */
    fi;
    assert(state == REVEALED && left == output && note == output) /* no old copy: nothing is lost */
}
