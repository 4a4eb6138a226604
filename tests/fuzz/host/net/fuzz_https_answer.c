/* What a client says about the file it wants: Range, If-Range, If-None-Match, one line each. The
 * part that is sent is inside the file and matches a plain reading of the range. */
#include "base/alloc.h"
#include "net/https_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_BYTES = 1000 };
static const char *line[3];

static void must(int ok)
{
    if (!ok)
        abort();
}

const char *https_header(const https_request *r, const char *name)
{
    (void)r;
    return strcmp(name, "Range") == 0           ? line[0]
           : strcmp(name, "If-Range") == 0      ? line[1]
           : strcmp(name, "If-None-Match") == 0 ? line[2]
                                                : NULL;
}

static const char *file(void)
{
    static char path[256];
    static const char zeros[FILE_BYTES];
    if (!path[0]) {
        const char *tmp = getenv("TMPDIR");
        int n = snprintf(path, sizeof path, "%s/sefl-fuzz-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        must(n > 0 && (size_t)n < sizeof path);
        int fd = mkstemp(path);
        must(fd >= 0 && write(fd, zeros, FILE_BYTES) == FILE_BYTES);
        close(fd);
    }
    return path;
}

static void gone(void)
{
    unlink(file());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool once;
    https_conn conn = { 0 };
    https_inner in = { .conn = &conn, .fd = -1 };
    char *text, *p;
    unsigned long a, b;
    char rest;
    if (!once)
        once = atexit(gone) == 0;
    if (size > 2000 || sefl_new(&text, size + 1, 1) != SEFL_OK)
        return 0;
    memcpy(text, data, size);
    p = text;
    for (int i = 0; i < 3; i++) {
        line[i] = p && *p ? p : NULL;
        p = p ? strchr(p, '\n') : NULL;
        if (p)
            *p++ = 0;
    }
    in.r.inner = &in;
    https_answer_file(&in.r, file(), "text/plain", "abc");
    must(in.status == 200 || in.status == 206 || in.status == 304 || in.status == 416);
    if (in.status == 200)
        must(in.file_at == 0 && in.file_n == FILE_BYTES);
    if (in.status == 206)
        must(in.file_n > 0 && in.file_at < FILE_BYTES && in.file_n <= FILE_BYTES - in.file_at);
    if (in.status == 304)
        must(line[2] && (strstr(line[2], "\"abc\"") || strcmp(line[2], "*") == 0));
    if (in.status == 206 && sscanf(line[0], "bytes=%9lu-%9lu%c", &a, &b, &rest) == 2)
        must(in.file_at == a && in.file_n == (b < FILE_BYTES ? b : FILE_BYTES - 1) - a + 1);
    https_answer_clear(&in);
    sefl_free(text);
    return 0;
}
