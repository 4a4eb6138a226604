/* Replays the records of AS's audits of CSP (verify.h). A record proves itself; the log says that
 * no record was removed or replaced. */
#include "base/file.h"
#include "base/hex.h"
#include "mpc/noise/shares.h"
#include "roles/audit/verify_inside.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>

typedef struct replay {
    verify *v;
    verify_log *l;
    char path[PATH_MAX];
    uint64_t done;
} replay;

/* Compares the file with the entries of its session: AS writes the entry again if it could not
 * store afterwards that the audit is over. False, with a finding, if it is another file. */
static bool is_listed(replay *p, const char *name, sefl_span bytes, const audit_record *r)
{
    char hex[17];
    uint8_t id[AUDIT_ID], named[8], hash[SHA256_BYTES];
    bool same = true, listed = false;
    audit_id(id, r->hello[0], r->hello[1]);
    hex_write(hex, id, sizeof named);
    sha256_of(hash, bytes);
    const size_t n = strlen(name);
    if (n != strlen("audit-0123456789abcdef.bin") ||
        !hex_read_any(named, sizeof named, span_of(name + 6, 16)))
        memset(named, 0, sizeof named);
    for (size_t i = 0; i < p->l->n_audits && same; i++) {
        verify_audit *e = &p->l->audits[i];
        if (e->is_unanswered || memcmp(e->session, named, sizeof named) != 0)
            continue;
        e->found = listed = true;
        same = memcmp(e->record, hash, sizeof hash) == 0;
        if (!same)
            verify_say(p->v, VERIFY_WRONG, p->path,
                       "it was changed: it is not the record that %s names in line %" PRIu64,
                       verify_file_of(p->l, e->line), verify_line_of(e->line));
    }
    if (!same)
        return false;
    if (memcmp(named, id, sizeof named) != 0) {
        verify_say(p->v, VERIFY_WRONG, p->path, "it is the record of the session %s", hex);
        return false;
    }
    if (!listed)
        verify_say(p->v, VERIFY_NOTE, p->path,
                   "no line of %s names it: the server died before it wrote one, or somebody put "
                   "it here",
                   p->l->path);
    return true;
}

static sefl_status replay_one(replay *p, const char *name)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    audit_record r;
    audit_finding found = { 0 };
    if (file_read_plain(&b, p->path, 1 << 20) != SEFL_OK) { /* not a file: the others count */
        verify_failed(p->v, p->path);
        goto done;
    }
    if (audit_record_read(&r, buf_span(&b)) != SEFL_OK) {
        memset(&r, 0, sizeof r);
        if (is_listed(p, name, buf_span(&b), &r))
            verify_failed(p->v, p->path);
        goto done;
    }
    if (!is_listed(p, name, buf_span(&b), &r))
        goto done;
    if (!p->v->has_keys || memcmp(r.csp, p->v->keys.csp, sizeof r.csp) != 0) {
        verify_say(p->v, VERIFY_WRONG, p->path, "it names another CSP's key than the task");
        goto done;
    }
    SEFL_TRY(shares_replay(&found, &r));
    p->done += found.verdict == AUDIT_HONEST;
    if (found.verdict != AUDIT_HONEST)
        verify_say(p->v, VERIFY_WRONG, p->path, "%s: %s",
                   found.verdict == AUDIT_CHEATED ? "CSP cheated" : "it proves nothing", found.why);
done:
    buf_clear(&b);
    return st;
}

/* Entries without a file, and what AS says about CSP. */
static void entries(replay *p)
{
    for (size_t i = 0; i < p->l->n_audits; i++) {
        const verify_audit *e = &p->l->audits[i];
        char hex[17];
        hex_write(hex, e->session, 8);
        if (e->is_unanswered)
            verify_say(p->v, VERIFY_NOTE, verify_file_of(p->l, e->line),
                       "line %" PRIu64 ": CSP did not answer the audit of session %s",
                       verify_line_of(e->line), hex);
        else if (!e->found)
            verify_say(p->v, VERIFY_WRONG, p->path,
                       "audit-%s.bin is missing: %s names it in line %" PRIu64, hex,
                       verify_file_of(p->l, e->line), verify_line_of(e->line));
        if (!e->is_unanswered && !e->is_honest)
            verify_say(p->v, VERIFY_WRONG, verify_file_of(p->l, e->line),
                       "line %" PRIu64 ": AS says that CSP failed the audit of session %s",
                       verify_line_of(e->line), hex);
    }
}

sefl_status verify_audits(verify *v, verify_log *l, const char *folder)
{
    sefl_status st = SEFL_OK;
    replay p = { .v = v, .l = l };
    uint64_t files = 0;
    const size_t before = v->wrong;
    v->told = 0;
    if (l->broken)
        return SEFL_OK;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        const char *end = strrchr(e->d_name, '.');
        if (strncmp(e->d_name, "audit-", 6) != 0 || !end || strcmp(end, ".bin") != 0)
            continue;
        SEFL_TRY(file_path(p.path, "%s/%s", folder, e->d_name));
        SEFL_TRY(replay_one(&p, e->d_name));
        SEFL_CHECK(progress_report(v->c.progress, ++files, 0), SEFL_ECANCELLED, "stopped");
    }
    SEFL_TRY(file_path(p.path, "%s", folder));
    entries(&p);
    if (v->wrong == before && p.done > 0)
        verify_say(v, VERIFY_OK, folder, "%" PRIu64 " audits of CSP replayed: it was honest",
                   p.done);
done:
    if (d)
        closedir(d);
    return st;
}
