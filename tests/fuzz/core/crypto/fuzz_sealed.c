/* sealed_peek on any bytes: what it accepts is inside the file and within the bounds, and does not
 * open under a key that was never used. */
#include "crypto/sealed.h"

#include "base/alloc.h"
#include "support/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(sefl_span s, const uint8_t *data, size_t size)
{
    MUST(s.n == 0 || (s.p >= data && s.n <= size && s.p + s.n <= data + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sealed_info info;
    uint8_t key[32] = { 0 }, *out = NULL;
    if (sealed_peek(&info, span_of(data, size)) != SEFL_OK) {
        MUST(info.body.n == 0);
        return 0;
    }
    inside(info.label, data, size);
    inside(info.body, data, size);
    inside(info.header, data, size);
    MUST(info.header.n + info.body.n == size && info.bytes + SEALED_TAG_BYTES == info.body.n);
    MUST(info.cost.kib <= SEALED_KIB_MAX && info.cost.passes <= SEALED_PASSES_MAX);
    if (sefl_new(&out, info.bytes, 1) == SEFL_OK)
        MUST(sealed_open_derived(out, &info, key) == SEFL_EAUTH);
    sefl_free(out);
    return 0;
}
