/* Garbling in memory, beside the AES calls that it needs at least. */
#include "bench/micro/2pc.h"

#if !SEFL_CORE_ONLY

#include "base/alloc.h"
#include "mpc/circuits/sampler.h"
#include "mpc/garble/garble.h"
#include "seeded/seeded.h"

#include <math.h>

/* Blocks in one pass: 256 coordinates, whose tables (360 KB) go through the second-level cache as
 * they would on their way to a socket. */
enum { BLOCKS = 16, FLOOR_GROUPS = 512 };

typedef struct job {
    const circuit *c;
    gc_config cfg;
    gc_label delta;
    gc *g;
    gc *e;
    gc_label *in, *out, *active, *result, hashed[2 * GC_LANES];
    uint8_t *tables;
    size_t table_bytes;
    uint64_t next, tweak;
    aes_path path;
    unsigned per_key;
} job;

static sefl_status garble(void *ctx)
{
    job *j = ctx;
    sefl_status st = gc_garble(j->g, j->tables, j->table_bytes, j->out, j->in, j->next, BLOCKS);
    j->next += BLOCKS;
    j->in[0].w[1] ^= j->out[0].w[1]; /* chained: the compiler cannot skip a pass */
    return st;
}

static sefl_status evaluate(void *ctx)
{
    job *j = ctx;
    sefl_status st =
        gc_evaluate(j->e, j->result, j->tables, j->table_bytes, j->active, j->next, BLOCKS);
    j->next += BLOCKS;
    j->active[0].w[1] ^= j->result[0].w[1];
    return st;
}

static sefl_status hash(void *ctx)
{
    job *j = ctx;
    gc_hash_floor(j->path, j->hashed, &j->cfg.hash_key, j->tweak, FLOOR_GROUPS, j->per_key);
    j->tweak += FLOOR_GROUPS;
    return SEFL_OK;
}

/* Times work and floor in turn and takes the best time of each, so that on a shared machine both
 * see the same quiet moments. Seconds per call. */
static sefl_status in_turns(bench *b, job *j, sefl_status (*work)(void *), unsigned per_key,
                            double *work_s, double *floor_s)
{
    enum { TURNS = 5 };
    sefl_status st = SEFL_OK;
    bench turn = *b;
    turn.min_seconds = b->min_seconds / TURNS;
    j->per_key = per_key;
    *work_s = *floor_s = HUGE_VAL;
    for (int i = 0; i < TURNS; i++) {
        bench_timing t;
        SEFL_TRY(bench_time(&turn, &t, hash, j));
        *floor_s = t.min_s < *floor_s ? t.min_s : *floor_s;
        SEFL_TRY(bench_time(&turn, &t, work, j));
        *work_s = t.min_s < *work_s ? t.min_s : *work_s;
    }
done:
    return st;
}

/* hashes: hashed blocks per AND. */
static void row(bench *b, const job *j, const char *what, unsigned hashes, double work_s,
                double floor_s)
{
    char name[96];
    double copies = (double)BLOCKS * GC_LANES;
    double hash_s = floor_s / (FLOOR_GROUPS * GC_LANES);
    snprintf(name, sizeof name, "%s, %s", what, aes_path_name(j->path));
    bench_row(b, &(bench_result){ .name = name,
                                  .value = copies * j->c->ands / work_s * 1e-6,
                                  .unit = "M AND/s",
                                  .floor = 1e-6 / (hashes * hash_s),
                                  .per_value = copies / work_s * 1e-6,
                                  .rate = true });
}

static sefl_status measure(bench *b, const circuit *c, const char *what, aes_path path)
{
    sefl_status st = SEFL_OK;
    job j = { .c = c, .path = path };
    char name[64];
    double work_s, floor_s;
    seeded gen;
    seeded_init(&gen, 1, "bench garble");
    sefl_rng rng = seeded_rng(&gen);
    size_t wires = (size_t)BLOCKS * GC_LANES;
    SEFL_TRY(sefl_new(&j.in, wires * c->inputs, sizeof *j.in));
    SEFL_TRY(sefl_new(&j.active, wires * c->inputs, sizeof *j.in));
    SEFL_TRY(sefl_new(&j.out, wires * c->outputs, sizeof *j.in));
    SEFL_TRY(sefl_new(&j.result, wires * c->outputs, sizeof *j.in));
    SEFL_TRY(gc_table_bytes(&j.table_bytes, c, BLOCKS));
    SEFL_TRY(sefl_new(&j.tables, j.table_bytes, 1));
    SEFL_TRY(gc_delta_draw(&j.delta, &rng));
    seeded_fill(&gen, j.in, wires * c->inputs * sizeof *j.in);
    seeded_fill(&gen, j.active, wires * c->inputs * sizeof *j.in);
    seeded_fill(&gen, &j.cfg.hash_key, sizeof j.cfg.hash_key);
    SEFL_TRY(gc_new(&j.g, c, &j.cfg, &j.delta));
    SEFL_TRY(gc_new(&j.e, c, &j.cfg, NULL));
    gc_set_path(j.g, path);
    gc_set_path(j.e, path);

    SEFL_TRY(in_turns(b, &j, garble, 2, &work_s, &floor_s));
    snprintf(name, sizeof name, "garble %s", what);
    row(b, &j, name, 4, work_s, floor_s);
    SEFL_TRY(in_turns(b, &j, evaluate, 1, &work_s, &floor_s));
    snprintf(name, sizeof name, "evaluate %s", what);
    row(b, &j, name, 2, work_s, floor_s);
done:
    gc_free(j.g);
    gc_free(j.e);
    sefl_free(j.in);
    sefl_free(j.active);
    sefl_free(j.out);
    sefl_free(j.result);
    sefl_free(j.tables);
    return st;
}

sefl_status bench_2pc_garble(bench *b, bool all_paths)
{
    sefl_status st = SEFL_OK;
    circuit *offline = NULL;
    SEFL_TRY(sampler_offline(&offline, &sampler_g44));
    bench_note(b, "sampler G44: %u ANDs per value, without its rows; per value: M values/s",
               offline->ands);
    for (aes_path p = AES_PATHS; p-- > AES_SOFT;)
        if (aes_path_has(p) && (all_paths || p == aes_path_best()))
            SEFL_TRY(measure(b, offline, "sampler", p));
done:
    circuit_free(offline);
    return st;
}

#endif
