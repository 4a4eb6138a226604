/* Any bytes as AS's receipt for a body, and as its proof that an update was counted: never
 * accepted, since the keys of this task sign nothing. protocol.round and protocol.counted cover
 * what comes after the signatures. */
#include "roles/client/net.h"
#include "roles/client/proof.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const task t = { .clients_max = 1000 };
    static const uint8_t me[32];
    const client_body body = { 0 };
    if (client_receipt_check(&t, span_of(data, size), 1, me, &body) == SEFL_OK ||
        client_counted_check(&t, span_of(data, size), 1, me, body.hash) == SEFL_OK)
        abort();
    return 0;
}
