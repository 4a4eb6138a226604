#include "roles/aggregator/tally.h"

#include "base/file.h"
#include "roles/counters.h"

#include <string.h>

static sefl_status write_all(sefl_buf *out, const https_server *s, const agg_http *h)
{
    json j = json_into(out);
    json_open(&j, '{');
    for (unsigned i = 0; i < HTTPS_EVENTS_N; i++)
        counters_put(&j, "", https_event_name(i), https_server_count(s, i));
    counters_put_peers(&j, h->certificates);
    for (unsigned i = 0; i < AGG_HTTP_EVENTS_N; i++)
        counters_put(&j, "", agg_http_event_name(i), atomic_load(&h->counts[i]));
    for (unsigned i = 0; i < INGEST_ENDS; i++)
        counters_put(&j, "upload.", ingest_end_name(i), h->ingest ? ingest_count(h->ingest, i) : 0);
    json_close(&j, '}');
    SEFL_PASS(json_end(&j));
    return wr_u8(out, '\n');
}

sefl_status tally_save(const char *path, sefl_buf *last, const https_server *s, const agg_http *h)
{
    sefl_status st = SEFL_OK;
    sefl_buf now = { 0 };
    SEFL_TRY(write_all(&now, s, h));
    if (now.n == last->n && memcmp(now.p, last->p, now.n) == 0)
        goto done;
    SEFL_TRY(file_write_atomic(path, buf_span(&now), 0640));
    buf_clear(last);
    *last = now, now = (sefl_buf){ 0 };
done:
    buf_clear(&now);
    return st;
}
