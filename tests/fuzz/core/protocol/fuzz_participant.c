/* A client's decisions in any order of events and times, with headers and ends that the servers
 * signed or not (toy_envelope.h). Input: a byte of settings, then steps. A plain account of what
 * the client was told checks each order: only an accepted header leads to a model, a round's body is
 * made at most once, and only a signed end or the task's limit stops the client. */
#include "base/random.h"
#include "fuzz/toy_envelope.h"
#include "protocol/participant.h"
#include "seeded/seeded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROUNDS = 6, STEP = 500000000 };

/* What the client knows, by the events alone. */
static struct {
    uint64_t now, trained; /* trained: the highest round with a body */
    uint64_t receipts;
    bool stopped;
} at;

static task t = { .id = { 3 }, .rounds = ROUNDS, .step_nano = STEP };

static bool header_is_good(const toy_envelope *e, uint64_t round)
{
    round_header h;
    return e->by_as && e->by_csp && e->intact &&
           round_header_read(&h, span_of(e->content, e->n)) == SEFL_OK &&
           memcmp(h.task, t.id, sizeof h.task) == 0 && h.round == round && round <= ROUNDS &&
           h.step_nano == STEP && h.suite == 0;
}

static bool end_is_good(const toy_envelope *e)
{
    round_end end;
    return e->by_as && e->intact && round_end_read(&end, span_of(e->content, e->n)) == SEFL_OK &&
           memcmp(end.task, t.id, sizeof end.task) == 0 && end.round <= ROUNDS;
}

/* Appends a header for the round, or an end; true if a client must accept it. */
static bool document(sefl_buf *out, bool end, uint64_t round, rd *in)
{
    uint8_t bytes[HEADER_MAX];
    size_t n = END_BYTES;
    toy_envelope e;
    if (end) {
        round_end d = { .round = round };
        memcpy(d.task, t.id, sizeof d.task);
        round_end_write(bytes, &d);
    } else {
        round_header d = { .round = round, .step_nano = STEP };
        memcpy(d.task, t.id, sizeof d.task);
        n = round_header_write(bytes, &d);
    }
    e = toy_envelope_make(out, end ? SIGN_END : SIGN_HEADER, span_of(bytes, n), in);
    bool good = end ? end_is_good(&e) : header_is_good(&e, round);
    round_header h;
    round_end o;
    const bool taken = end ? participant_end_check(&t, &o, buf_span(out)) == SEFL_OK
                           : participant_header_check(&t, &h, buf_span(out), round) == SEFL_OK;
    if (e.intact)
        MUST(taken == good);
    else if (taken) /* changes that cancel, or in the keys that an envelope only claims */
        MUST((e.by_as && (end || e.by_csp)));
    return taken;
}

static void news(participant *m, rd *in)
{
    const uint8_t b = toy_take(in);
    sefl_buf doc = { 0 };
    const participant_order was = participant_next(m, at.now);
    round_news n = { .state = (round_word)(b % (ROUND_OVER + 1)),
                     .round = b / 8 % 8,
                     .left_ms = 100u * toy_take(in) };
    bool good = true;
    if (n.state == ROUND_OPEN || n.state == ROUND_OVER) {
        good = document(&doc, n.state == ROUND_OVER, n.round, in);
        n.header = buf_span(&doc);
    }
    const participant_event e = { .kind = PARTICIPANT_GOT_NEWS, .news = &n, .drawn = b & 0x40 };
    const sefl_status st = participant_on(m, &e, at.now);
    const participant_order o = participant_next(m, at.now);
    if (was.kind == PARTICIPANT_POLL && n.state == ROUND_OVER)
        MUST((o.kind == PARTICIPANT_STOP) == good && (st == SEFL_OK) == good);
    if (o.kind == PARTICIPANT_FETCH_MODEL && was.kind == PARTICIPANT_POLL)
        MUST(good && n.state == ROUND_OPEN && o.round == n.round && o.round > at.trained &&
             n.left_ms > 0 && n.round <= ROUNDS);
    buf_clear(&doc);
}

/* The driver does what it was told to, or it fails. */
static void step(participant *m, rd *in)
{
    const uint8_t b = toy_take(in);
    participant_order o = participant_next(m, at.now);
    participant_event e = { .kind = PARTICIPANT_FAILED, .charged = b & 0x20 };
    MUST(!at.stopped || o.kind == PARTICIPANT_STOP);
    at.stopped = o.kind == PARTICIPANT_STOP;
    MUST((o.kind == PARTICIPANT_STOP) == (o.why != NULL));
    if (b % 8 == 0) {
        at.now += 1ull << b / 8;
    } else if (b % 8 == 1) { /* an event that may not fit */
        e.kind = (participant_event_kind)(1 + b / 8 % 5);
        const bool fits = participant_on(m, &e, at.now) == SEFL_OK;
        if (fits && e.kind == PARTICIPANT_TRAINED)
            at.trained = o.round;
        at.receipts += fits && e.kind == PARTICIPANT_GOT_RECEIPT;
    } else if (o.kind == PARTICIPANT_SLEEP && b % 8 < 5) {
        MUST(o.until_ms > at.now && o.until_ms <= at.now + 256000);
        at.now = o.until_ms;
    } else if (o.kind == PARTICIPANT_POLL || b % 8 == 7) {
        news(m, in);
    } else if (o.kind == PARTICIPANT_FETCH_MODEL) {
        e.kind = PARTICIPANT_GOT_MODEL;
        MUST_OK(participant_on(m, &e, at.now));
    } else if (o.kind == PARTICIPANT_TRAIN) {
        e.kind = PARTICIPANT_TRAINED;
        MUST_OK(participant_on(m, &e, at.now));
        MUST(o.round > at.trained); /* never a second body of a round */
        at.trained = o.round;
    } else if (o.kind == PARTICIPANT_UPLOAD) {
        e.kind = b & 0x40 ? PARTICIPANT_REFUSED : PARTICIPANT_GOT_RECEIPT;
        MUST(o.round == at.trained);
        MUST_OK(participant_on(m, &e, at.now));
        at.receipts += e.kind == PARTICIPANT_GOT_RECEIPT;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    participant *m;
    seeded gen;
    rd in = rd_over(span_of(data, size));
    const uint8_t settings = toy_take(&in);
    seeded_init(&gen, 1, "jitter");
    sefl_rng rng = seeded_rng(&gen);
    memset(&at, 0, sizeof at);
    at.now = 1000;
    t.servers = toy_servers();
    t.separation = 1 + settings % 2;
    t.max_rounds_per_client = settings / 2 % 4;
    MUST_OK(participant_new(&m, &t, 0, &rng));
    if (settings & 0x10)
        participant_stay(m);
    if (settings & 0x20) {
        participant_restore(m, 2, settings & 0x40);
        at.trained = 2;
    }
    MUST(participant_on(m, &(participant_event){ .kind = PARTICIPANT_GOT_NEWS }, 0) == SEFL_EINVAL);
    for (int i = 0; i < 200 && in.left > 0; i++)
        step(m, &in);
    MUST(t.max_rounds_per_client == 0 || at.receipts <= t.max_rounds_per_client + 1);
    participant_free(m);
    return 0;
}
