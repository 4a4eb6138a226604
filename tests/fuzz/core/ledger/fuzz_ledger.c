/* An arbitrary ledger file: refused or read, never a crash. An input that begins with 'R' is a list
 * of record bodies (a length byte, then the body), for which the harness computes a correct hash
 * chain, so that the parsers after the chain are reached too. Totals take milliseconds, so only
 * some inputs compute them (fuzz/some.h). */
#define _GNU_SOURCE /* memfd_create */
#include "base/buf.h"
#include "base/file.h"
#include "base/sha256.h"
#include "fuzz/some.h"
#include "store/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static sefl_status chain(sefl_buf *out, rd *r)
{
    sefl_status st = SEFL_OK;
    uint8_t prev[SHA256_BYTES];
    sha256_of(prev, span_of_str("SEFLLDG4"));
    SEFL_TRY(wr_raw(out, "SEFLLDG4", 8));
    while (rd_left(r) > 1) {
        uint8_t n, len[8];
        sefl_span body;
        sha256 h;
        SEFL_TRY(rd_u8(r, &n));
        SEFL_TRY(rd_view(r, &body, n < rd_left(r) ? n : rd_left(r)));
        store_u32(len, (uint32_t)body.n);
        store_u32(len + 4, ~(uint32_t)body.n);
        sha256_init(&h);
        sha256_add(&h, span_of(prev, sizeof prev));
        sha256_add(&h, span_of(len, 4));
        sha256_add(&h, body);
        sha256_end(&h, prev);
        SEFL_TRY(wr_raw(out, len, sizeof len));
        SEFL_TRY(wr_raw(out, body.p, body.n));
        SEFL_TRY(wr_raw(out, prev, sizeof prev));
    }
done:
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    sefl_buf built = { 0 };
    sefl_span file = span_of(data, size);
    if (fd < 0) {
        fd = memfd_create("ledger", 0); /* no disk, no name to clean up */
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (size > 0 && data[0] == 'R') {
        rd r = rd_over(span_of(data + 1, size - 1));
        if (chain(&built, &r) != SEFL_OK)
            abort();
        file = buf_span(&built);
    }
    ledger *l = NULL;
    if (fd < 0 || ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        file_write_all(fd, file) != SEFL_OK)
        abort();
    if (ledger_open_read(&l, path) == SEFL_OK) {
        ledger_total total;
        ledger_head head;
        ledger_get_head(l, &head);
        if (ledger_compare(l, &head) != LEDGER_SAME)
            abort();
        if (some(data, size, 64) && ledger_spent(l, 0, &total) == SEFL_OK && total.server.claimed &&
            !(total.server.epsilon >= 0))
            abort();
        ledger_close(l);
    }
    buf_clear(&built);
    return 0;
}
