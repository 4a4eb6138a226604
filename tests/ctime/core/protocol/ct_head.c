/* Making and opening a head: no branch and no address depends on the seed or the keys, whether the
 * head opens or not. */
#include "base/ct.h"
#include "protocol/head.h"

#include <stdio.h>
#include <string.h>

static int try_suite(const char *name)
{
    sefl_rng rng = rng_system();
    const seal_suite *s = seal_suite_named(name);
    seal_key *key = NULL;
    sign_key *upload = NULL;
    uint8_t of_key[SEAL_SEED] = { 3 }, seed[HEAD_SEED] = { 5 }, got[HEAD_SEED];
    uint8_t bytes[HEAD_MAX], task[32] = { 1 }, client[32] = { 2 }, units[32] = { 4 };
    head_facts f = { .suite = s, .task = task, .round = 7, .client = client, .units = units };
    head h;
    CT_SECRET(of_key, sizeof of_key);
    CT_SECRET(seed, sizeof seed);
    int ok = sign_key_new(&upload, &rng) == SEFL_OK && seal_key_from(&key, s, of_key) == SEFL_OK &&
             head_make(bytes, &f, seal_key_pub(key), seed, upload, &rng) == SEFL_OK &&
             head_read(&h, s, span_of(bytes, head_bytes(s))) == SEFL_OK &&
             head_check(&h, task, 7, sign_key_pub(upload)) == SEFL_OK &&
             head_open(got, &h, key, task, 7) == SEFL_OK;
    ok = ok && head_open(got, &h, key, task, 8) == SEFL_EAUTH;
    bytes[HEAD_PREFIX] ^= 1;
    ok = ok && head_open(got, &h, key, task, 7) == SEFL_EAUTH;
    seal_key_free(key);
    sign_key_free(upload);
    if (!ok)
        printf("%s failed: %s\n", name, sefl_last_error());
    return ok;
}

int main(void)
{
    return try_suite("x25519") && try_suite("xwing") ? 0 : 1;
}
