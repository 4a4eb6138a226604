#include "roles/counters.h"

#include "base/file.h"
#include "base/json.h"

_Static_assert((int)COUNT_PEER_NOT_LISTED - (int)COUNT_PEER_NONE ==
                       (int)X509_NOT_LISTED - (int)X509_NONE &&
                   (int)X509_VERDICTS == (int)X509_NOT_LISTED + 1,
               "every verdict has a counter, in the same order");

const char *counter_key(counter c)
{
    static const char *const keys[COUNTERS] = {
#define COUNTER_KEY(name, key) key,
        COUNTER_LIST(COUNTER_KEY)
#undef COUNTER_KEY
    };
    return (unsigned)c < COUNTERS ? keys[c] : "?";
}

void counters_add(counters *c, counter which)
{
    atomic_fetch_add(&c->n[which], 1);
    atomic_store(&c->changed, true);
}

void counters_peer(counters *c, x509_verdict_code code)
{
    if (code > X509_OK && code < X509_VERDICTS)
        counters_add(c, (counter)(COUNT_PEER_NONE + (int)code - (int)X509_NONE));
}

sefl_status counters_write(counters *c, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    if (!atomic_exchange(&c->changed, false))
        return SEFL_OK;
    json j = json_into(&b);
    json_open(&j, '{');
    for (counter i = 0; i < COUNTERS; i++)
        json_key(&j, counter_key(i)), json_u64(&j, atomic_load(&c->n[i]));
    json_close(&j, '}');
    SEFL_TRY(json_end(&j));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0644));
done:
    if (st != SEFL_OK)
        atomic_store(&c->changed, true);
    buf_clear(&b);
    return st;
}
