#include "roles/aggregator/metrics.h"

#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

static sefl_status line_of(sefl_buf *out, const rounds_report *r)
{
    json j = json_into(out);
    json_open(&j, '{');
    json_key(&j, "round"), json_u64(&j, r->round);
    json_key(&j, "skipped"), json_bool(&j, r->skipped);
    if (r->blocked)
        json_key(&j, "blocked"), json_bool(&j, true);
    if (r->has_clients) {
        json_key(&j, "clients"), json_u64(&j, r->clients);
        if (r->refused > 0)
            json_key(&j, "refused"), json_u64(&j, r->refused);
        json_key(&j, "up_bytes"), json_u64(&j, r->up_bytes);
    }
    json_key(&j, "seconds"), json_real(&j, r->seconds);
    if (!r->skipped) {
        json_key(&j, "ahead_seconds"), json_real(&j, r->ahead_seconds);
        json_key(&j, "ahead_bytes"), json_u64(&j, r->ahead_bytes);
        json_key(&j, "open_bytes"), json_u64(&j, r->open_bytes);
        json_key(&j, "open_seconds"), json_real(&j, r->open_seconds);
        json_key(&j, "release_seconds"), json_real(&j, r->release_seconds);
    }
    if (r->has_perplexity)
        json_key(&j, "perplexity"), json_real(&j, r->perplexity);
    if (r->has_epsilon) {
        json_key(&j, "epsilon_server"), json_real(&j, r->epsilon_server);
        json_key(&j, "epsilon_others"), json_real(&j, r->epsilon_others);
        json_key(&j, "epsilon_target"), json_real(&j, r->epsilon_target);
    }
    json_close(&j, '}');
    sefl_status st = json_end(&j);
    return st == SEFL_OK ? wr_u8(out, '\n') : st;
}

/* Does the last whole line speak of this round? *end: where it ends; a torn line behind it goes. */
static sefl_status look_back(int fd, const char *path, uint64_t round, bool *there, off_t *end)
{
    sefl_status st = SEFL_OK;
    char tail[2 * LINE_MAX_BYTES + 1], want[40];
    struct stat sb;
    *there = false, *end = 0;
    SEFL_CHECK(fstat(fd, &sb) == 0, SEFL_EIO, "%s: %s", path, strerror(errno));
    off_t from = sb.st_size > 2 * LINE_MAX_BYTES ? sb.st_size - 2 * LINE_MAX_BYTES : 0;
    ssize_t n = pread(fd, tail, sizeof tail - 1, from);
    SEFL_CHECK(n >= 0, SEFL_EIO, "cannot read %s: %s", path, strerror(errno));
    while (n > 0 && tail[n - 1] != '\n')
        n--;
    *end = from + n;
    if (n == 0)
        goto done;
    tail[n - 1] = 0;
    const char *line = strrchr(tail, '\n');
    line = line ? line + 1 : tail;
    snprintf(want, sizeof want, "{\"round\":%" PRIu64 ",", round);
    *there = strncmp(line, want, strlen(want)) == 0;
done:
    return st;
}

sefl_status metrics_append(const char *path, const rounds_report *r)
{
    sefl_status st = SEFL_OK;
    sefl_buf line = { .max = LINE_MAX_BYTES };
    bool there;
    off_t end;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot open %s: %s", path, strerror(errno));
    SEFL_TRY(line_of(&line, r));
    SEFL_TRY(look_back(fd, path, r->round, &there, &end));
    if (there)
        goto done;
    SEFL_CHECK(ftruncate(fd, end) == 0 && lseek(fd, end, SEEK_SET) == end, SEFL_EIO, "%s: %s", path,
               strerror(errno));
    SEFL_TRY(file_write_all(fd, buf_span(&line)));
done:
    if (fd >= 0)
        close(fd);
    buf_clear(&line);
    return st;
}
