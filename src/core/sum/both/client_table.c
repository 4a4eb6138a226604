#include "sum/client_table.h"

#include "base/alloc.h"

#include <string.h>

enum { FIRST_ROOM = 64 };

static size_t slot_of(const client_table *t, const uint8_t client[32])
{
    size_t mask = 2 * t->room - 1, at = (size_t)load_u64(client) & mask;
    while (t->slot[at] && memcmp(t->leaf[t->slot[at] - 1].client, client, 32) != 0)
        at = (at + 1) & mask;
    return at;
}

size_t client_table_find(const client_table *t, const uint8_t client[32])
{
    return t->room > 0 ? t->slot[slot_of(t, client)] : 0;
}

static sefl_status grow(client_table *t)
{
    sefl_status st = SEFL_OK;
    size_t room = t->room > 0 ? 2 * t->room : FIRST_ROOM;
    uint32_t *slot = NULL;
    SEFL_CHECK(room <= 1 << 25, SEFL_ERANGE, "too many clients");
    SEFL_TRY(sefl_new(&slot, 2 * room, sizeof *slot));
    SEFL_TRY(sefl_grow(&t->leaf, t->room * sizeof *t->leaf, room * sizeof *t->leaf));
    sefl_free(t->slot);
    t->slot = slot, slot = NULL;
    t->room = room;
    for (size_t i = 0; i < t->n; i++)
        t->slot[slot_of(t, t->leaf[i].client)] = (uint32_t)(i + 1);
done:
    sefl_free(slot);
    return st;
}

sefl_status client_table_put(client_table *t, const uint8_t client[32], const uint8_t units[32],
                             size_t *index)
{
    size_t at = client_table_find(t, client);
    if (at == 0) {
        if (t->n == t->room)
            SEFL_PASS(grow(t));
        memcpy(t->leaf[t->n].client, client, 32);
        at = t->n + 1;
        t->slot[slot_of(t, client)] = (uint32_t)at;
        t->n++;
    }
    memcpy(t->leaf[at - 1].body, units, 32);
    *index = at - 1;
    return SEFL_OK;
}

void client_table_clear(client_table *t)
{
    sefl_free(t->leaf);
    sefl_free(t->slot);
    *t = (client_table){ 0 };
}
