/* What a peer can send, message by message: the first byte picks who listens, the rest is the
 * peer's stream. Nothing may crash, hang or allocate by the peer's numbers; every answer is a
 * status.
 *   0 hello at CSP    1 hello at AS    2 output of a round, then decoding
 *   3 reply of the mode `own`          4 frames in a row */
#include "mpc/noise/own.h"
#include "mpc/noise/session.h"
#include "seeded/seeded.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sefl_status take(void *self, void *out, size_t n)
{
    rd *r = self;
    sefl_status st = rd_raw(r, out, n);
    return st == SEFL_OK ? st : sefl_fail(SEFL_ECLOSED, "end of input");
}

static sefl_status drop(void *self, const void *p, size_t n)
{
    (void)self, (void)p, (void)n;
    return SEFL_OK;
}

static sefl_status flush(void *self)
{
    (void)self;
    return SEFL_OK;
}

static sefl_status no_noise(void *ctx, int64_t *e, size_t first, size_t n)
{
    (void)ctx, (void)first;
    memset(e, 0, n * sizeof *e);
    return SEFL_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const channel_ops ops = { drop, take, flush };
    static const noise_params p = {
        .task = "task", .round = 1, .count = 20, .k = 16, .t = 12, .g = 16, .chunk = 128
    };
    /* who greets builds the circuits first: the least a sampler may be */
    static const sampler_profile tiny = { "tiny", .columns = 1, .column = { 2 }, .kick_m = 1 };
    noise_params greeting = p;
    greeting.profile = &tiny;
    if (size == 0)
        return 0;
    rd in = rd_over(span_of(data + 1, size - 1));
    channel ch = { .ops = &ops, .self = &in };
    seeded gen;
    seeded_init(&gen, 1, "fuzz");
    sefl_rng rng = seeded_rng(&gen);
    switch (data[0] % 5) {
    case 0:
    case 1: {
        noise_session s = { 0 };
        if (noise_session_open(&s, &ch, &greeting, data[0] % 5 ? 'G' : 'E', &rng) == SEFL_OK &&
            s.state != NOISE_BROKEN)
            abort(); /* only the end of a step may say otherwise */
        noise_session_clear(&s);
        break;
    }
    case 2: {
        uint8_t colours[2 * 16 * 8], decode[2 * 16 * 8] = { 0 }, digest[SHA256_BYTES];
        uint8_t id[NOISE_ID];
        uint32_t v[20] = { 0 };
        int32_t w[20];
        if (noise_output_receive(&ch, id, colours, sizeof colours, digest) == SEFL_OK &&
            noise_output_decode(w, &p, id, span_of(colours, sizeof colours), id,
                                span_of(decode, sizeof decode), v) != SEFL_OK)
            abort();
        break;
    }
    case 3: {
        uint8_t reply[20 * 4];
        uint64_t v[20] = { 0 };
        int64_t w[20];
        noise_digits d = noise_digits_of(v);
        if (noise_own_receive(&ch, &p, reply) == SEFL_OK &&
            noise_own_finish(w, &p, reply, &d, &(noise_source){ no_noise, NULL }, &rng) != SEFL_OK)
            abort();
        break;
    }
    default: {
        uint8_t body[64];
        for (uint32_t i = 0;; i++)
            if (msg_recv(&ch, NOISE_MSG_TABLES, i, body, sizeof body, "fuzz") != SEFL_OK)
                break;
    }
    }
    return 0;
}
