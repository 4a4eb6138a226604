/* Any bytes as a path or a statement: only the bytes of counted_path lead to the root. The first
 * byte selects the client, and whether the rest is XORed onto the true path. */
#include "protocol/counted.h"
#include "support/must.h"

#include <string.h>

enum { CLIENTS = 5, MOST = 13 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static round_entry leaves[CLIENTS];
    static uint8_t root[32], task[32] = { 9 }, seed[COUNTED_SEED] = { 7 };
    static sefl_buf paths[CLIENTS];
    uint8_t bytes[512];
    counted_statement s;
    if (paths[0].n == 0) {
        for (int i = 0; i < CLIENTS; i++)
            leaves[i].client[0] = (uint8_t)(i + 1);
        counted_facts f = { .task = task,
                            .round = 2,
                            .tree_seed = seed,
                            .clients_max = MOST,
                            .leaves = leaves,
                            .n = CLIENTS };
        MUST(counted_root(root, &f) == SEFL_OK);
        counted_tree *t;
        MUST(counted_tree_new(&t, &f) == SEFL_OK);
        for (uint32_t i = 0; i < CLIENTS; i++)
            MUST(counted_tree_path(&paths[i], t, leaves[i].client) == SEFL_OK);
        counted_tree_free(t);
    }
    if (counted_statement_read(&s, span_of(data, size)) == SEFL_OK) {
        counted_statement_write(bytes, &s);
        MUST(size == COUNTED_STATEMENT_BYTES && memcmp(bytes, data, size) == 0);
    }
    if (size == 0 || size - 1 > sizeof bytes)
        return 0;
    unsigned who = (data[0] & 0x7f) % CLIENTS;
    const sefl_buf *path = &paths[who];
    size_t n = size - 1;
    memcpy(bytes, data + 1, n);
    for (size_t i = 0; data[0] & 0x80 && i < n && i < path->n; i++)
        bytes[i] ^= path->p[i];
    sefl_status st =
        counted_check(root, task, 2, counted_depth(MOST), &leaves[who], span_of(bytes, n));
    MUST((st == SEFL_OK) == (n == path->n && memcmp(bytes, path->p, n) == 0));
    return 0;
}
