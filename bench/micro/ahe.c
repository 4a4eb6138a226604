/* sefl bench ahe: the cost of encryption, each figure beside its floor. */
#include "bench/micro/ahe.h"

#include "crypto/ahe/paillier.h"
#include "crypto/ahe/params.h"

#include <string.h>

pack bench_ahe_pack(const bench_ahe_options *o)
{
    pack p = { .k = 16, .t = 12, .w = 28, .g = 16, .s = 80, .clients = o->clients };
    p.value_max = (((int64_t)1 << (p.w - 1)) - 1) / (int64_t)o->clients;
    return p;
}

void bench_ahe_time(bench *b, const char *label, double us, double floor_us, double values,
                    unsigned threads)
{
    bench_row(b, &(bench_result){ .name = label,
                                  .value = us,
                                  .unit = "us",
                                  .per_value = values > 0 ? us / values : 0,
                                  .floor = floor_us,
                                  .threads = threads });
}

static const struct {
    const char *name;
    sefl_status (*run)(bench *b, const bench_ahe_options *o);
} schemes[] = {
    { "paillier", bench_ahe_paillier },
    { "pad", bench_ahe_pad },
};

static sefl_status ahe_run(void *options)
{
    sefl_status st = SEFL_OK;
    bench_ahe_options *o = options;
    if (o->b.threads > 1)
        SEFL_TRY(pool_new(&o->pool, o->b.threads));
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (!o->scheme || strcmp(o->scheme, schemes[i].name) == 0)
            SEFL_TRY(schemes[i].run(&o->b, o));
done:
    pool_free(o->pool);
    return st;
}

#define TO(member) SETTING_TO(bench_ahe_options, member)
static const setting_def table[] = {
    { "scheme", SETTING_WORD, "", TO(scheme), .words = AHE_SCHEMES,
      .help = "Scheme to measure; both if not given" },
    { "bits", SETTING_U64, "3072", PAILLIER_SIZES, TO(bits), .arg = "N",
      .help = "Size of the Paillier key" },
    { "values", SETTING_U64, "0", TO(values), .min = 1, .max = 1000000000,
      .help = "Also encrypt N values as a stream and report the peak memory" },
    { "clients", SETTING_U64, "10000", TO(clients), .min = 1, .max = 1000000,
      .help = "Number of clients in one sum" },
    BENCH_OPTIONS,
    { 0 },
};

const cli_command bench_ahe = {
    .name = "bench ahe",
    .summary = "each step of homomorphic encryption, compared with its floor",
    .example = "sefl bench ahe --scheme pad",
    BENCH_COMMAND(bench_ahe_options, table, ahe_run),
};
