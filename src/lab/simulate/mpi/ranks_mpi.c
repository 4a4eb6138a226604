/* No call of MPI blocks between the start and the end of the job: a rank that waits sleeps, and
 * stops when it is told to, even if another rank died in the middle of a reduction. It then leaves
 * an operation behind, calls no operation any more (`broken`) and ends in MPI_Abort; what is ours
 * of that operation stays valid until then. Long vectors travel in pieces: MPI counts items in an
 * int. */
#include "simulate/mpi/ranks_mpi.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIECE_BYTES = 64 << 20, COLLECT_BYTES = 1 << 20, EXIT_FAILED = 1 };
#define PATIENCE_SECONDS 0.002 /* spins this long before it sleeps */
#define SLEEP_NS         200000

struct ranks_mpi {
    ranks r;
    MPI_Comm group;
    unsigned group_number;
    const sefl_progress *stop;
    bool broken, over;
    uint64_t count; /* items of a rank, in collect */
};

/* The reduction that runs now, NULL if it was left: MPI's operations have no context argument. */
static const ranks_how *reducing;

static sefl_status failed(ranks_mpi *m, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    m->broken = true;
    (void)MPI_Error_string(code, text, &n);
    return sefl_fail(SEFL_EIO, "MPI: %s: %.200s; another rank may have died", what, text);
}

#define MPI_TRY(m, call)                      \
    do {                                      \
        int code_ = call;                     \
        if (code_ != MPI_SUCCESS)             \
            return failed((m), #call, code_); \
    } while (0)

/* Waits until the operation that `q` names is over. */
static sefl_status await(ranks_mpi *m, MPI_Request *q)
{
    int over = 0;
    const uint64_t began = clock_now_ns();
    for (;;) {
        MPI_TRY(m, MPI_Test(q, &over, MPI_STATUS_IGNORE));
        if (over)
            return SEFL_OK;
        if (!progress_report(m->stop, 0, 0)) {
            m->broken = true;
            return sefl_fail(SEFL_ECANCELLED, "stopped");
        }
        if (clock_since(began) < PATIENCE_SECONDS)
            sched_yield();
        else
            nanosleep(&(struct timespec){ .tv_nsec = SLEEP_NS }, NULL);
    }
}

#define MPI_AWAIT(m, call)         \
    do {                           \
        MPI_Request q;             \
        MPI_TRY((m), call);        \
        SEFL_PASS(await((m), &q)); \
    } while (0)

static sefl_status check_connected(const ranks_mpi *m)
{
    SEFL_NEED(!m->broken, SEFL_ECANCELLED, "stopped: the ranks are no longer connected");
    return SEFL_OK;
}

static sefl_status broadcast(void *self, void *bytes, size_t n)
{
    ranks_mpi *m = self;
    SEFL_PASS(check_connected(m));
    for (size_t at = 0; at < n; at += PIECE_BYTES) {
        size_t k = n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
        MPI_AWAIT(m, MPI_Ibcast((uint8_t *)bytes + at, (int)k, MPI_BYTE, 0, m->group, &q));
    }
    return SEFL_OK;
}

static void operation(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    if (reducing)
        reducing->add(reducing->ctx, inout, in, (size_t)*n);
}

static sefl_status reduce_pieces(ranks_mpi *m, uint8_t *items, size_t n, MPI_Datatype type,
                                 MPI_Op op)
{
    const size_t bytes = reducing->item_bytes, most = bytes < PIECE_BYTES ? PIECE_BYTES / bytes : 1;
    for (size_t at = 0; at < n; at += most) {
        int k = (int)(n - at < most ? n - at : most);
        void *piece = items + at * bytes;
        if (m->r.rank == 0)
            MPI_AWAIT(m, MPI_Ireduce(MPI_IN_PLACE, piece, k, type, op, 0, m->group, &q));
        else
            MPI_AWAIT(m, MPI_Ireduce(piece, NULL, k, type, op, 0, m->group, &q));
    }
    return SEFL_OK;
}

static sefl_status reduce(void *self, void *items, size_t n, const ranks_how *how)
{
    ranks_mpi *m = self;
    MPI_Datatype type;
    MPI_Op op;
    SEFL_PASS(check_connected(m));
    MPI_TRY(m, MPI_Type_contiguous((int)how->item_bytes, MPI_BYTE, &type));
    MPI_TRY(m, MPI_Type_commit(&type));
    MPI_TRY(m, MPI_Op_create(operation, 1, &op));
    reducing = how;
    sefl_status st = reduce_pieces(m, items, n, type, op);
    reducing = NULL;
    if (!m->broken) {
        (void)MPI_Op_free(&op);
        (void)MPI_Type_free(&type);
    }
    return st;
}

static sefl_status send_all(ranks_mpi *m, const uint8_t *items, size_t n, size_t item_bytes)
{
    const size_t most = COLLECT_BYTES / item_bytes;
    m->count = n;
    MPI_AWAIT(m, MPI_Isend(&m->count, 1, MPI_UINT64_T, 0, 0, m->group, &q));
    for (size_t at = 0; at < n; at += most) {
        size_t k = n - at < most ? n - at : most;
        MPI_AWAIT(m, MPI_Isend(items + at * item_bytes, (int)(k * item_bytes), MPI_BYTE, 0, 0,
                               m->group, &q));
    }
    return SEFL_OK;
}

static sefl_status receive_all(ranks_mpi *m, int from, uint8_t *piece, size_t item_bytes,
                               ranks_take *take, void *ctx)
{
    const size_t most = COLLECT_BYTES / item_bytes;
    MPI_AWAIT(m, MPI_Irecv(&m->count, 1, MPI_UINT64_T, from, 0, m->group, &q));
    const uint64_t n = m->count;
    for (size_t at = 0; at < n; at += most) {
        size_t k = n - at < most ? n - at : most;
        MPI_AWAIT(m, MPI_Irecv(piece, (int)(k * item_bytes), MPI_BYTE, from, 0, m->group, &q));
        for (size_t i = 0; i < k; i++)
            SEFL_PASS(take(ctx, piece + i * item_bytes));
    }
    return SEFL_OK;
}

static sefl_status collect(void *self, const void *items, size_t n, size_t item_bytes,
                           ranks_take *take, void *ctx)
{
    sefl_status st = SEFL_OK;
    ranks_mpi *m = self;
    uint8_t *piece = NULL;
    SEFL_PASS(check_connected(m));
    if (m->r.rank > 0)
        return send_all(m, items, n, item_bytes);
    SEFL_TRY(sefl_new(&piece, COLLECT_BYTES, 1));
    for (unsigned from = 1; from < m->r.size; from++)
        SEFL_TRY(receive_all(m, (int)from, piece, item_bytes, take, ctx));
done:
    if (!m->broken) /* else MPI may still write to it */
        sefl_free(piece);
    m->broken = m->broken || st != SEFL_OK;
    return st;
}

static const ranks_ops ops = { .broadcast = broadcast, .reduce = reduce, .collect = collect };

/* ---- public ---------------------------------------------------------------------------------- */

bool ranks_mpi_launched(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
}

const char *ranks_mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    if (MPI_Get_library_version(text, &n) != MPI_SUCCESS)
        return "unknown";
    text[strcspn(text, ",\n")] = 0;
    return text;
}

static sefl_status count_ranks(ranks_mpi *m, unsigned groups)
{
    int rank, size, local, locals;
    MPI_Comm machine;
    MPI_TRY(m, MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_TRY(m, MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI_TRY(m, MPI_Comm_size(MPI_COMM_WORLD, &size));
    SEFL_NEED(groups >= 1 && (unsigned)size % groups == 0, SEFL_EINVAL,
              "%d ranks cannot form %u equal groups: start a multiple of that with mpirun -n", size,
              groups);
    MPI_TRY(m, MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                                   &machine));
    MPI_TRY(m, MPI_Comm_rank(machine, &local));
    MPI_TRY(m, MPI_Comm_size(machine, &locals));
    MPI_TRY(m, MPI_Comm_free(&machine));
    unsigned each = (unsigned)size / groups;
    m->group_number = (unsigned)rank / each;
    MPI_TRY(m, MPI_Comm_split(MPI_COMM_WORLD, (int)m->group_number, rank, &m->group));
    MPI_TRY(m, MPI_Comm_set_errhandler(m->group, MPI_ERRORS_RETURN));
    m->r = (ranks){ .ops = &ops,
                    .self = m,
                    .rank = (unsigned)rank % each,
                    .size = each,
                    .local = (unsigned)local,
                    .locals = (unsigned)locals,
                    .over = &m->over };
    return SEFL_OK;
}

sefl_status ranks_mpi_open(ranks_mpi **out, unsigned groups, const sefl_progress *stop)
{
    int given;
    SEFL_MAKE(ranks_mpi, m, out);
    m->stop = stop;
    m->group = MPI_COMM_NULL;
    SEFL_CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) == MPI_SUCCESS &&
                   given >= MPI_THREAD_FUNNELED,
               SEFL_EIO, "MPI does not start in a program with threads");
    SEFL_TRY(count_ranks(m, groups));
    *out = m, m = NULL;
done:
    ranks_mpi_close(m);
    return st;
}

const ranks *ranks_mpi_get(const ranks_mpi *m)
{
    return &m->r;
}

unsigned ranks_mpi_group(const ranks_mpi *m)
{
    return m->group_number;
}

/* MPI_Abort kills the others at once. The first rank of a group says why the run ends: it gets the
 * time to do so, and the launcher gets the time to pass its words on. */
static void wait_for_words(const ranks_mpi *m)
{
    clock_pause_ms(m->r.rank ? 700 : 100);
}

void ranks_mpi_close(ranks_mpi *m)
{
    int started = 0;
    if (!m)
        return;
    fflush(NULL);
    (void)MPI_Initialized(&started);
    if (m->broken && started) {
        wait_for_words(m);
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILED);
    }
    if (m->group != MPI_COMM_NULL)
        (void)MPI_Comm_free(&m->group);
    if (started)
        (void)MPI_Finalize();
    sefl_free(m);
}
