/* Signed documents and tasks: the first byte selects an envelope or a bare document. An accepted
 * document is written back as the same bytes, and the values derived from a task are consistent. */
#include "fuzz/primorial.h"
#include "fuzz/some.h"
#include "protocol/participant.h"
#include "protocol/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

static void try_task(sefl_span document)
{
    task t;
    sefl_buf words = { 0 };
    sefl_status st = task_read(&t, document);
    must(st == SEFL_OK || st == SEFL_EPROTO || st == SEFL_EINVAL || st == SEFL_ERANGE ||
         st == SEFL_EUNSUPPORTED);
    must(t.pub == NULL || (st == SEFL_OK && !task_is_sealed(&t)));
    if (st == SEFL_OK) {
        must((t.pub != NULL) == !task_is_sealed(&t));
        must(t.threshold >= 2 && t.threshold <= t.clients_max && t.threshold <= t.enrolled);
        must(t.ahe.values == t.values && t.values >= t.layout.trained &&
             t.params == t.layout.count);
        must(t.layout.trained > 0 && t.layout.trained <= t.params);
        must(pack_check(&t.ahe.pack) == SEFL_OK);
        must(t.noise == TASK_NOISE_NONE || t.grid.s2 == t.ahe.pack.s2);
        must(!t.claim || t.noise != TASK_NOISE_NONE);
        must(t.weights == TASK_CAPPED || task_divisor(&t, t.threshold) > 0);
        must(!t.amplified || !t.publish_count);
        for (uint64_t r = 1; r <= t.rounds; r += t.rounds / 7 + 1)
            must(task_lr(&t, r) >= 0 && isfinite(task_lr(&t, r)));
        if (some(document.p, document.n, 32)) /* it computes epsilon, for milliseconds */
            must(task_explain(&words, &t) == SEFL_OK);
    }
    buf_clear(&words);
    task_clear(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    sefl_span in = span_of(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        try_task(in);
        return 0;
    }
    envelope env;
    sefl_status st = envelope_read(&env, in);
    must(st == SEFL_OK || st == SEFL_EPROTO);
    if (st == SEFL_OK) {
        sefl_buf again = { 0 };
        static const pinned nobody;
        must(envelope_write(&again, &env) == SEFL_OK);
        must(again.n == in.n && memcmp(again.p, in.p, in.n) == 0);
        must(envelope_check(&env, SIGN_TASK, &nobody) != SEFL_OK);
        static const task none; /* whose keys sign nothing */
        task opened;
        round_header h;
        round_end e;
        must(task_open(&opened, in, &nobody) != SEFL_OK);
        must(participant_header_check(&none, &h, in, 1) != SEFL_OK);
        must(participant_end_check(&none, &e, in) != SEFL_OK);
        buf_clear(&again);
        if (env.kind == SIGN_TASK)
            try_task(env.content);
    }
    return 0;
}
