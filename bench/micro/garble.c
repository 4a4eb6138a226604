/* Garbling in memory, beside the AES calls it cannot do without. */
#include "bench/micro/2pc.h"

#include "base/alloc.h"
#include "mpc/circuits/sampler.h"
#include "mpc/garble/garble.h"
#include "seeded/seeded.h"

/* Blocks in one pass: 256 coordinates, whose tables (360 KB) go through the second-level cache as
 * they would on their way to a socket. */
enum { BLOCKS = 16, FLOOR_GROUPS = 4096 };

typedef struct job {
    const circuit *c;
    gc_config cfg;
    gc_label delta;
    gc_garbler *g;
    gc_evaluator *e;
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
    j->in[0].w[1] ^= j->out[0].w[1]; /* chained: no pass can be left out */
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

/* Seconds a hashed block. */
static sefl_status floor_of(bench *b, job *j, unsigned per_key, double *seconds)
{
    bench_timing t;
    j->per_key = per_key;
    sefl_status st = bench_time(b, &t, hash, j);
    if (st == SEFL_OK)
        *seconds = t.median_s / (FLOOR_GROUPS * GC_LANES);
    return st;
}

static sefl_status measure(bench *b, const circuit *c, const char *what, aes_path path,
                           bool coordinates)
{
    sefl_status st = SEFL_OK;
    job j = { .c = c, .path = path };
    bench_timing t;
    char name[96];
    double block2, block1, gates = (double)BLOCKS * GC_LANES * c->ands;
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
    SEFL_TRY(gc_garbler_new(&j.g, c, &j.cfg, &j.delta));
    SEFL_TRY(gc_evaluator_new(&j.e, c, &j.cfg));
    gc_garbler_set_path(j.g, path);
    gc_evaluator_set_path(j.e, path);

    SEFL_TRY(floor_of(b, &j, 2, &block2));
    SEFL_TRY(bench_time(b, &t, garble, &j));
    snprintf(name, sizeof name, "garble %s, %s", what, aes_path_name(path));
    bench_row(b, &(bench_result){ .name = name,
                                  .value = gates / t.median_s * 1e-6,
                                  .unit = "M AND/s",
                                  .floor = 1e-6 / (4 * block2),
                                  .per_value = coordinates ? (double)wires / t.median_s * 1e-6 : 0,
                                  .rate = true });
    SEFL_TRY(floor_of(b, &j, 1, &block1));
    SEFL_TRY(bench_time(b, &t, evaluate, &j));
    snprintf(name, sizeof name, "evaluate %s, %s", what, aes_path_name(path));
    bench_row(b, &(bench_result){ .name = name,
                                  .value = gates / t.median_s * 1e-6,
                                  .unit = "M AND/s",
                                  .floor = 1e-6 / (2 * block1),
                                  .per_value = coordinates ? (double)wires / t.median_s * 1e-6 : 0,
                                  .rate = true });
done:
    gc_garbler_free(j.g);
    gc_evaluator_free(j.e);
    sefl_free(j.in);
    sefl_free(j.active);
    sefl_free(j.out);
    sefl_free(j.result);
    sefl_free(j.tables);
    return st;
}

sefl_status bench_2pc_garble(bench *b, unsigned k, bool all_paths)
{
    sefl_status st = SEFL_OK;
    circuit *whole = NULL, *offline = NULL, *online = NULL;
    SEFL_TRY(sampler_circuit(&whole, &sampler_g44, k));
    SEFL_TRY(sampler_offline(&offline, &sampler_g44));
    SEFL_TRY(sampler_online(&online, &sampler_g44, k));
    bench_note(b,
               "sampler G44, k = %u: %u ANDs a coordinate (%u offline, %u online); "
               "per value: M coordinates/s",
               k, whole->ands, offline->ands, online->ands);
    for (aes_path p = AES_PATHS; p-- > AES_SOFT;)
        if (aes_path_has(p) && (all_paths || p == aes_path_best()))
            SEFL_TRY(measure(b, whole, "sampler", p, true));
    SEFL_TRY(measure(b, offline, "offline part", aes_path_best(), true));
    SEFL_TRY(measure(b, online, "online part", aes_path_best(), true));
done:
    circuit_free(whole);
    circuit_free(offline);
    circuit_free(online);
    return st;
}
