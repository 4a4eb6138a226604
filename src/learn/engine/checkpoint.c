/* Design of a checkpoint, little-endian:
 *     "SEFLTRN1" | bytes: settings in words | u64 epoch, row, steps | u64 n, n numbers: theta |
 *     u64 n, n: carried state | u64 optimiser steps | u64 n, n: its state | SHA-256 of everything
 * Numbers are stored as in memory (IEEE 754, little-endian machines only). */
#include "base/hex.h"
#include "base/sha256.h"
#include "model/engine/engine_inside.h"
#include "model/train.h"

#include <stdio.h>
#include <string.h>

enum { DESCRIPTION = 1024 }; /* bytes of the settings in words */

static void describe(char out[DESCRIPTION], const engine *e, const train_steps *j, uint64_t seed)
{
    const lm_config *c = &e->model;
    const optim_config *o = &e->optim;
    const train_layout l = train_layout_of(j);
    uint8_t digest[SHA256_BYTES];
    char text[17]; /* first digits of the SHA-256 of the words */
    sha256_of(digest, span_of(j->words, j->n * sizeof *j->words));
    hex_write(text, digest, 8);
    snprintf(out, DESCRIPTION,
             "%s vocab %u embed %u hidden %u layers %u heads %u block %u block_embed %u "
             "block_decoder %u tied %d batch %u steps %u "
             "rows %zu text %s lr %.17g lr_decay %.17g clip %.17g dropout %.17g seed %llu "
             "optimiser %s momentum "
             "%.17g beta1 %.17g beta2 %.17g epsilon %.17g weight_decay %.17g",
             c->body, c->vocab, c->embed, c->hidden, c->layers, c->heads, c->block, c->block_embed,
             c->block_decoder, c->tied, l.columns, j->steps, l.rows, text, j->lr,
             j->lr_decay > 0 ? j->lr_decay : 1, j->clip, j->dropout.rate, (unsigned long long)seed,
             optim_kind_name(o->kind), o->momentum, o->beta1, o->beta2, o->epsilon,
             o->weight_decay);
}

static sefl_status wr_part(sefl_buf *out, engine *e, uint32_t slot, uint32_t part, size_t n)
{
    uint8_t *p;
    SEFL_PASS(wr_u64(out, n));
    SEFL_PASS(buf_extend(out, &p, n * sizeof(float)));
    return n > 0 ? engine_read(e, slot, part, p, n * sizeof(float)) : SEFL_OK;
}

static sefl_status rd_reals(rd *r, sefl_span *out, size_t n)
{
    uint64_t have;
    SEFL_PASS(rd_u64(r, &have));
    SEFL_NEED(have == n, SEFL_EPROTO, "checkpoint: %llu numbers instead of %zu",
              (unsigned long long)have, n);
    return rd_view(r, out, n * sizeof(float));
}

static const char magic[8] = { 'S', 'E', 'F', 'L', 'T', 'R', 'N', '1' };

sefl_status engine_save(engine *e, uint32_t slot, sefl_buf *out, const train_steps *how,
                        uint64_t seed)
{
    char text[DESCRIPTION];
    size_t begin = out->n;
    uint8_t digest[SHA256_BYTES];
    engine_cursor at;
    describe(text, e, how, seed);
    SEFL_PASS(engine_read(e, slot, ENGINE_CURSOR, &at, sizeof at));
    SEFL_PASS(buf_reserve(out, (e->count + e->state_n + e->optim_n) * sizeof(float) + 2048));
    SEFL_PASS(wr_raw(out, magic, sizeof magic));
    SEFL_PASS(wr_bytes(out, span_of_str(text)));
    SEFL_PASS(wr_u64(out, at.epoch));
    SEFL_PASS(wr_u64(out, at.row));
    SEFL_PASS(wr_u64(out, at.done));
    SEFL_PASS(wr_part(out, e, slot, ENGINE_THETA, e->count));
    SEFL_PASS(wr_part(out, e, slot, ENGINE_STATE, e->state_n));
    SEFL_PASS(wr_u64(out, at.optimiser_steps));
    SEFL_PASS(wr_part(out, e, slot, ENGINE_OPTIM, e->optim_n));
    sha256_of(digest, span_of(out->p + begin, out->n - begin));
    return wr_raw(out, digest, sizeof digest);
}

/* Both descriptions are "name value" pairs; the message names the first pair that differs. */
static sefl_status same_settings(sefl_span there, const char *here)
{
    char copy[DESCRIPTION], a[64], b[64], name[64] = "model";
    size_t n = there.n < sizeof copy - 1 ? there.n : sizeof copy - 1;
    const char *p = copy, *q = here;
    int skip_a, skip_b;
    memcpy(copy, there.p, n);
    copy[n] = 0;
    if (there.n == n && strcmp(copy, here) == 0)
        return SEFL_OK;
    while (sscanf(p, " %63s%n", a, &skip_a) == 1 && sscanf(q, " %63s%n", b, &skip_b) == 1) {
        if (strcmp(a, b) != 0)
            return sefl_fail(SEFL_EINVAL,
                             "the checkpoint is from a run with other settings: %s is %s there, %s "
                             "here",
                             name, a, b);
        snprintf(name, sizeof name, "%s", a); /* a name, or a value just before the next name */
        p += skip_a, q += skip_b;
    }
    return sefl_fail(SEFL_EINVAL, "the checkpoint is from a run with other settings");
}

static sefl_status write_part(engine *e, uint32_t slot, uint32_t part, sefl_span from)
{
    return from.n > 0 ? engine_write(e, slot, part, from.p, from.n) : SEFL_OK;
}

sefl_status engine_load(engine *e, uint32_t slot, sefl_span in, const train_steps *how,
                        uint64_t seed)
{
    char text[DESCRIPTION];
    uint8_t digest[SHA256_BYTES];
    sefl_span s, theta, state, memory;
    engine_cursor at;
    const size_t rows = train_layout_of(how).rows;
    SEFL_NEED(in.n > SHA256_BYTES + sizeof magic && memcmp(in.p, magic, sizeof magic) == 0,
              SEFL_EPROTO, "not a checkpoint of `sefl train`");
    sha256_of(digest, span_of(in.p, in.n - SHA256_BYTES));
    SEFL_NEED(memcmp(digest, in.p + in.n - SHA256_BYTES, SHA256_BYTES) == 0, SEFL_EPROTO,
              "checkpoint: damaged or cut short (its hash does not match)");
    rd r = rd_over(span_of(in.p + sizeof magic, in.n - SHA256_BYTES - sizeof magic));
    describe(text, e, how, seed);
    SEFL_PASS(rd_bytes(&r, &s, sizeof text));
    SEFL_PASS(same_settings(s, text));
    SEFL_PASS(rd_u64(&r, &at.epoch));
    SEFL_PASS(rd_u64(&r, &at.row));
    SEFL_PASS(rd_u64(&r, &at.done));
    SEFL_NEED(at.row < rows - 1, SEFL_EPROTO, "checkpoint: row %llu of %zu",
              (unsigned long long)at.row, rows);
    SEFL_PASS(rd_reals(&r, &theta, e->count));
    SEFL_PASS(rd_reals(&r, &state, e->state_n));
    SEFL_PASS(rd_u64(&r, &at.optimiser_steps));
    SEFL_PASS(rd_reals(&r, &memory, e->optim_n));
    SEFL_PASS(rd_end(&r));
    SEFL_PASS(write_part(e, slot, ENGINE_THETA, theta));
    SEFL_PASS(write_part(e, slot, ENGINE_STATE, state));
    SEFL_PASS(write_part(e, slot, ENGINE_OPTIM, memory));
    return engine_write(e, slot, ENGINE_CURSOR, &at, sizeof at);
}
