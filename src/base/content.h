/* content: what the bytes of a body are called, and which bytes they are.
 *
 * A sender calls a body by a hash of it: BLAKE3, or SHA-256 if its program is of a version that knew
 * no other (protocol/version.h). Whatever it is called, its content is the BLAKE3 hash: the same bytes
 * under another name are known by that.
 *
 *     content_hash h;
 *     content_init(&h, CONTENT_SHA256);
 *     content_add(&h, piece);
 *     content_end(&h, name, content);            // equal for CONTENT_BLAKE3; h is wiped
 *
 * Threads: one owner.   Secrets: none are promised here (ciphertexts); see sha256.h, blake3.h. */
#ifndef BASE_CONTENT_H
#define BASE_CONTENT_H

#include "base/blake3.h"
#include "base/sha256.h"

#include <stdbool.h>

enum { CONTENT_BYTES = 32 };

typedef enum content_kind { CONTENT_SHA256, CONTENT_BLAKE3 } content_kind;

/* "sha256", "blake3". */
const char *content_kind_name(content_kind k);
/* False: no such name. */
bool content_kind_find(content_kind *out, const char *name);

typedef struct content_hash {
    content_kind kind;
    sha256 sha; /* CONTENT_SHA256 alone */
    blake3 b3;
} content_hash;

void content_init(content_hash *h, content_kind kind);
void content_add(content_hash *h, sefl_span in);
void content_end(content_hash *h, uint8_t name[CONTENT_BYTES], uint8_t content[CONTENT_BYTES]);

#endif
