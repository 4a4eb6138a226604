/* knock: tries every call of both servers with certificates that must be refused. It sends headers
 * that announce a body but never a byte of the body: the refusal must come first.
 *
 *     knock AS-PORT CSP-PORT CA.pem CA.key SCRATCH [NAME=CERT:KEY ...]
 *
 * It creates a foreign certificate, an expired one, one that is not valid yet, one of another role
 * and one that was never enrolled (all but the first issued by CA), and accepts more on the command
 * line (a revoked one). The calls of AS are those of protocol/http.h; those of CSP are the kinds of
 * protocol/link.h. Prints "KIND refused N" for each kind; exits 1 if a call is accepted. */
#include "unit/host/net/net_raw.h"

#include "net/x509.h"
#include "protocol/http.h"
#include "protocol/link.h"

#include <stdlib.h>
#include <time.h>

enum { KINDS_MAX = 16, ROOM = 300 };

static struct kind {
    char name[32], cert[ROOM], key[ROOM];
} kinds[KINDS_MAX];
static unsigned n_kinds;

static int fail(const char *kind, const char *door, const char *what)
{
    fprintf(stderr, "knock: %s at %s: %s\n", kind, door, what);
    return 1;
}

static struct kind *add(const char *scratch, const char *name)
{
    struct kind *k = &kinds[n_kinds++];
    snprintf(k->name, sizeof k->name, "%s", name);
    snprintf(k->cert, sizeof k->cert, "%s/%s.pem", scratch, name);
    snprintf(k->key, sizeof k->key, "%s/%s.key", scratch, name);
    return k;
}

static int make(const char *scratch, const char *ca, const char *ca_key)
{
    char own[2][ROOM];
    int64_t now = (int64_t)time(NULL);
    struct {
        const char *name, *role;
        int64_t from;
        bool foreign;
    } what[] = { { "foreign", "client", 0, true },
                 { "expired", "client", now - 30 * 86400, false },
                 { "early", "client", now + 86400, false },
                 { "role", "csp", 0, false },
                 { "unlisted", "client", 0, false } };
    snprintf(own[0], ROOM, "%s/own-ca.pem", scratch);
    snprintf(own[1], ROOM, "%s/own-ca.key", scratch);
    if (x509_make(own[0], own[1], &(x509_subject){ .name = "elsewhere", .days = 9 }, NULL, NULL) !=
        SEFL_OK)
        return fail("ca", "-", sefl_last_error());
    snprintf(kinds[n_kinds++].name, sizeof kinds->name, "none");
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        const struct kind *k = add(scratch, what[i].name);
        x509_subject s = {
            .name = what[i].name, .role = what[i].role, .days = 9, .from = what[i].from
        };
        if (x509_make(k->cert, k->key, &s, what[i].foreign ? own[0] : ca,
                      what[i].foreign ? own[1] : ca_key) != SEFL_OK)
            return fail(what[i].name, "-", sefl_last_error());
    }
    return 0;
}

static int open_with(raw_tls *c, const struct kind *k, uint16_t port)
{
    return raw_open(c, port, k->cert[0] ? k->cert : NULL, k->key, NULL);
}

/* N is round 1, HASH zeros. */
static void path_of(char out[ROOM], const char *pattern)
{
    size_t n = 0;
    for (const char *p = pattern; *p && n + 80 < ROOM; p++) {
        if (strncmp(p, "HASH", 4) == 0) {
            n += (size_t)snprintf(out + n, ROOM - n, "%064d", 0);
            p += 3;
        } else if (strncmp(p, "/N/", 3) == 0) {
            n += (size_t)snprintf(out + n, ROOM - n, "/1");
            p += 1;
        } else {
            out[n++] = *p;
        }
    }
    out[n] = 0;
}

static int knock_as(const struct kind *k, uint16_t port, const char *method, const char *pattern)
{
    char path[ROOM], text[2 * ROOM], answer[4096];
    raw_tls c;
    path_of(path, pattern);
    if (open_with(&c, k, port) != 0)
        return fail(k->name, path, "no handshake: the answer should be a 403");
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", method,
             path);
    raw_send(&c, text, strlen(text));
    raw_read(&c, answer, sizeof answer, "\r\n\r\n"); /* at most 5 s */
    raw_close(&c);
    if (strncmp(answer, "HTTP/1.1 403 ", 13) != 0)
        return fail(k->name, path, answer[0] ? answer : "no answer before the body");
    return 0;
}

static int knock_csp(const struct kind *k, uint16_t port, uint32_t kind)
{
    uint8_t frame[16] = { 0 };
    char answer[64], door[32];
    raw_tls c;
    store_u32(frame, kind);
    store_u64(frame + 8, 1000); /* a body that never comes */
    snprintf(door, sizeof door, "link %s", link_kind_name(kind));
    size_t n = 0;
    if (open_with(&c, k, port) ==
        0) { /* TLS 1.3: our side finishes before the server has verified us */
        raw_send(&c, frame, sizeof frame);
        n = raw_read(&c, answer, sizeof answer, NULL);
    }
    raw_close(&c);
    return n == 0 ? 0 : fail(k->name, door, "an answer");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *method, *path;
    } doors[] = {
#define DOOR(name, method, path, answer) { method, path },
        HTTP_CALLS(DOOR)
#undef DOOR
            { "GET", "/" },
        { "PUT", "/v1/enroll" },
        { "POST", "/v1/task" },
    };
    if (argc < 6)
        return 2;
    uint16_t as = (uint16_t)atoi(argv[1]), csp = (uint16_t)atoi(argv[2]);
    if (make(argv[5], argv[3], argv[4]) != 0)
        return 1;
    for (int i = 6; i < argc && n_kinds < KINDS_MAX; i++) {
        struct kind *k = &kinds[n_kinds++];
        if (sscanf(argv[i], "%31[^=]=%299[^:]:%299s", k->name, k->cert, k->key) != 3)
            return 2;
    }
    for (unsigned i = 0; i < n_kinds; i++) {
        unsigned n = 0;
        for (size_t d = 0; d < sizeof doors / sizeof *doors; d++) {
            bool open = strcmp(doors[d].path, HTTP_ENROL_PATH) == 0 &&
                        strcmp(doors[d].method, "POST") == 0 && !kinds[i].cert[0];
            if (!open && knock_as(&kinds[i], as, doors[d].method, doors[d].path) != 0)
                return 1;
            n += !open;
        }
        for (uint32_t kind = LINK_HELLO; kind <= LINK_APPROVED; kind++, n++)
            if (knock_csp(&kinds[i], csp, kind) != 0)
                return 1;
        printf("%s refused %u\n", kinds[i].name, n);
    }
    return 0;
}
