#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/ct.h"
#include "base/random.h"
#include "cli/full/confine.h"
#include "cli/full/doctor.h"
#include "cli/options.h"
#include "cli/print.h"
#include "crypto/secmem.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
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
    snprintf(l->remedy, sizeof l->remedy, "%s", status == DOCTOR_OK ? "" : remedy);
    va_start(ap, fmt);
    vsnprintf(l->says, sizeof l->says, fmt, ap);
    va_end(ap);
}

/* ---- the machine --------------------------------------------------------------------------- */

static void check_cpu(doctor *d)
{
    const cpu_features *f = cpu_get();
    char used[CPU_USED_BYTES];
    cpu_used(used);
    const bool fast = f->aes && f->avx2;
    doctor_add(d, fast ? DOCTOR_OK : DOCTOR_WARN, "cpu",
               "the results are the same, but a server is slow without AES and AVX2 (if SEFL_CPU "
               "is set, unset it)",
               "%s: %s%s", cpu_name(), used, fast ? "" : "; slow");
    doctor_ok(d, "cores", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
}

static void check_entropy(doctor *d)
{
    sefl_rng rng = rng_system();
    uint8_t a[64], b[64];
    if (rng_fill(&rng, a, sizeof a) != SEFL_OK || rng_fill(&rng, b, sizeof b) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "entropy",
                   "the kernel must provide randomness: see getrandom(2)", "%s", sefl_last_error());
    else if (ct_eq_bytes(a, b, sizeof a))
        doctor_add(d, DOCTOR_FAIL, "entropy", "do not use this machine", "two random draws agree");
    else
        doctor_ok(d, "entropy", "the system's random generator works");
}

static void check_limits(doctor *d)
{
    struct rlimit r = { 0 };
    void *p = NULL;
    bool locked = true;
    if (secmem_new(&p, CONFINE_LOCKED_BYTES, &locked) != SEFL_OK)
        doctor_add(d, DOCTOR_FAIL, "memlock", "free some memory", "no memory for secrets: %s",
                   sefl_last_error());
    else if (!locked)
        doctor_add(d, DOCTOR_WARN, "memlock",
                   "raise the limit: LimitMEMLOCK=64M in the service's unit, ulimit -l 65536 in a "
                   "shell; or accept the risk with memory_lock: try",
                   "%d kB for keys cannot be locked in memory: servers will not start",
                   CONFINE_LOCKED_BYTES / 1024);
    else
        doctor_ok(d, "memlock", "keys can be locked in memory");
    secmem_free(p);
    const bool few = getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < FILES_GOOD;
    doctor_add(d, few ? DOCTOR_WARN : DOCTOR_OK, "open files",
               "raise the limit: ulimit -n 4096, or LimitNOFILE= in the service's unit",
               "%llu at most%s", (unsigned long long)r.rlim_cur,
               few ? ": an aggregator needs one per client" : "");
}

static void check_memory(doctor *d)
{
    struct sysinfo mem;
    if (sysinfo(&mem) != 0)
        return;
    const double unit = 1e-6 * mem.mem_unit, all = unit * (double)mem.totalram;
    const double free_mb = unit * (double)(mem.freeram + mem.bufferram);
    doctor_add(d, all < MEMORY_GOOD_MB ? DOCTOR_WARN : DOCTOR_OK, "memory",
               "use a machine with more memory, or a smaller model", "%.0f MB, %.0f MB of it free",
               all, free_mb);
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
    int state = adjtimex(&t);
    if (tm.tm_year + 1900 < 2024)
        doctor_add(d, DOCTOR_FAIL, "clock",
                   "set the clock: certificates and deadlines depend on it",
                   "the clock shows %s UTC", text);
    else if (state == TIME_ERROR || (state < 0 && errno != EPERM) || (t.status & STA_UNSYNC))
        doctor_add(d, DOCTOR_WARN, "clock", "run a time service (chrony, systemd-timesyncd)",
                   "%s UTC; the system does not report it as synchronised", text);
    else
        doctor_ok(d, "clock", "%s UTC, synchronised", text);
}

static void check_disk(doctor *d, const char *folder)
{
    struct statvfs v;
    if (statvfs(folder, &v) != 0) {
        doctor_add(d, DOCTOR_FAIL, "disk", "create the folder, or choose another", "%s: %s", folder,
                   strerror(errno));
        return;
    }
    const double mb = 1e-6 * (double)v.f_bavail * (double)v.f_frsize;
    doctor_add(d,
               mb < DISK_LEAST_MB  ? DOCTOR_FAIL
               : mb < DISK_GOOD_MB ? DOCTOR_WARN
                                   : DOCTOR_OK,
               "disk",
               "free some space: a round's uploads stay on disk until their sum is revealed",
               "%.0f MB free at %s", mb, folder);
    if (v.f_flag & ST_RDONLY)
        doctor_add(d, DOCTOR_FAIL, "disk", "choose a writable folder", "%s is read-only", folder);
}

/* ---- the command --------------------------------------------------------------------------- */

typedef struct wish {
    const char *file, *kind;
    bool json;
} wish;

static const char *const words[] = { "ok", "warn", "fail" };

static sefl_status say_json(const doctor *d)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    for (int i = 0; i < 3; i++)
        json_fields(&j, lf_u64(words[i], d->count[i]));
    json_key(&j, "checks"), json_open(&j, '[');
    for (size_t i = 0; i < d->n; i++) {
        const doctor_line *l = &d->at[i];
        json_object(&j, NULL, lf_str("name", l->name), lf_str("status", words[l->status]),
                    lf_str("says", l->says), lf_if(*l->remedy, lf_str("do", l->remedy)));
    }
    json_close(&j, ']');
    json_close(&j, '}');
    return print_json(&j);
}

static void print_text(const doctor *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const doctor_line *l = &d->at[i];
        printf("%-5s %-14s %s\n", words[l->status], l->name, l->says);
        if (*l->remedy)
            printf("      %-14s -> %s\n", "", l->remedy);
    }
    printf("%zu ok, %zu warnings, %zu failures\n", d->count[DOCTOR_OK], d->count[DOCTOR_WARN],
           d->count[DOCTOR_FAIL]);
}

static void examine(doctor *d, const char *file)
{
    static const char port[] = "for a trial, choose another with 'sefl provision --port-base'";
    const char *slash = file ? strrchr(file, '/') : NULL;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) + 1 : 1,
             slash ? file : ".");
    check_cpu(d);
    doctor_libraries(d);
    check_entropy(d);
    check_limits(d);
    check_memory(d);
    check_clock(d);
    check_disk(d, folder);
    if (file) {
        doctor_config(d, file);
    } else { /* the usual ports of a trial federation */
        doctor_port(d, "port", "127.0.0.1:7000", DOCTOR_WARN, port);
        doctor_port(d, "port", "127.0.0.1:7001", DOCTOR_WARN, port);
    }
}

static int cmd_doctor_run(void *options)
{
    const wish *w = options;
    doctor *d = NULL;
    if (w->kind && !w->file)
        return cli_misuse(&cmd_doctor, "--for requires -c FILE");
    sefl_status st = sefl_new(&d, 1, sizeof *d);
    if (st != SEFL_OK)
        return cli_failed(&cmd_doctor, st);
    d->k = w->kind ? config_kind_find(w->kind) : NULL;
    examine(d, w->file);
    if (w->json)
        st = say_json(d);
    else
        print_text(d);
    int rc = st != SEFL_OK           ? cli_failed(&cmd_doctor, st)
             : d->count[DOCTOR_FAIL] ? CLI_FAILED
                                     : CLI_DONE;
    settings_clear(&d->set);
    sefl_free(d);
    return rc;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "config", SETTING_PATH, "", TO(file), .letter = 'c',
      .help = "Also check this settings file: aggregator.yml, csp.yml, client.yml, ..." },
    CONFIG_KIND_OPTION(wish),
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_doctor = {
    .name = "doctor",
    .about = "Checks the processor, libraries, random numbers, limits, clock and disk. With "
             "--config, it also checks the settings, the files and certificates that they name "
             "(key, role, expiry, issuer), the task, the port and the peers. Each line begins with "
             "ok, warn or fail; warnings and failures suggest a remedy. The command changes "
             "nothing and exits with 1 if a check fails.",
    .example = "sefl doctor",
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_doctor_run, NULL, NULL, 0),
};
