#include "sefl/server.h"

#include "api/roles/role_file.h"
#include "api/sized.h"
#include "base/alloc.h"
#include "crypto/lock_file.h"
#include "crypto/secmem.h"
#include "roles/aggregator/aggregator.h"
#include "roles/csp/csp_role.h"
#include "roles/csp/key.h"

struct sefl_aggregator {
    role_file file;
    sefl_server_options o;
    aggregator_settings set;
    aggregator *a;
};

struct sefl_csp {
    role_file file;
    sefl_server_options o;
    csp_settings set;
    csp_key key;
    csp_role *r;
};

static sefl_status open_file(role_file *f, sefl_server_options *o, const setting_def *schema,
                             const char *path, const sefl_server_options *options)
{
    SEFL_PASS(sized_in(o, sizeof *o, options));
    SEFL_PASS(role_file_open(f, schema, path, o->settings));
    return role_file_log(
        f, &(role_log){ .write = o->log, .ctx = o->ctx, .fd = o->log_fd, .level = o->log_level });
}

/* ---- AS -------------------------------------------------------------------------------------- */

static void on_round(void *ctx, const rounds_report *r, uint64_t of)
{
    const sefl_aggregator *a = ctx;
    if (!a->o.round)
        return;
    a->o.round(a->o.ctx,
               &(sefl_round_result){ .round = r->round,
                                     .rounds = of,
                                     .skipped = r->skipped,
                                     .blocked = r->blocked,
                                     .clients = r->has_clients ? (int64_t)r->clients : -1,
                                     .epsilon_server = r->has_epsilon ? r->epsilon_server : -1,
                                     .epsilon_others = r->has_epsilon ? r->epsilon_others : -1,
                                     .perplexity = r->has_perplexity ? r->perplexity : -1,
                                     .seconds = r->seconds });
}

sefl_status sefl_aggregator_open(sefl_aggregator **out, const char *path,
                                 const sefl_server_options *options)
{
    SEFL_MAKE(sefl_aggregator, a, out);
    SEFL_TRY(open_file(&a->file, &a->o, aggregator_schema, path, options));
    SEFL_TRY(aggregator_settings_make(&a->set, &a->file.set));
    SEFL_TRY(aggregator_new(
        &a->a, &(aggregator_options){
                   .settings = &a->set, .log = &a->file.log, .ctx = a, .round = on_round }));
    SEFL_HAND_OVER(out, a, sefl_aggregator_close);
}

sefl_status sefl_aggregator_run(sefl_aggregator *a)
{
    SEFL_NEED(a, SEFL_EINVAL, "the server is NULL");
    return aggregator_run(a->a);
}

void sefl_aggregator_stop(sefl_aggregator *a)
{
    if (!a)
        return;
    aggregator_stop(a->a);
}

void sefl_aggregator_reload(sefl_aggregator *a)
{
    if (!a)
        return;
    role_file_reload(&a->file);
    aggregator_reload(a->a);
}

unsigned sefl_aggregator_port(const sefl_aggregator *a)
{
    return a ? aggregator_port(a->a) : 0;
}

void sefl_aggregator_close(sefl_aggregator *a)
{
    if (!a)
        return;
    aggregator_free(a->a);
    role_file_close(&a->file);
    sefl_free(a);
}

/* ---- CSP ------------------------------------------------------------------------------------- */

typedef struct lock_at {
    const csp_settings *set;
    uint8_t *mem;
} lock_at;

static sefl_status unlock(void *ctx, sealed_lock *lock, sealed_by by)
{
    lock_at *at = ctx;
    bool key = by == SEALED_BY_KEY_FILE;
    const char *path = key ? at->set->key_lock : at->set->passphrase_file;
    SEFL_NEED(path, SEFL_EINVAL, "the key is locked with a %s: set %s",
              key ? "key file" : "passphrase", key ? "key_lock" : "passphrase_file");
    return lock_file_read(lock, &at->mem, by, path, NULL);
}

static sefl_status read_key(sefl_csp *s)
{
    lock_at at = { .set = &s->set };
    sefl_status st = csp_key_read(&s->key, s->set.key, unlock, &at);
    secmem_free(at.mem);
    return st;
}

sefl_status sefl_csp_open(sefl_csp **out, const char *path, const sefl_server_options *options)
{
    SEFL_MAKE(sefl_csp, s, out);
    SEFL_TRY(open_file(&s->file, &s->o, csp_schema, path, options));
    SEFL_TRY(csp_settings_make(&s->set, &s->file.set));
    SEFL_TRY(read_key(s));
    SEFL_TRY(csp_role_new(&s->r, &(csp_role_options){ .settings = &s->set,
                                                      .sec = s->key.sec,
                                                      .root = s->key.root,
                                                      .log = &s->file.log }));
    SEFL_HAND_OVER(out, s, sefl_csp_close);
}

sefl_status sefl_csp_run(sefl_csp *s)
{
    SEFL_NEED(s, SEFL_EINVAL, "the server is NULL");
    return csp_role_run(s->r);
}

void sefl_csp_stop(sefl_csp *s)
{
    if (!s)
        return;
    csp_role_stop(s->r);
}

void sefl_csp_reload(sefl_csp *s)
{
    if (!s)
        return;
    role_file_reload(&s->file);
    csp_role_reload(s->r);
}

unsigned sefl_csp_port(const sefl_csp *s)
{
    return s ? csp_role_port(s->r) : 0;
}

void sefl_csp_close(sefl_csp *s)
{
    if (!s)
        return;
    csp_role_free(s->r);
    csp_key_clear(&s->key);
    role_file_close(&s->file);
    sefl_free(s);
}
