#include "bench/bench.h"

extern const cli_command bench_text, bench_train;
#if !SEFL_CORE_ONLY
extern const cli_command bench_ahe, bench_2pc, bench_round, bench_ingest;
#endif

const cli_command *const bench_list[] = {
#if !SEFL_CORE_ONLY
    &bench_ahe,   &bench_2pc,  &bench_round, &bench_ingest,
#endif
    &bench_train, &bench_text, NULL,
};
