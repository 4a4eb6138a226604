#include "base/content.h"

#include <string.h>

static const char *const names[] = { [CONTENT_SHA256] = "sha256", [CONTENT_BLAKE3] = "blake3" };

const char *content_kind_name(content_kind k)
{
    return names[k];
}

bool content_kind_find(content_kind *out, const char *name)
{
    for (unsigned k = 0; k < sizeof names / sizeof names[0]; k++)
        if (strcmp(name, names[k]) == 0) {
            *out = (content_kind)k;
            return true;
        }
    return false;
}

void content_init(content_hash *h, content_kind kind)
{
    h->kind = kind;
    blake3_init(&h->b3);
    sha256_init(&h->sha);
}

void content_add(content_hash *h, sefl_span in)
{
    blake3_add(&h->b3, in);
    if (h->kind == CONTENT_SHA256)
        sha256_add(&h->sha, in);
}

void content_end(content_hash *h, uint8_t name[CONTENT_BYTES], uint8_t content[CONTENT_BYTES])
{
    blake3_end(&h->b3, content);
    sha256_end(&h->sha, name);
    if (h->kind == CONTENT_BLAKE3)
        memcpy(name, content, CONTENT_BYTES);
}
