#include "model/corpus/lines.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 18 };

sefl_status lines_open(line_reader *in, const char *path)
{
    *in = (line_reader){ .path = path, .fd = -1 };
    SEFL_PASS(file_open(&in->fd, &in->size, path, true));
    in->is_open = true;
    return SEFL_OK;
}

void lines_over(line_reader *in, sefl_span bytes, const char *name)
{
    *in =
        (line_reader){ .path = name, .fd = -1, .memory = bytes, .size = bytes.n, .is_open = true };
    in->eof = true;
}

/* Returns the bytes that are not consumed yet. */
static sefl_span rest(const line_reader *in)
{
    sefl_span s = in->fd < 0 ? in->memory : buf_span(&in->window);
    return s.n > in->at ? span_of(s.p + in->at, s.n - in->at) : span_of("", 0);
}

/* Appends more bytes to the window. */
static sefl_status fill(line_reader *in)
{
    uint8_t *to;
    if (in->at > 0) {
        memmove(in->window.p, in->window.p + in->at, in->window.n - in->at);
        in->window.n -= in->at;
        in->at = 0;
    }
    SEFL_NEED(in->window.n <= LINES_MAX, SEFL_ERANGE, "%s:%llu: line has more than %d bytes",
              in->path, (unsigned long long)in->line + 1, LINES_MAX);
    size_t used = in->window.n, want = used > WINDOW ? used : WINDOW; /* doubles for long lines */
    SEFL_PASS(buf_extend(&in->window, &to, want));
    in->window.n = used;
    for (;;) {
        ssize_t got = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(in->fd, to, want);
        if (got < 0 && errno == EINTR)
            continue;
        SEFL_NEED(got >= 0, SEFL_EIO, "cannot read %s: %s", in->path, strerror(errno));
        in->window.n += (size_t)got;
        in->eof = got == 0;
        break;
    }
    return SEFL_OK;
}

sefl_status lines_next(line_reader *in, sefl_span *text, bool *more)
{
    size_t seen = 0;
    const uint8_t *end = NULL;
    sefl_span s = rest(in);
    *text = span_of("", 0);
    *more = false;
    for (;;) {
        if (seen < s.n && (end = memchr(s.p + seen, '\n', s.n - seen)) != NULL)
            break;
        seen = s.n;
        if (in->eof)
            break;
        SEFL_PASS(fill(in));
        s = rest(in);
    }
    if (s.n == 0)
        return SEFL_OK;
    size_t n = end ? (size_t)(end - s.p) : s.n, taken = n + (end != NULL);
    SEFL_NEED(n <= LINES_MAX, SEFL_ERANGE, "%s:%llu: line has more than %d bytes", in->path,
              (unsigned long long)in->line + 1, LINES_MAX);
    in->had_end = end != NULL;
    in->at += taken;
    in->bytes += taken;
    in->line++;
    if (end && n > 0 && s.p[n - 1] == '\r')
        n--;
    if (in->line == 1 && n >= 3 && memcmp(s.p, "\xef\xbb\xbf", 3) == 0)
        s.p += 3, n -= 3;
    size_t good = utf8_good(span_of(s.p, n));
    SEFL_NEED(good == n || s.p[good] != 0, SEFL_EPROTO,
              "%s:%llu: byte %zu is NUL: this is not a text file", in->path,
              (unsigned long long)in->line, good + 1);
    SEFL_NEED(good == n, SEFL_EPROTO,
              "%s:%llu: byte %zu (0x%02x) is not UTF-8: convert the file (iconv does)", in->path,
              (unsigned long long)in->line, good + 1, s.p[good]);
    *text = span_of(s.p, n);
    *more = true;
    return SEFL_OK;
}

void lines_close(line_reader *in)
{
    if (in->is_open && in->fd >= 0)
        close(in->fd);
    buf_clear(&in->window);
    *in = (line_reader){ .fd = -1 };
}
