/* The interface of a round's files, wherever they are: names, encryption, the lock. */
#include "base/ct.h"
#include "base/file.h"
#include "store/journal/journal_inside.h"
#include "store/journal/roundkey.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { NAME_LONGEST = 64 };
#define SECRET_MAX ((size_t)1 << 30)

static sefl_status check_name(uint64_t round, const char *name)
{
    size_t n = strlen(name);
    bool ok = n >= 1 && n <= NAME_LONGEST && name[0] != '.';
    for (size_t i = 0; ok && i < n; i++)
        ok = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
    ok = ok && strcmp(name, "key") != 0 && strncmp(name, "key.tmp-", 8) != 0;
    SEFL_NEED(ok, SEFL_EINVAL, "\"%s\" is not a name for a round's file", name);
    SEFL_NEED(round <= INT64_MAX, SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    return SEFL_OK;
}

static sefl_status unlocked(journal *j, sefl_status st)
{
    pthread_mutex_unlock(&j->files);
    return st;
}
#define LOCKED(j, call) (pthread_mutex_lock(&(j)->files), unlocked((j), (call)))

static sefl_status secret_put(journal *j, uint64_t round, round_part part, const char *name,
                              sefl_span bytes, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t key[ROUNDKEY_BYTES] = { 0 };
    sefl_buf sealed = { 0 };
    SEFL_CHECK(bytes.n <= SECRET_MAX / 2, SEFL_ERANGE, "%s: %zu bytes are too many", name, bytes.n);
    SEFL_TRY(check_name(round, name));
    SEFL_TRY(j->f->key(j, round, part, key, rng));
    SEFL_TRY(roundkey_seal(&sealed, key, &(roundkey_place){ j->task, round, name }, bytes, rng));
    SEFL_TRY(j->f->put(j, round, part, name, buf_span(&sealed)));
done:
    sefl_wipe(key, sizeof key);
    buf_clear(&sealed);
    return st;
}

static sefl_status secret_get(journal *j, uint64_t round, round_part part, const char *name,
                              sefl_buf *out)
{
    sefl_status st = SEFL_OK;
    uint8_t key[ROUNDKEY_BYTES] = { 0 };
    sefl_buf sealed = { 0 };
    SEFL_TRY(check_name(round, name));
    SEFL_TRY(j->f->get(j, round, part, name, &sealed));
    st = j->f->key(j, round, part, key, NULL);
    if (st == SEFL_ENOTFOUND)
        st = sefl_fail(SEFL_ECRYPTO, "%s of round %" PRIu64 ": the round's key is gone", name,
                       round);
    if (st == SEFL_OK)
        st = roundkey_open(out, key, &(roundkey_place){ j->task, round, name }, buf_span(&sealed));
done:
    sefl_wipe(key, sizeof key);
    buf_clear(&sealed);
    return st;
}

sefl_status journal_secret_put(journal *j, uint64_t round, const char *name, sefl_span bytes,
                               const sefl_rng *rng)
{
    return LOCKED(j, secret_put(j, round, ROUND_FILES, name, bytes, rng));
}

sefl_status journal_secret_get(journal *j, uint64_t round, const char *name, sefl_buf *out)
{
    return LOCKED(j, secret_get(j, round, ROUND_FILES, name, out));
}

sefl_status journal_file_put(journal *j, uint64_t round, const char *name, sefl_span bytes)
{
    SEFL_PASS(check_name(round, name));
    SEFL_NEED(bytes.n <= SECRET_MAX, SEFL_ERANGE, "%s: %zu bytes are too many", name, bytes.n);
    return LOCKED(j, j->f->put(j, round, ROUND_FILES, name, bytes));
}

sefl_status journal_file_get(journal *j, uint64_t round, const char *name, sefl_buf *out)
{
    SEFL_PASS(check_name(round, name));
    return LOCKED(j, j->f->get(j, round, ROUND_FILES, name, out));
}

static sefl_status path_of(journal *j, sefl_buf *out, uint64_t round, const char *name)
{
    char folder[PATH_MAX], path[PATH_MAX];
    SEFL_PASS(folder_make_round(j, folder, round));
    SEFL_PASS(file_path(path, "%s/%s", folder, name));
    SEFL_PASS(wr_raw(out, path, strlen(path) + 1));
    out->n--;
    return SEFL_OK;
}

sefl_status journal_path(journal *j, sefl_buf *out, uint64_t round, const char *name)
{
    SEFL_PASS(check_name(round, name));
    return LOCKED(j, path_of(j, out, round, name));
}

sefl_status journal_round_wipe(journal *j, uint64_t round)
{
    SEFL_NEED(round <= INT64_MAX, SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    return LOCKED(j, j->f->wipe(j, round));
}

/* ---- a secret that outlives its round -------------------------------------------------------- */

static const char kept[] = "kept";

sefl_status journal_past_put(journal *j, uint64_t round, sefl_span bytes, const sefl_rng *rng)
{
    return LOCKED(j, secret_put(j, round, ROUND_PAST, kept, bytes, rng));
}

sefl_status journal_past_get(journal *j, uint64_t round, sefl_buf *out)
{
    return LOCKED(j, secret_get(j, round, ROUND_PAST, kept, out));
}

sefl_status journal_past_keep(journal *j, uint64_t from, uint64_t to)
{
    return LOCKED(j, j->f->past_keep(j, from, to));
}

/* ---- CSP: the bytes of a round's sealing key ------------------------------------------------- */

sefl_status journal_kem_put(journal *j, uint64_t round, const uint8_t bytes[JOURNAL_KEM])
{
    SEFL_NEED(!roundkey_is_zero(bytes), SEFL_EINVAL, "a round key must not be all zeros");
    SEFL_NEED(round <= INT64_MAX, SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    return LOCKED(j, j->f->kem_put(j, round, bytes));
}

sefl_status journal_kem_get(journal *j, uint64_t round, uint8_t bytes[JOURNAL_KEM])
{
    memset(bytes, 0, JOURNAL_KEM);
    SEFL_NEED(round <= INT64_MAX, SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    sefl_status st = LOCKED(j, j->f->kem_get(j, round, bytes));
    return st == SEFL_ECRYPTO ? SEFL_ENOTFOUND : st;
}

sefl_status journal_kem_wipe(journal *j, uint64_t round)
{
    SEFL_NEED(round <= INT64_MAX, SEFL_ERANGE, "round %" PRIu64 " is too high", round);
    return LOCKED(j, j->f->kem_put(j, round, NULL));
}

sefl_status journal_seed_put(journal *j, unsigned lane, const uint8_t id[32],
                             const uint8_t secret[32])
{
    SEFL_NEED(!roundkey_is_zero(secret), SEFL_EINVAL, "a session's secret must not be all zeros");
    return LOCKED(j, folder_seed_put(j, lane, id, secret));
}

sefl_status journal_seed_get(journal *j, unsigned lane, const uint8_t id[32], uint8_t secret[32])
{
    return LOCKED(j, folder_seed_get(j, lane, id, secret));
}

sefl_status journal_seed_wipe(journal *j, unsigned lane, const uint8_t id[32])
{
    return LOCKED(j, folder_seed_wipe(j, lane, id));
}

sefl_status journal_kem_sweep(journal *j, kem_keep_fn *keep, void *ctx)
{
    return j->f->kem_sweep(j, keep, ctx);
}
