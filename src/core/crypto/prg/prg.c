#include "crypto/prg/prg.h"

#include "base/ct.h"
#include "base/sha256.h"

#include <string.h>

void prg_init(prg *g, const uint8_t seed[PRG_SEED], const char *name)
{
    uint8_t digest[SHA256_BYTES];
    sha256_join(digest, span_of_str("sefl prg 1"), span_of(seed, PRG_SEED), span_of_str(name));
    aes128_init(&g->key, digest);
    prg_at(g, 0, 0);
    sefl_wipe(digest, sizeof digest);
}

void prg_clear(prg *g)
{
    sefl_wipe(g, sizeof *g);
}

void prg_at(prg *g, uint64_t stream, uint64_t pos)
{
    g->stream = stream;
    g->pos = pos;
}

void prg_read(const prg *g, void *out, size_t n, uint64_t stream, uint64_t pos)
{
    uint8_t *p = out;
    size_t skip = pos % AES_BLOCK;
    uint64_t block = pos / AES_BLOCK;
    if (skip > 0 && n > 0) { /* the rest of a block that was begun */
        uint8_t first[AES_BLOCK];
        size_t take = AES_BLOCK - skip < n ? AES_BLOCK - skip : n;
        aes128_ctr(&g->key, first, AES_BLOCK, stream, block);
        memcpy(p, first + skip, take);
        sefl_wipe(first, sizeof first);
        p += take;
        n -= take;
        block++;
    }
    if (n > 0)
        aes128_ctr(&g->key, p, n, stream, block);
}

void prg_fill(prg *g, void *out, size_t n)
{
    prg_read(g, out, n, g->stream, g->pos);
    g->pos += n;
}

static sefl_status fill(void *self, void *out, size_t n)
{
    prg_fill(self, out, n);
    return SEFL_OK;
}

sefl_rng prg_rng(prg *g)
{
    return (sefl_rng){ .fill = fill, .self = g };
}
