/* The header of a request, as libmicrohttpd splits it: lines METHOD, PATH, Transfer-Encoding,
 * Content-Length, bytes of the header, maximum bytes of a body; "-" is an absent field. Each
 * verdict must match a plain reading that shares no line with the code: it collects everything that
 * is wrong, and the answer is the first error in the manual's order. */
#include "net/https_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { METHOD, PATH, CODING, LENGTH, BYTES, MOST, FIELDS };
static const char open_path[] = "/v1/enroll";

static void must(int ok)
{
    if (!ok)
        abort();
}

/* ---- a plain reading of strings ---- */

static int ref_number(const char *s, unsigned long long *v)
{
    size_t digits = strspn(s, "0123456789");
    if (digits == 0 || digits > 19 || s[digits])
        return 0;
    *v = strtoull(s, NULL, 10);
    return 1;
}

static int ref_path(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~";
    return strncmp(s, "/", 1) == 0 && strlen(s) <= 1024 && s[strspn(s, letters)] == 0 &&
           !strstr(s, "..") && !strstr(s, "//");
}

typedef struct wrong {
    int is;
    unsigned status;
    https_event event;
} wrong;

/* ---- the code under test ---- */

/* A copy without a terminator, so that a read past the end is detected. */
static uint8_t *exact(const char *s)
{
    size_t n = s ? strlen(s) : 0;
    uint8_t *p = s ? malloc(n ? n : 1) : NULL;
    must(!s || p);
    if (n)
        memcpy(p, s, n);
    return p;
}

static sefl_span span_over(const uint8_t *p, const char *s)
{
    return span_of(p, s ? strlen(s) : 0);
}

static void try_number(const char *s, sefl_span text)
{
    unsigned long long want = 0;
    uint64_t got = 77;
    int good = ref_number(s, &want);
    must(https_number_read(&got, text) == good);
    must(got == (good ? want : 77));
}

static void try_head(char *const field[FIELDS], const https_said *h, uint64_t most)
{
    unsigned long long n = 0;
    int number = field[LENGTH] && ref_number(field[LENGTH], &n);
    const wrong all[] = {
        { h->bytes > 32768, 431, HTTPS_EVENT_HEADERS },
        { !ref_path(field[PATH]), 400, HTTPS_EVENT_PATH },
        { field[CODING] != NULL, 411, HTTPS_EVENT_LENGTH },
        { field[LENGTH] && !number, 400, HTTPS_EVENT_LENGTH },
        { number && n > most, 413, HTTPS_EVENT_TOO_LARGE },
    };
    const wrong *first = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all && !first; i++)
        first = all[i].is ? &all[i] : NULL;
    https_refusal no = { .status = 77 };
    uint64_t body = 77;
    must(https_said_check(&no, &body, h, most) == !first);
    if (first) {
        must(body == 77 && no.status == first->status && no.event == first->event);
        must(memchr(no.why, 0, sizeof no.why) && no.why[0] && !strpbrk(no.why, "\r\n"));
    } else {
        must(body == n && no.status == 77);
    }
}

/* The input's lines. False: it has fewer. */
static bool split(char *text, char *field[FIELDS])
{
    for (int i = 0; i < FIELDS; i++) {
        field[i] = text;
        if (!text)
            return false;
        text = strchr(text, '\n');
        if (text)
            *text++ = 0;
    }
    for (int i = CODING; i <= LENGTH; i++)
        if (strcmp(field[i], "-") == 0)
            field[i] = NULL;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[2048], *field[FIELDS];
    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (!split(text, field))
        return 0;
    uint8_t *path = exact(field[PATH]), *coding = exact(field[CODING]),
            *length = exact(field[LENGTH]);
    const https_said h = { .bytes = strtoull(field[BYTES], NULL, 10),
                           .path = span_over(path, field[PATH]),
                           .coding = span_over(coding, field[CODING]),
                           .length = span_over(length, field[LENGTH]) };
    must(https_path_check(h.path) == ref_path(field[PATH]));
    if (field[LENGTH])
        try_number(field[LENGTH], h.length);
    try_head(field, &h, strtoull(field[MOST], NULL, 10));
    /* open is one spelling, and no other than a good path */
    bool open = https_is_open(field[METHOD], field[PATH], open_path);
    must(open ==
         (strncmp(field[METHOD], "POST", 5) == 0 && strncmp(field[PATH], open_path, 11) == 0));
    must(!open || https_path_check(h.path));
    must(!https_is_open(field[METHOD], field[PATH], NULL));
    free(path);
    free(coding);
    free(length);
    return 0;
}
