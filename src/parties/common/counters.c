#include "roles/counters.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

void counters_put(json *j, const char *group, const char *name, uint64_t n)
{
    char key[80];
    snprintf(key, sizeof key, "%s%s", group, name);
    for (char *p = key; *p; p++)
        if (*p == ' ')
            *p = '_';
    json_key(j, key), json_u64(j, n);
}

void counters_put_peers(json *j, const _Atomic uint64_t certificates[X509_VERDICTS])
{
    for (unsigned i = X509_OK + 1; i < X509_VERDICTS; i++)
        counters_put(j, "certificate.", x509_verdict_text(i), atomic_load(&certificates[i]));
}

void counters_add(counters *c, counter which)
{
    atomic_fetch_add(&c->n[which], 1);
    atomic_store(&c->changed, true);
}

void counters_peer(counters *c, x509_verdict_code code)
{
    atomic_fetch_add(&c->certificates[code], 1);
    atomic_store(&c->changed, true);
}

static const char *const names[] = { COUNTER_LIST(SEFL_TEXT) };

void counters_show(prom *p, monitor_id id, const char *label, const counters *c, const char *prefix)
{
    monitor_family(p, id);
    for (unsigned i = 0; i < COUNTERS; i++)
        if (strncmp(names[i], prefix, strlen(prefix)) == 0)
            monitor_sample(p, label, names[i] + strlen(prefix), atomic_load(&c->n[i]));
}

sefl_status counters_write(counters *c, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    if (!atomic_exchange(&c->changed, false))
        return SEFL_OK;
    json j = json_into(&b);
    json_open(&j, '{');
    counters_put_peers(&j, c->certificates);
    for (unsigned i = 0; i < COUNTERS; i++)
        counters_put(&j, "", names[i], atomic_load(&c->n[i]));
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
