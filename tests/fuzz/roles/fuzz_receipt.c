/* Any bytes as AS's receipt for a body: never one, since the keys of this task sign nothing. */
#include "roles/client_net.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const task t;
    static const uint8_t client[32];
    const client_body body = { 0 };
    if (client_receipt_check(&t, span_of(data, size), 1, client, &body) == SEFL_OK)
        abort();
    return 0;
}
