/* faulty_disk: SQLite's files on a disk that fails when base/fault.h says so: a VFS around the
 * system's one, made the default, whose writes trigger FAULT_WRITE (disk full) and whose syncs
 * trigger FAULT_SYNC.
 *
 *     faulty_disk_install();                    // once, before the first database is opened */
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

#include "base/fault.h"

#include <sqlite3.h>
#include <string.h>

typedef struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* after this struct */
} faulty_file;

static sqlite3_vfs *faulty_real_vfs;

#define FAULTY_REAL(f) (((faulty_file *)(f))->real)

static int faulty_close(sqlite3_file *f)
{
    return FAULTY_REAL(f)->pMethods->xClose(FAULTY_REAL(f));
}
static int faulty_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return FAULTY_REAL(f)->pMethods->xRead(FAULTY_REAL(f), p, n, at);
}
static int faulty_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    if (fault_hit(FAULT_WRITE)) { /* half of it may have been written */
        (void)FAULTY_REAL(f)->pMethods->xWrite(FAULTY_REAL(f), p, n / 2, at);
        return SQLITE_FULL;
    }
    return FAULTY_REAL(f)->pMethods->xWrite(FAULTY_REAL(f), p, n, at);
}
static int faulty_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    return FAULTY_REAL(f)->pMethods->xTruncate(FAULTY_REAL(f), n);
}
static int faulty_sync(sqlite3_file *f, int flags)
{
    if (fault_hit(FAULT_SYNC))
        return SQLITE_IOERR_FSYNC;
    return FAULTY_REAL(f)->pMethods->xSync(FAULTY_REAL(f), flags);
}
static int faulty_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return FAULTY_REAL(f)->pMethods->xFileSize(FAULTY_REAL(f), n);
}
static int faulty_lock(sqlite3_file *f, int how)
{
    return FAULTY_REAL(f)->pMethods->xLock(FAULTY_REAL(f), how);
}
static int faulty_unlock(sqlite3_file *f, int how)
{
    return FAULTY_REAL(f)->pMethods->xUnlock(FAULTY_REAL(f), how);
}
static int faulty_reserved(sqlite3_file *f, int *out)
{
    return FAULTY_REAL(f)->pMethods->xCheckReservedLock(FAULTY_REAL(f), out);
}
static int faulty_control(sqlite3_file *f, int op, void *arg)
{
    return FAULTY_REAL(f)->pMethods->xFileControl(FAULTY_REAL(f), op, arg);
}
static int faulty_sector(sqlite3_file *f)
{
    return FAULTY_REAL(f)->pMethods->xSectorSize(FAULTY_REAL(f));
}
static int faulty_traits(sqlite3_file *f)
{
    return FAULTY_REAL(f)->pMethods->xDeviceCharacteristics(FAULTY_REAL(f));
}
static int faulty_shm_map(sqlite3_file *f, int page, int size, int grow, void volatile **out)
{
    return FAULTY_REAL(f)->pMethods->xShmMap(FAULTY_REAL(f), page, size, grow, out);
}
static int faulty_shm_lock(sqlite3_file *f, int from, int n, int flags)
{
    return FAULTY_REAL(f)->pMethods->xShmLock(FAULTY_REAL(f), from, n, flags);
}
static void faulty_shm_barrier(sqlite3_file *f)
{
    FAULTY_REAL(f)->pMethods->xShmBarrier(FAULTY_REAL(f));
}
static int faulty_shm_unmap(sqlite3_file *f, int delete)
{
    return FAULTY_REAL(f)->pMethods->xShmUnmap(FAULTY_REAL(f), delete);
}

static int faulty_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
    static const sqlite3_io_methods methods = {
        .iVersion = 2,
        .xClose = faulty_close,
        .xRead = faulty_read,
        .xWrite = faulty_write,
        .xTruncate = faulty_truncate,
        .xSync = faulty_sync,
        .xFileSize = faulty_size,
        .xLock = faulty_lock,
        .xUnlock = faulty_unlock,
        .xCheckReservedLock = faulty_reserved,
        .xFileControl = faulty_control,
        .xSectorSize = faulty_sector,
        .xDeviceCharacteristics = faulty_traits,
        .xShmMap = faulty_shm_map,
        .xShmLock = faulty_shm_lock,
        .xShmBarrier = faulty_shm_barrier,
        .xShmUnmap = faulty_shm_unmap,
    };
    (void)v;
    faulty_file *mine = (faulty_file *)f;
    mine->real = (sqlite3_file *)(mine + 1);
    mine->base.pMethods = NULL;
    int rc = faulty_real_vfs->xOpen(faulty_real_vfs, name, mine->real, flags, out);
    if (mine->real->pMethods)
        mine->base.pMethods = &methods;
    return rc;
}

static void faulty_disk_install(void)
{
    static sqlite3_vfs faulty;
    faulty_real_vfs = sqlite3_vfs_find(NULL);
    faulty = *faulty_real_vfs;
    faulty.zName = "faulty";
    faulty.szOsFile += (int)sizeof(faulty_file);
    faulty.xOpen = faulty_open;
    sqlite3_vfs_register(&faulty, 1);
}

#endif
