#include "roles/aggregator/integers.h"

#include "base/file.h"

#include <inttypes.h>
#include <string.h>

enum { HEADER = 8 + TASK_ID + 8 + 4 + 8 + 1 };
static const char magic[8] = { 'S', 'E', 'F', 'L', 'I', 'N', 'T', '1' };

static uint64_t fold(int64_t v)
{
    return v < 0 ? ~((uint64_t)v << 1) : (uint64_t)v << 1;
}

static int64_t unfold(uint64_t u)
{
    uint64_t half = u >> 1;
    return (u & 1) ? -(int64_t)half - 1 : (int64_t)half;
}

static size_t packed_bytes(size_t n, unsigned bits)
{
    return n / 8 * bits + (n % 8 * bits + 7) / 8;
}

/* Writes the low `bits` bits of u into zeroed bytes, from bit *at on. */
static void put_bits(uint8_t *p, size_t *at, uint64_t u, unsigned bits)
{
    for (unsigned done = 0; done < bits;) {
        const unsigned in = *at % 8, room = 8 - in, n = bits - done < room ? bits - done : room;
        p[*at / 8] |= (uint8_t)((u >> done & ((1u << n) - 1)) << in);
        done += n, *at += n;
    }
}

static uint64_t get_bits(const uint8_t *p, size_t *at, unsigned bits)
{
    uint64_t u = 0;
    for (unsigned done = 0; done < bits;) {
        const unsigned in = *at % 8, room = 8 - in, n = bits - done < room ? bits - done : room;
        u |= (uint64_t)(p[*at / 8] >> in & ((1u << n) - 1)) << done;
        done += n, *at += n;
    }
    return u;
}

static unsigned width_of(const int64_t *w, size_t n)
{
    uint64_t all = 1;
    unsigned bits = 0;
    for (size_t i = 0; i < n; i++)
        all |= fold(w[i]);
    for (; all > 0; all >>= 1)
        bits++;
    return bits;
}

sefl_status integers_write(const char *path, const task *t, uint64_t round, uint32_t clients,
                           const int64_t *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    const unsigned bits = width_of(w, t->values);
    const size_t bytes = packed_bytes(t->values, bits);
    uint8_t *p, hash[SHA256_BYTES];
    size_t at = 0;
    SEFL_TRY(buf_reserve(&b, HEADER + bytes + SHA256_BYTES));
    SEFL_TRY(wr_raw(&b, magic, sizeof magic));
    SEFL_TRY(wr_raw(&b, t->id, sizeof t->id));
    SEFL_TRY(wr_u64(&b, round));
    SEFL_TRY(wr_u32(&b, t->publish_count ? clients : 0));
    SEFL_TRY(wr_u64(&b, t->values));
    SEFL_TRY(wr_u8(&b, (uint8_t)bits));
    SEFL_TRY(buf_extend(&b, &p, bytes));
    memset(p, 0, bytes);
    for (size_t i = 0; i < t->values; i++)
        put_bits(p, &at, fold(w[i]), bits);
    sha256_of(hash, buf_span(&b));
    SEFL_TRY(wr_raw(&b, hash, sizeof hash));
    SEFL_TRY(file_write_atomic(path, buf_span(&b), 0600));
done:
    buf_clear(&b);
    return st;
}

sefl_status integers_read_over(sefl_span bytes, const uint8_t of_task[TASK_ID], uint64_t round,
                               uint32_t *clients, int64_t *w, size_t values)
{
    uint8_t hash[SHA256_BYTES], bits, id[TASK_ID];
    uint64_t of, n;
    size_t at = 0;
    rd r = rd_over(bytes);
    SEFL_PASS(rd_expect(&r, magic, sizeof magic, "released integers"));
    SEFL_PASS(rd_raw(&r, id, sizeof id));
    SEFL_PASS(rd_u64(&r, &of));
    SEFL_PASS(rd_u32(&r, clients));
    SEFL_PASS(rd_u64(&r, &n));
    SEFL_PASS(rd_u8(&r, &bits));
    SEFL_NEED(memcmp(id, of_task, sizeof id) == 0 && n == values, SEFL_EPROTO,
              "it belongs to another task");
    SEFL_NEED(of == round, SEFL_EPROTO, "it belongs to round %" PRIu64 ", not %" PRIu64, of, round);
    SEFL_NEED(bits >= 1 && bits <= 64 && r.left >= SHA256_BYTES &&
                  r.left - SHA256_BYTES == packed_bytes(values, bits),
              SEFL_EPROTO, "its length does not fit %zu values of %u bits", values, bits);
    sha256_of(hash, span_of(bytes.p, bytes.n - SHA256_BYTES));
    SEFL_NEED(memcmp(hash, bytes.p + bytes.n - SHA256_BYTES, SHA256_BYTES) == 0, SEFL_EPROTO,
              "it was changed");
    for (size_t i = 0; i < values; i++)
        w[i] = unfold(get_bits(r.p, &at, bits));
    return SEFL_OK;
}

sefl_status integers_read(const char *path, const task *t, uint64_t round, uint32_t *clients,
                          int64_t *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(file_read_plain(&b, path, HEADER + 8 * t->values + SHA256_BYTES));
    SEFL_TRY(
        sefl_at(integers_read_over(buf_span(&b), t->id, round, clients, w, t->values), "%s", path));
done:
    buf_clear(&b);
    return st;
}
