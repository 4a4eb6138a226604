#include "commands/full/job.h"

#ifdef SEFL_MPI
#include "simulate/mpi/ranks_mpi.h"
#endif

sefl_status job_open(job *j, uint64_t groups, const sefl_progress *stop)
{
    *j = (job){ .ranks = &ranks_one, .groups = 1 };
#ifdef SEFL_MPI
    ranks_mpi *m = NULL;
    if (ranks_mpi_launched()) {
        SEFL_PASS(ranks_mpi_open(&m, (unsigned)groups, stop));
        *j = (job){ ranks_mpi_get(m), groups, ranks_mpi_group(m), m };
    }
    SEFL_NEED(groups == j->groups, SEFL_EINVAL,
              "--groups divides the ranks of an MPI job: start sefl with mpirun");
#endif
    (void)groups, (void)stop;
    return SEFL_OK;
}

void job_close(job *j)
{
#ifdef SEFL_MPI
    ranks_mpi_close(j->mpi);
#endif
    *j = (job){ .ranks = &ranks_one };
}
