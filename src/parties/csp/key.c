#include "roles/csp/key.h"

#include "base/file.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"

sefl_status csp_key_read(csp_key *out, const char *path, csp_key_unlock *unlock, void *ctx)
{
    sefl_status st = SEFL_OK;
    csp_key k = { 0 };
    sefl_buf file = { 0 };
    keyfile_info info;
    sealed_lock lock;
    *out = k;
    SEFL_TRY(file_read(&file, path, KEYFILE_BYTES_MAX));
    SEFL_TRY(keyfile_info_read(&info, buf_span(&file)));
    SEFL_CHECK(info.secret, SEFL_EINVAL, "this is a public key; CSP needs the secret key");
    SEFL_TRY(unlock(ctx, &lock, info.by));
    if (info.kind == KEYFILE_ROOT) {
        SEFL_TRY(secmem_new(&k.root, KEYFILE_ROOT_BYTES, NULL));
        SEFL_TRY(keyfile_root_read(k.root, buf_span(&file), &lock));
    } else {
        SEFL_TRY(keyfile_sec_read(&k.sec, buf_span(&file), &lock, NULL));
    }
    *out = k, k = (csp_key){ 0 };
done:
    csp_key_clear(&k);
    buf_clear(&file);
    return sefl_at(st, "%s", path);
}

void csp_key_clear(csp_key *k)
{
    paillier_sec_free(k->sec);
    secmem_free(k->root);
    *k = (csp_key){ 0 };
}
