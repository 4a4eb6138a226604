#include "roles/own_task.h"

#include "base/file.h"
#include "protocol/signed.h"

#include <string.h>

enum { TASK_FILE_MAX = TASK_BYTES_MAX + 4096 };

sefl_status own_task_read(task *t, sefl_buf *envelope_bytes, const char *path, const sign_key *key,
                          own_task_side side)
{
    sefl_status st = SEFL_OK;
    envelope env;
    SEFL_TRY(file_read(envelope_bytes, path, TASK_FILE_MAX));
    SEFL_TRY(envelope_read(&env, buf_span(envelope_bytes)));
    SEFL_TRY(task_read(t, env.content));
    const bool csp = side == OWN_TASK_CSP;
    const uint8_t *named = csp ? t->servers.csp : t->servers.as;
    SEFL_CHECK(memcmp(named, sign_key_pub(key), SIGN_PUB_BYTES) == 0, SEFL_EAUTH,
               "the task names another %s: its key is not our signing key",
               csp ? "CSP" : "aggregation server");
    SEFL_TRY(envelope_check(&env, SIGN_TASK, &t->servers));
done:
    return sefl_at(st, "%s", path);
}
