#include "bench/bench.h"

extern const cli_command bench_base, bench_privacy, bench_text, bench_train;
#if !SEFL_CORE_ONLY
extern const cli_command bench_ahe, bench_2pc, bench_net, bench_round, bench_ingest, bench_page;
#endif

const cli_command *const bench_list[] = {
    &bench_base,
#if !SEFL_CORE_ONLY
    &bench_ahe,   &bench_2pc,  &bench_net,     &bench_round, &bench_ingest, &bench_page,
#endif
    &bench_train, &bench_text, &bench_privacy, NULL,
};
