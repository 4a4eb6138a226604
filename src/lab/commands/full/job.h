/* job: the ranks (simulate/ranks.h) of `sefl simulate`: those of an MPI job in a build with MPI if
 * mpirun started the program, otherwise this process alone.
 *
 *     SEFL_TRY(job_open(&j, groups, &stop));
 *     if (job_leads(&j))
 *         printf(...);
 *     job_close(&j); */
#ifndef COMMANDS_FULL_JOB_H
#define COMMANDS_FULL_JOB_H

#include "base/progress.h"
#include "simulate/ranks.h"

typedef struct job {
    const ranks *ranks;
    uint64_t groups, group; /* number of groups; the group of this process */
    void *mpi;
} job;

sefl_status job_open(job *j, uint64_t groups, const sefl_progress *stop) SEFL_MUST_CHECK;
/* Leaves the job. If other ranks cannot go on without this one, ends the job and the process. */
void job_close(job *j);

/* True if this process is rank 0 of its group: it prints. */
static inline bool job_leads(const job *j)
{
    return j->ranks->rank == 0;
}

#endif
