#include "roles/aggregator/tally.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static sefl_status add(sefl_buf *out, const char *group, const char *name, uint64_t n)
{
    char word[64];
    snprintf(word, sizeof word, "%s", name);
    for (char *p = word; *p; p++) /* verdicts are sentences */
        if (*p == ' ' || *p == '"' || *p == '\\')
            *p = '_';
    return wr_fmt(out, "%s\"%s%s\":%" PRIu64, out->n > 1 ? "," : "", group, word, n);
}

sefl_status tally_write(sefl_buf *out, const https_server *s, const agg_http *h)
{
    SEFL_PASS(wr_fmt(out, "{"));
    for (unsigned i = 0; i < HTTPS_EVENTS_N; i++)
        SEFL_PASS(add(out, "", https_event_name(i), https_server_count(s, i)));
    for (unsigned i = X509_OK + 1; i < X509_VERDICTS; i++)
        SEFL_PASS(add(out, "certificate.", x509_verdict_text(i), atomic_load(&h->certificates[i])));
    for (unsigned i = 0; i < AGG_HTTP_EVENTS_N; i++)
        SEFL_PASS(add(out, "", agg_http_event_name(i), atomic_load(&h->counts[i])));
    for (unsigned i = 0; i < INGEST_ENDS; i++)
        SEFL_PASS(add(out, "upload.", ingest_end_name(i), ingest_count(h->ingest, i)));
    return wr_fmt(out, "}\n");
}

sefl_status tally_save(const char *path, sefl_buf *last, const https_server *s, const agg_http *h)
{
    sefl_status st = SEFL_OK;
    sefl_buf now = { 0 };
    SEFL_TRY(tally_write(&now, s, h));
    if (now.n == last->n && memcmp(now.p, last->p, now.n) == 0)
        goto done;
    SEFL_TRY(file_write_atomic(path, buf_span(&now), 0640));
    buf_clear(last);
    *last = now, now = (sefl_buf){ 0 };
done:
    buf_clear(&now);
    return st;
}
