/* The readers of key files on any bytes. An accepted public key is written back as exactly the same
 * bytes. */
#include "crypto/keyfile.h"
#include "fuzz/primorial.h"
#include "support/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const sealed_lock lock = { SEALED_BY_PASSPHRASE, { (const uint8_t *)"wrong", 5 } };
    keyfile_info info;
    paillier_sec *sec = NULL;
    paillier_pub *pub = NULL;
    sefl_buf b = { 0 };
    uint8_t root[KEYFILE_ROOT_BYTES];
    sefl_status st = keyfile_info_read(&info, span_of(data, size));
    if (st != SEFL_OK)
        MUST(info.bits == 0);
    else
        MUST(info.kind == KEYFILE_ROOT ? info.bits == 256 : paillier_bits_ok(info.bits));
    if (keyfile_pub_read(&pub, span_of(data, size)) == SEFL_OK) {
        MUST(st == SEFL_OK && !info.secret);
        MUST(keyfile_pub_write(&b, pub) == SEFL_OK);
        MUST(b.n == size && memcmp(b.p, data, size) == 0);
    }
    /* opening can take seconds: only the cheapest files are tried */
    if (st == SEFL_OK && info.secret && info.cost.kib <= 2048 && info.cost.passes == 1)
        MUST(keyfile_sec_read(&sec, span_of(data, size), &lock, NULL) != SEFL_OK &&
             keyfile_root_read(root, span_of(data, size), &lock) != SEFL_OK);
    MUST(!sec);
    paillier_pub_free(pub);
    buf_clear(&b);
    return 0;
}
