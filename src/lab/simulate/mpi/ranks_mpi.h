/* ranks_mpi: the ranks of a simulation (simulate/ranks.h) over MPI, for `mpirun -n R sefl
 * simulate`.
 *
 *     if (ranks_mpi_launched())
 *         SEFL_TRY(ranks_mpi_open(&m, groups, &stop));
 *     const ranks *r = ranks_mpi_get(m);               // this process in its group
 *     ...
 *     ranks_mpi_close(m);
 *
 * While a rank waits for others it sleeps, and asks `stop` whether the run shall end. mpirun sends
 * SIGTERM to all ranks when one of them has died.
 * Threads: one owner, the thread that called ranks_mpi_open.   Secrets: none. */
#ifndef SIMULATE_MPI_RANKS_MPI_H
#define SIMULATE_MPI_RANKS_MPI_H

#include "base/progress.h"
#include "simulate/ranks.h"

typedef struct ranks_mpi ranks_mpi;

/* True if mpirun, or another launcher that speaks PMIx, started this process. */
bool ranks_mpi_launched(void);

/* Returns the name and version of the library, such as "Open MPI v4.1.4". */
const char *ranks_mpi_version(void);

/* Joins the job and divides its ranks into `groups` equal groups, which work independently.
 * SEFL_EINVAL if the number of ranks is not a multiple of groups. */
sefl_status ranks_mpi_open(ranks_mpi **out, unsigned groups,
                           const sefl_progress *stop) SEFL_MUST_CHECK;
const ranks *ranks_mpi_get(const ranks_mpi *m);
/* Returns the number of this process's group, from 0. */
unsigned ranks_mpi_group(const ranks_mpi *m);

/* Leaves the job when all ranks do. If a call failed because a rank is missing, ends the job at
 * once: then the function does not return. m may be NULL. */
void ranks_mpi_close(ranks_mpi *m);

#endif
