#include "operator/secret.h"

#include "base/ct.h"
#include "base/file.h"
#include "crypto/keyfile.h"

#include <unistd.h>

enum { LOCK_BYTES = 32 };

sefl_status secret_new(const char *key, const char *lock, const paillier_sec *pair)
{
    static const sealed_cost cost = { .passes = 1, .kib = 8192 };
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    uint8_t bytes[LOCK_BYTES], root[KEYFILE_ROOT_BYTES];
    const sealed_lock l = { .by = SEALED_BY_KEY_FILE, .secret = span_of(bytes, sizeof bytes) };
    sefl_buf file = { 0 };
    bool locked = false;
    SEFL_TRY(rng_fill(&rng, bytes, sizeof bytes));
    SEFL_TRY(rng_fill(&rng, root, sizeof root));
    SEFL_TRY(pair ? keyfile_sec_write(&file, pair, &l, &cost, &rng)
                  : keyfile_root_write(&file, root, &l, &cost, &rng));
    SEFL_TRY(file_write_new(lock, span_of(bytes, sizeof bytes), 0600));
    locked = true;
    SEFL_TRY(file_write_new(key, buf_span(&file), 0600));
done:
    if (st != SEFL_OK && locked)
        (void)unlink(lock);
    sefl_wipe(bytes, sizeof bytes);
    sefl_wipe(root, sizeof root);
    buf_clear(&file);
    return st;
}
