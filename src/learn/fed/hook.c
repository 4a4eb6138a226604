#define _GNU_SOURCE
#include "fed/hook.h"

#include "base/alloc.h"
#include "base/child.h"
#include "base/dir.h"
#include "base/file.h"
#include "model/file/exchange.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_PREFIX "trainer-"
static const char usual_path[] = "/usr/local/bin:/usr/bin:/bin";

enum { VARIABLES = 12 };

/* ---- environment ----------------------------------------------------------------------------- */

typedef struct variables {
    char *text[VARIABLES];
    size_t n;
} variables;

static sefl_status hook_put(variables *v, const char *name, const char *value)
{
    char *text = NULL;
    size_t n = strlen(name) + strlen(value) + 2;
    SEFL_PASS(sefl_new(&text, n, 1));
    snprintf(text, n, "%s=%s", name, value);
    v->text[v->n++] = text;
    return SEFL_OK;
}

static sefl_status put_number(variables *v, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return hook_put(v, name, text);
}

static void variables_clear(variables *v)
{
    for (size_t i = 0; i < v->n; i++)
        sefl_free(v->text[i]);
}

/* What one call uses. Paths are absolute: the command may change its folder. */
typedef struct turn {
    const hook *h;
    const train_job *job;
    char folder[PATH_MAX]; /* "": none yet */
    char model[PATH_MAX], out[PATH_MAX], log[PATH_MAX];
    char text[PATH_MAX], vocab[PATH_MAX]; /* "": none */
} turn;

static sefl_status fill(variables *v, const turn *t)
{
    const train_job *job = t->job;
    const char *path = getenv("PATH"), *home = getenv("HOME"), *lang = getenv("LANG");
    SEFL_PASS(hook_put(v, "PATH", path ? path : usual_path));
    if (home)
        SEFL_PASS(hook_put(v, "HOME", home));
    if (lang)
        SEFL_PASS(hook_put(v, "LANG", lang));
    SEFL_PASS(put_number(v, "SEFL_ROUND", job->round));
    SEFL_PASS(put_number(v, "SEFL_ROUNDS", job->task->rounds));
    SEFL_PASS(hook_put(v, "SEFL_TASK", job->task->name));
    SEFL_PASS(hook_put(v, "SEFL_CLIENT", t->h->who));
    if (t->text[0])
        SEFL_PASS(hook_put(v, "SEFL_TEXT", t->text));
    if (t->vocab[0])
        SEFL_PASS(hook_put(v, "SEFL_VOCAB", t->vocab));
    SEFL_PASS(hook_put(v, "SEFL_MODEL", t->model));
    return hook_put(v, "SEFL_OUT", t->out);
}

/* ---- folder and log -------------------------------------------------------------------------- */

static sefl_status absolute(char out[PATH_MAX], const char *path)
{
    if (path && *path)
        SEFL_NEED(realpath(path, out), SEFL_EIO, "cannot find %s: %s", path, strerror(errno));
    return SEFL_OK;
}

static sefl_status make_folder(turn *t)
{
    char base[PATH_MAX] = "";
    SEFL_PASS(absolute(base, t->h->folder));
    SEFL_PASS(absolute(t->text, t->h->text));
    SEFL_PASS(absolute(t->vocab, t->job->words));
    SEFL_PASS(file_path(t->log, "%s/trainer.log", base));
    SEFL_PASS(file_path(t->model, "%s/" FOLDER_PREFIX "XXXXXX", base));
    SEFL_NEED(mkdtemp(t->model), SEFL_EIO, "cannot make a folder in %s: %s", base, strerror(errno));
    memcpy(t->folder, t->model, sizeof t->folder);
    SEFL_PASS(file_path(t->model, "%s/model.safetensors", t->folder));
    return file_path(t->out, "%s/out.safetensors", t->folder);
}

/* Turns a long log over and begins the part of this round. */
static sefl_status begin_log(const turn *t)
{
    sefl_status st = SEFL_OK;
    struct stat sb;
    char old[PATH_MAX], line[320];
    int fd = -1;
    SEFL_TRY(file_path(old, "%s.1", t->log));
    if (stat(t->log, &sb) == 0 && sb.st_size >= HOOK_LOG)
        SEFL_CHECK(rename(t->log, old) == 0, SEFL_EIO, "cannot rename %s: %s", t->log,
                   strerror(errno));
    fd = open(t->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s: %s", t->log, strerror(errno));
    snprintf(line, sizeof line, "---- task %s, round %" PRIu64 ", %s\n", t->job->task->name,
             t->job->round, t->h->who);
    SEFL_TRY(file_write_all(fd, span_of_str(line)));
done:
    if (fd >= 0)
        close(fd);
    return st;
}

/* ---- training -------------------------------------------------------------------------------- */

static sefl_status hook_run(const turn *t)
{
    sefl_status st = SEFL_OK;
    variables v = { 0 };
    const char *list[VARIABLES + 1] = { 0 };
    SEFL_TRY(fill(&v, t));
    for (size_t i = 0; i < v.n; i++)
        list[i] = v.text[i];
    SEFL_TRY(begin_log(t));
    st = child_run(&(child_job){ .command = t->h->command,
                                 .folder = t->h->runs_in,
                                 .environment = list,
                                 .log = t->log,
                                 .timeout_ms = t->h->timeout_s * 1000,
                                 .memory_bytes = t->h->memory_mib << 20,
                                 .alive = t->job->progress });
    if (st == SEFL_ESTATE || st == SEFL_ETIMEOUT)
        st = sefl_fail_at(SEFL_ERANGE, "trainer");
done:
    variables_clear(&v);
    return st;
}

static sefl_status take(const turn *t, float *out, uint64_t *weight)
{
    tensors *file = NULL;
    sefl_status st = tensors_open(&file, t->out);
    if (st == SEFL_ENOTFOUND)
        return sefl_fail(SEFL_ERANGE, "trainer: the command ended without writing $SEFL_OUT");
    if (st == SEFL_OK)
        st = exchange_read(file, &t->job->task->layout, out, weight);
    tensors_close(file);
    return st == SEFL_OK || st == SEFL_ENOMEM ? st : sefl_fail_at(SEFL_ERANGE, "trainer");
}

static sefl_status hook_train(void *self, const dense_round *r, float *out, uint64_t *weight)
{
    sefl_status st = SEFL_OK;
    turn *t = NULL;
    SEFL_TRY(sefl_new(&t, 1, sizeof *t));
    t->h = self;
    t->job = r->of;
    SEFL_TRY(make_folder(t));
    SEFL_TRY(exchange_write(t->model, &r->of->task->layout, r->values));
    SEFL_TRY(hook_run(t));
    SEFL_TRY(take(t, out, weight));
done:
    if (t && t->folder[0])
        dir_remove(t->folder);
    sefl_free(t);
    return st;
}

train_port hook_port(hook *h)
{
    h->dense = (dense_trainer){ .self = h, .train = hook_train };
    return trainer_of_dense(&h->dense);
}

sefl_status hook_open(const hook *h)
{
    char path[PATH_MAX];
    DIR *d = opendir(h->folder);
    SEFL_NEED(d, SEFL_EIO, "cannot read %s: %s", h->folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, FOLDER_PREFIX, strlen(FOLDER_PREFIX)) == 0 &&
            file_path(path, "%s/%s", h->folder, e->d_name) == SEFL_OK)
            dir_remove(path);
    closedir(d);
    return SEFL_OK;
}
