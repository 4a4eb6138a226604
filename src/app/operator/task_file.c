#include "operator/task_file.h"

#include "base/file.h"

#include <string.h>

static sefl_status parse(envelope *env, task *t, sefl_span file)
{
    *env = (envelope){ .kind = SIGN_TASK, .content = file };
    if (file.n >= 8 && memcmp(file.p, "SEFLSGN1", 8) == 0)
        SEFL_PASS(envelope_read(env, file));
    SEFL_NEED(env->kind == SIGN_TASK, SEFL_EPROTO, "this is a signed %s, not a task",
              sign_kind_name(env->kind));
    return task_read(t, env->content);
}

sefl_status task_file_load(sefl_buf *file, envelope *env, task *t, const char *path)
{
    SEFL_PASS(file_read(file, path, TASK_FILE_MAX));
    return sefl_at(parse(env, t, buf_span(file)), "%s", path);
}

sefl_status task_file_sign(sefl_buf *out, envelope *env, const task *t, signer who,
                           const sign_key *key)
{
    const uint8_t *named = who == SIGNER_CSP ? t->servers.csp : t->servers.as;
    SEFL_NEED(memcmp(sign_key_pub(key), named, SIGN_PUB_BYTES) == 0, SEFL_EAUTH,
              "the task names another key for the %s than the given one", signer_name(who));
    SEFL_PASS(envelope_sign(env, who, key));
    return envelope_write(out, env);
}
