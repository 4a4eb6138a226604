#define _GNU_SOURCE
#include "cli/full/doctor.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/ct.h"
#include "base/random.h"
#include "cli/full/confine.h"
#include "crypto/secmem.h"
#include "net/tls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum { DISK_LEAST_MB = 100, DISK_GOOD_MB = 2000, MEMORY_GOOD_MB = 500, FILES_GOOD = 1024 };

void doctor_add(doctor *d, doctor_status status, const char *name, const char *remedy,
                const char *fmt, ...)
{
    va_list ap;
    if (d->n == DOCTOR_MAX)
        return;
    doctor_line *l = &d->at[d->n++];
    l->status = status;
    d->count[status]++;
    snprintf(l->name, sizeof l->name, "%s", name);
    snprintf(l->remedy, sizeof l->remedy, "%s", remedy ? remedy : "");
    va_start(ap, fmt);
    vsnprintf(l->says, sizeof l->says, fmt, ap);
    va_end(ap);
}

/* ---- the machine --------------------------------------------------------------------------- */

static void check_cpu(doctor *d)
{
    const cpu_features *f = cpu_get();
    char used[160] = "";
    size_t n = 0;
#define FEATURE(name) \
    if (f->name)      \
        n += (size_t)snprintf(used + n, sizeof used - n, " " #name);
    CPU_FEATURE_LIST(FEATURE)
#undef FEATURE
    if (f->aes && f->avx2)
        doctor_add(d, DOCTOR_OK, "cpu", NULL, "%s:%s", cpu_name(), used);
    else
        doctor_add(d, DOCTOR_WARN, "cpu",
                   "results are the same, but servers want a processor with AES and AVX2 (or unset "
                   "SEFL_CPU)",
                   "%s: %s; slow", cpu_name(), *used ? used + 1 : "nothing beyond plain C in use");
    doctor_add(d, DOCTOR_OK, "cores", NULL, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
}

static void check_entropy(doctor *d)
{
    sefl_rng rng = rng_system();
    uint8_t a[64], b[64];
    if (rng_fill(&rng, a, sizeof a) != SEFL_OK || rng_fill(&rng, b, sizeof b) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "entropy", "the kernel must give randomness: getrandom(2)", "%s",
                   sefl_last_error());
    else if (ct_eq_bytes(a, b, sizeof a))
        doctor_add(d, DOCTOR_FAIL, "entropy", "do not use this machine", "two draws are the same");
    else
        doctor_add(d, DOCTOR_OK, "entropy", NULL, "the system's generator answers");
}

static void check_limits(doctor *d)
{
    struct rlimit r;
    void *p = NULL;
    bool locked = true;
    struct sysinfo mem;
    if (secmem_new(&p, CONFINE_LOCKED_BYTES, &locked) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "memlock", "free some memory", "no memory for secrets: %s",
                   sefl_last_error());
    else if (!locked)
        doctor_add(
            d, DOCTOR_WARN, "memlock",
            "raise it: LimitMEMLOCK=64M of the service, ulimit -l 65536 in a shell; or accept "
            "the risk with memory_lock: try",
            "%d kB for keys cannot be locked in memory: servers do not start",
            CONFINE_LOCKED_BYTES / 1024);
    else
        doctor_add(d, DOCTOR_OK, "memlock", NULL, "memory for keys can be locked");
    secmem_free(p);
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < FILES_GOOD)
        doctor_add(d, DOCTOR_WARN, "open files",
                   "raise it: ulimit -n 4096, or LimitNOFILE= of the service",
                   "%llu at most: an aggregator needs one a client",
                   (unsigned long long)r.rlim_cur);
    else
        doctor_add(d, DOCTOR_OK, "open files", NULL, "%llu at most",
                   (unsigned long long)r.rlim_cur);
    if (sysinfo(&mem) == 0) {
        uint64_t mb = (uint64_t)(mem.freeram + mem.bufferram) * mem.mem_unit / 1000000;
        uint64_t all = (uint64_t)mem.totalram * mem.mem_unit / 1000000;
        doctor_add(d, all < MEMORY_GOOD_MB ? DOCTOR_WARN : DOCTOR_OK, "memory",
                   all < MEMORY_GOOD_MB ? "use a machine with more, or a smaller model" : NULL,
                   "%" PRIu64 " MB, %" PRIu64 " MB of it free", all, mb);
    }
}

static void check_clock(doctor *d)
{
    struct timex t = { 0 };
    sefl_clock c = clock_wall();
    time_t now = (time_t)(clock_ns(&c) / 1000000000u);
    struct tm tm;
    char text[32] = "";
    gmtime_r(&now, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    if (tm.tm_year + 1900 < 2024) {
        doctor_add(d, DOCTOR_FAIL, "clock", "set it: certificates and deadlines depend on it",
                   "it says %s UTC", text);
        return;
    }
    int state = adjtimex(&t);
    if (state == TIME_ERROR || (state < 0 && errno != EPERM) || (t.status & STA_UNSYNC))
        doctor_add(d, DOCTOR_WARN, "clock", "run a time service (chrony, systemd-timesyncd)",
                   "%s UTC; the system does not say that it is synchronised", text);
    else
        doctor_add(d, DOCTOR_OK, "clock", NULL, "%s UTC, synchronised", text);
}

static void check_disk(doctor *d, const char *folder)
{
    struct statvfs v;
    if (statvfs(folder, &v) != 0) {
        doctor_add(d, DOCTOR_FAIL, "disk", "make the folder, or give another", "%s: %s", folder,
                   strerror(errno));
        return;
    }
    uint64_t mb = (uint64_t)v.f_bavail * v.f_frsize / 1000000;
    doctor_status st = mb < DISK_LEAST_MB  ? DOCTOR_FAIL
                       : mb < DISK_GOOD_MB ? DOCTOR_WARN
                                           : DOCTOR_OK;
    doctor_add(d, st, "disk",
               st == DOCTOR_OK ? NULL
                               : "make room: updates of a round lie on disk until it is opened",
               "%" PRIu64 " MB free at %s", mb, folder);
    if (v.f_flag & ST_RDONLY)
        doctor_add(d, DOCTOR_FAIL, "disk", "choose a folder that can be written", "%s is read-only",
                   folder);
}

void doctor_machine(doctor *d, const char *folder)
{
    check_cpu(d);
    doctor_libraries(d);
    check_entropy(d);
    check_limits(d);
    check_clock(d);
    check_disk(d, folder);
}

/* ---- ports --------------------------------------------------------------------------------- */

static void check_usual(doctor *d, const char *host, unsigned port)
{
    int fd = -1;
    uint16_t bound;
    if (tls_listen(&fd, host, (uint16_t)port, &bound) == SEFL_OK)
        doctor_add(d, DOCTOR_OK, "port", NULL, "%s port %u is free", host, port);
    else
        doctor_add(d, DOCTOR_WARN, "port",
                   "for a trial, 'sefl provision --port-base' takes another", "%s",
                   sefl_last_error());
    if (fd >= 0)
        close(fd);
}

void doctor_ports(doctor *d)
{
    check_usual(d, "127.0.0.1", 7000);
    check_usual(d, "127.0.0.1", 7001);
}
