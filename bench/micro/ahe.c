/* sefl bench ahe: the cost of encryption, each figure beside its floor. */
#include "bench/micro/ahe.h"

#include <getopt.h>
#include <stdlib.h>
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

static sefl_status number(unsigned long long *out, const char *what, const char *text,
                          unsigned long long min, unsigned long long max)
{
    char *end;
    *out = strtoull(text, &end, 10);
    if (end == text || *end || *text == '-' || *out < min || *out > max)
        return sefl_fail(SEFL_EINVAL, "bench ahe: %s must be %llu to %llu, not \"%.32s\"", what,
                         min, max, text);
    return SEFL_OK;
}

static sefl_status run(bench *b, int argc, char **argv)
{
    static const struct option longopts[] = { { "scheme", required_argument, NULL, 's' },
                                              { "bits", required_argument, NULL, 'b' },
                                              { "values", required_argument, NULL, 'v' },
                                              { "clients", required_argument, NULL, 'c' },
                                              { NULL, 0, NULL, 0 } };
    sefl_status st = SEFL_OK;
    bench_ahe_options o = { .bits = 3072, .clients = 10000 };
    pool *workers = NULL;
    unsigned long long v;
    bool known = false;
    int opt;
    optind = 0, opterr = 0;
    while ((opt = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
        switch (opt) {
        case 's':
            o.scheme = optarg;
            break;
        case 'b':
            SEFL_TRY(number(&v, "--bits", optarg, 1, 65536));
            o.bits = (unsigned)v;
            break;
        case 'v':
            SEFL_TRY(number(&v, "--values", optarg, 1, 1000000000));
            o.values = (size_t)v;
            break;
        case 'c':
            SEFL_TRY(number(&v, "--clients", optarg, 1, 1000000));
            o.clients = (unsigned)v;
            break;
        default:
            st = sefl_fail(SEFL_EINVAL,
                           "bench ahe: no option %.40s, or its value is missing; 'sefl bench' "
                           "lists them",
                           argv[optind > 1 ? optind - 1 : 1]);
            goto done;
        }
    }
    SEFL_CHECK(optind == argc, SEFL_EINVAL, "bench ahe takes no argument \"%s\"", argv[optind]);
    if (b->threads > 1)
        SEFL_TRY(pool_new(&workers, b->threads));
    o.pool = workers;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (!o.scheme || strcmp(o.scheme, schemes[i].name) == 0) {
            known = true;
            SEFL_TRY(schemes[i].run(b, &o));
        }
    SEFL_CHECK(known, SEFL_EINVAL, "bench ahe: unknown scheme \"%.32s\"", o.scheme);
done:
    pool_free(workers);
    return st;
}

const bench_def bench_ahe = {
    "ahe",
    "each step of additively homomorphic encryption, compared with its floor",
    "  --scheme WORD   pad or paillier (default: both)\n"
    "  --bits N        size of the Paillier key: 2048, 3072 (default) or 4096\n"
    "  --values N      also encrypt N values as a stream and report the peak memory\n"
    "  --clients N     number of clients in one sum (default 10000)",
    run,
};
