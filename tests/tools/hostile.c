/* hostile: many malicious clients at once against an aggregation server under test.
 *
 *     hostile --server HOST:PORT --clients DIR --first 9 --last 16 [--ca F --ca-key F --scratch DIR] [--state DIR]
 *             --body-bytes N --count 30 --seconds 10 --seed 1 [--only KIND] [--cipher-bytes N]
 *
 * clients: folders client-NN with cert.pem and key.pem; first to last are its own: enrolled. ca: that of the clients, to make an expired certificate and one of
 * a wrong role in scratch, beside a foreign one. state: AS's state folder, from which bodies of others are taken (an AS that lets its disk be read; clients cannot). Each of
 * `count` threads takes kinds in turn, from its own number on, by the seed, until the time is over or
 * SIGTERM comes. The kind `spoil` comes with --only alone, since it ends tasks: random bytes that are a
 * valid body, for which it needs the size of a Paillier ciphertext.
 * At the end: a line a kind, "KIND tries N", and how it was answered: "status 409 12". The program judges
 * nothing: scripts look at the server's counters, its memory, and the good clients. It uses GnuTLS
 * and sockets alone, so nothing of ours keeps it polite. */
#include "base/sha256.h"
#include "crypto/update_name.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define HOST "Host: x\r\nSefl-Version: 3.0\r\n"

enum { THREADS_MAX = 1000, ANSWER = 4096, PATIENCE_S = 3 };

static struct {
    struct sockaddr_in server;
    const char *clients, *ca, *ca_key, *scratch, *state, *only;
    uint64_t body_bytes, cipher_bytes;
    unsigned first, last, count, seconds;
    uint64_t seed;
} opt = { .count = 30, .seconds = 10, .seed = 1, .body_bytes = 65792, .cipher_bytes = 512 };

static atomic_bool over;
static atomic_uint statuses[1000];

/* Its own certificates: foreign, expired, of another role. */
static struct {
    char cert[512], key[512];
} made[3];

static bool make_certificates(void)
{
    static const struct {
        const char *name, *role;
        int days_ago;
        unsigned days;
    } what[3] = { { "foreign", "client", 0, 5 },
                  { "expired", "client", 30, 5 },
                  { "role", "aggregator", 0, 5 } };
    char ca[512], ca_key[512];
    if (!opt.scratch)
        return true;
    snprintf(ca, sizeof ca, "%s/ca.pem", opt.scratch);
    snprintf(ca_key, sizeof ca_key, "%s/ca.key", opt.scratch);
    if (x509_make(ca, ca_key, &(x509_subject){ .name = "elsewhere", .days = 5 }, NULL, NULL) !=
        SEFL_OK)
        return false;
    for (int i = 0; i < 3; i++) {
        snprintf(made[i].cert, sizeof made[i].cert, "%s/%s.pem", opt.scratch, what[i].name);
        snprintf(made[i].key, sizeof made[i].key, "%s/%s.key", opt.scratch, what[i].name);
        x509_subject who = { .name = what[i].name,
                             .role = what[i].role,
                             .days = what[i].days,
                             .from = what[i].days_ago ? time(NULL) - 86400 * what[i].days_ago : 0 };
        if (x509_make(made[i].cert, made[i].key, &who, i == 0 ? ca : opt.ca,
                      i == 0 ? ca_key : opt.ca_key) != SEFL_OK)
            return false;
    }
    return true;
}

/* ---- one attacker ---------------------------------------------------------------------------- */

typedef struct attacker {
    uint64_t rng;
    unsigned number, kind;
    int fd;
    gnutls_session_t tls;
    gnutls_certificate_credentials_t cred;
    /* what it learned of the task: the size of a body, the open round */
    uint64_t total, round;
} attacker;

static uint64_t next(attacker *a) /* splitmix64 */
{
    uint64_t z = a->rng += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void noise(attacker *a, void *p, size_t n)
{
    uint8_t *at = p;
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)next(a);
}

static void nap(unsigned ms)
{
    for (; ms > 0 && !over; ms -= ms < 50 ? ms : 50)
        nanosleep(&(struct timespec){ .tv_nsec = (ms < 50 ? ms : 50) * 1000000L }, NULL);
}

static void hang_up(attacker *a)
{
    if (a->tls)
        gnutls_deinit(a->tls);
    if (a->cred)
        gnutls_certificate_free_credentials(a->cred);
    if (a->fd >= 0)
        close(a->fd);
    a->tls = NULL, a->cred = NULL, a->fd = -1;
}

/* From its own address, 127.0.X.Y, to simulate many hostile machines. */
static bool dial(attacker *a)
{
    struct sockaddr_in from = { .sin_family = AF_INET };
    struct timeval t = { .tv_sec = PATIENCE_S };
    int one = 1;
    from.sin_addr.s_addr = htonl(0x7f000000u + 0x100 * (1 + a->number % 7) + 2 + a->number % 200);
    hang_up(a);
    a->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (a->fd < 0)
        return false;
    setsockopt(a->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(a->fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(a->fd, (struct sockaddr *)&from, sizeof from) != 0 ||
        connect(a->fd, (struct sockaddr *)&opt.server, sizeof opt.server) != 0) {
        hang_up(a);
        return false;
    }
    return true;
}

static bool shake(attacker *a, const char *cert, const char *key)
{
    int rc;
    if (!dial(a))
        return false;
    gnutls_certificate_allocate_credentials(&a->cred);
    if (cert && gnutls_certificate_set_x509_key_file(a->cred, cert, key, GNUTLS_X509_FMT_PEM) < 0)
        return false;
    /* sends its certificate, whatever CAs the server names */
    gnutls_init(&a->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL | GNUTLS_FORCE_CLIENT_CERT);
    gnutls_priority_set_direct(a->tls, "NORMAL", NULL);
    gnutls_credentials_set(a->tls, GNUTLS_CRD_CERTIFICATE, a->cred);
    gnutls_transport_set_int(a->tls, a->fd);
    gnutls_handshake_set_timeout(a->tls, 1000 * PATIENCE_S);
    do
        rc = gnutls_handshake(a->tls);
    while (rc < 0 && !gnutls_error_is_fatal(rc) && !over);
    return rc == 0;
}

static bool member(attacker *a)
{
    char cert[1024], key[1024];
    unsigned n = opt.first + (unsigned)(next(a) % (opt.last - opt.first + 1));
    snprintf(cert, sizeof cert, "%s/client-%02u/cert.pem", opt.clients, n);
    snprintf(key, sizeof key, "%s/client-%02u/key.pem", opt.clients, n);
    return shake(a, cert, key);
}

static bool put(attacker *a, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0 && !over) {
        ssize_t k = gnutls_record_send(a->tls, at, n);
        if (k <= 0)
            return false;
        at += k, n -= (size_t)k;
    }
    return n == 0;
}

static bool say(attacker *a, const char *text)
{
    return put(a, text, strlen(text));
}

/* The answer's status, counted; 0: none. */
static unsigned listen_to(attacker *a, char answer[ANSWER])
{
    size_t n = 0;
    unsigned status = 0;
    answer[0] = 0;
    while (n + 1 < ANSWER && !over) {
        ssize_t k = gnutls_record_recv(a->tls, answer + n, ANSWER - 1 - n);
        if (k <= 0)
            break;
        n += (size_t)k;
        answer[n] = 0;
        if (strstr(answer, "\r\n\r\n") && strncmp(answer, "HTTP/1.1 100", 12) != 0)
            break;
    }
    if (strncmp(answer, "HTTP/1.1 ", 9) == 0)
        status = (unsigned)strtoul(answer + 9, NULL, 10);
    statuses[status < 1000 ? status : 0]++;
    return status;
}

static unsigned ask(attacker *a, const char *request)
{
    char answer[ANSWER];
    return say(a, request) ? listen_to(a, answer) : 0;
}

/* The open round and the size of bodies, as a member learns them: by asking, and by the 413 that a
 * wrong size gets. */
static bool scout(attacker *a)
{
    char answer[ANSWER];
    if (!member(a) || !say(a, "GET /v1/round HTTP/1.1\r\n" HOST "\r\n"))
        return false;
    listen_to(a, answer);
    for (int i = 0; i < 3 && !strstr(answer, "\"round\":"); i++) { /* the body in another record */
        size_t have = strlen(answer);
        ssize_t k = gnutls_record_recv(a->tls, answer + have, ANSWER - 1 - have);
        if (k <= 0)
            break;
        answer[have + (size_t)k] = 0;
    }
    const char *at = strstr(answer, "\"round\":");
    a->round = at ? strtoull(at + 8, NULL, 10) : 1;
    return true;
}

static unsigned put_head(char *out, size_t room, uint64_t round, const uint8_t hash[32],
                         uint64_t total, uint64_t length)
{
    char hex[65];
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    return (unsigned)snprintf(out, room,
                              "PUT /v1/round/%" PRIu64 "/update/%s HTTP/1.1\r\n" HOST
                              "Sefl-Offset: 0\r\nSefl-Total: %" PRIu64
                              "\r\nContent-Length: %" PRIu64 "\r\n\r\n",
                              round, hex, total, length);
}

/* ---- before TLS ------------------------------------------------------------------------------ */

static void k_silent(attacker *a)
{
    if (dial(a))
        nap(3000 + (unsigned)(next(a) % 5000));
}

static void k_slow_hello(attacker *a)
{
    static const uint8_t hello[] = { 0x16, 0x03, 0x01, 0x01, 0x00, 0x01, 0x00, 0x00, 0xfc, 0x03 };
    if (!dial(a))
        return;
    for (size_t i = 0; i < sizeof hello && !over; i++) {
        if (send(a->fd, hello + i, 1, MSG_NOSIGNAL) != 1)
            return;
        nap(700);
    }
}

static void k_garbage(attacker *a)
{
    uint8_t junk[4096];
    if (!dial(a))
        return;
    for (int i = 0; i < 16; i++) {
        noise(a, junk, sizeof junk);
        if (send(a->fd, junk, 1 + next(a) % sizeof junk, MSG_NOSIGNAL) < 0)
            return;
    }
}

static void k_plain_http(attacker *a)
{
    static const char get[] = "GET /v1/task HTTP/1.1\r\n" HOST "\r\n";
    char answer[64];
    if (dial(a) && send(a->fd, get, sizeof get - 1, MSG_NOSIGNAL) > 0)
        (void)!recv(a->fd, answer, sizeof answer, 0);
}

static void k_cut_handshake(attacker *a)
{
    uint8_t hello[200] = { 0x16, 0x03, 0x01, 0x00, 0xf0, 0x01, 0x00, 0x00, 0xec, 0x03, 0x03 };
    noise(a, hello + 11, 32);
    if (dial(a))
        (void)!send(a->fd, hello, 11 + next(a) % 180, MSG_NOSIGNAL);
}

/* ---- who ------------------------------------------------------------------------------------- */

static void k_no_certificate(attacker *a)
{
    if (shake(a, NULL, NULL))
        ask(a, "GET /v1/task HTTP/1.1\r\n" HOST "\r\n");
}

static void k_foreign(attacker *a)
{
    if (opt.scratch && shake(a, made[0].cert, made[0].key))
        ask(a, "PUT /v1/round/1/update/00 HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
}

static void k_expired(attacker *a)
{
    if (opt.scratch && shake(a, made[1].cert, made[1].key))
        ask(a, "GET /v1/model HTTP/1.1\r\n" HOST "\r\n");
}

static void k_wrong_role(attacker *a)
{
    if (opt.scratch && shake(a, made[2].cert, made[2].key))
        ask(a, "GET /v1/round HTTP/1.1\r\n" HOST "\r\n");
}

static void k_version(attacker *a)
{
    static const char *const versions[] = { "9.0", "1.2", "2.7", "banana", "2", "" };
    char request[200];
    snprintf(request, sizeof request,
             "GET /v1/task HTTP/1.1\r\nHost: x\r\nSefl-Version: %s\r\n\r\n", versions[next(a) % 6]);
    if (member(a))
        ask(a, request);
}

/* ---- inside TLS ------------------------------------------------------------------------------ */

static void k_slow_header(attacker *a)
{
    static const char get[] = "GET /v1/task HTTP/1.1\r\n" HOST "X-Slow: yes\r\n\r\n";
    if (!member(a))
        return;
    for (size_t i = 0; i < sizeof get - 1 && !over; i++) {
        if (!put(a, get + i, 1))
            return;
        nap(600);
    }
}

static void k_garbage_inside(attacker *a)
{
    uint8_t junk[8192];
    char answer[ANSWER];
    noise(a, junk, sizeof junk);
    if (member(a) && put(a, junk, 1 + next(a) % sizeof junk))
        listen_to(a, answer);
}

static void k_bad_http(attacker *a)
{
    static const char *const requests[] = {
        "GET\r\n\r\n",
        "GET /v1/task HTTP/9.9\r\n" HOST "\r\n",
        "GET /v1/task HTTP/1.1\r\nno colon here\r\n\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1//task HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/task HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\nhello",
        "GET /v1/nothing HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/round/18446744073709551616/model HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/round?after=-1&wait=x HTTP/1.1\r\n" HOST "\r\n",
        "GET /v1/round?after=99999999999999999999 HTTP/1.1\r\n" HOST "\r\n",
        "DELETE /v1/model HTTP/1.1\r\n" HOST "\r\n",
        "POST /v1/task HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc",
        "PUT /v1/round/1/update/zz HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc",
        "GET /v1/model HTTP/1.1\r\n" HOST "Range: bytes=5-2,99999999999999999999-\r\n\r\n",
        "GET /v1/task HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n",
        "GET /v1/task HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551615\r\n\r\n",
    };
    enum { N = sizeof requests / sizeof *requests };
    static atomic_uint turn;
    for (int i = 0; i < 5 && !over; i++)
        if (member(a))
            ask(a, requests[turn++ % N]);
}

static void k_huge_header(attacker *a)
{
    char line[1024], answer[ANSWER];
    memset(line, 'a', sizeof line);
    memcpy(line, "X-A: ", 5);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    if (!member(a) || !say(a, "GET /v1/task HTTP/1.1\r\n" HOST))
        return;
    unsigned lines =
        20 + (unsigned)(next(a) % 200); /* below, within and above the parser's limit */
    for (unsigned i = 0; i < lines; i++)
        if (!put(a, line, sizeof line))
            break;
    put(a, "\r\n", 2);
    listen_to(a, answer);
}

static void k_oversized(attacker *a)
{
    uint8_t hash[32] = { 1 };
    char head[512];
    if (!scout(a))
        return;
    uint64_t huge = next(a) % 2 ? UINT64_C(1) << 40 : UINT64_C(9223372036854775807);
    put_head(head, sizeof head, a->round, hash, huge, huge);
    ask(a, head);
}

static void k_chunked(attacker *a)
{
    char block[1032], answer[ANSWER];
    memset(block, 'x', sizeof block);
    memcpy(block, "400\r\n", 5);
    memcpy(block + 5 + 1024, "\r\n", 2);
    static const char head[] =
        "PUT /v1/round/1/update/00000000000000000000000000000000000000000000000000000000000000aa "
        "HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n";
    if (!scout(a) || !say(a, head))
        return;
    for (int i = 0; i < 100; i++)
        if (!put(a, block, 5 + 1024 + 2))
            break;
    listen_to(a, answer);
}

static void k_flood(attacker *a)
{
    if (!member(a))
        return;
    for (int i = 0; i < 200 && !over; i++)
        if (ask(a, "HEAD /v1/task HTTP/1.1\r\n" HOST "\r\n") == 0)
            return;
}

/* ---- updates --------------------------------------------------------------------------------- */

static void put_noise(attacker *a, uint64_t round, uint64_t total, uint64_t send_bytes,
                      unsigned nap_ms)
{
    uint8_t block[1024], hash[32];
    char head[512], answer[ANSWER];
    noise(a, hash, sizeof hash);
    unsigned n = put_head(head, sizeof head, round, hash, total, total);
    if (!put(a, head, n))
        return;
    while (send_bytes > 0 && !over) {
        size_t k = send_bytes < sizeof block ? (size_t)send_bytes : sizeof block;
        if (nap_ms)
            k = k < 16 ? k : 16;
        memset(block, 0, sizeof block);
        if (!nap_ms)
            noise(a, block, k);
        if (!put(a, block, k))
            break;
        send_bytes -= k;
        nap(nap_ms);
    }
    if (!nap_ms)
        listen_to(a, answer);
}

static void k_wrong_round(attacker *a)
{
    static const uint64_t other[] = { 1000000, 0, UINT64_C(18446744073709551615), 1 };
    if (scout(a)) {
        uint64_t r = other[next(a) % 4];
        put_noise(a, r == 1 && a->round == 1 ? 2 : r, opt.body_bytes, 2048, 0);
    }
}

static void k_wrong_size(attacker *a)
{
    if (scout(a))
        put_noise(a, a->round, 1 + next(a) % (opt.body_bytes - 1), 1024, 0);
}

static void k_garbage_body(attacker *a)
{
    if (scout(a))
        put_noise(a, a->round, opt.body_bytes, opt.body_bytes, 0);
}

static void k_truncated(attacker *a)
{
    if (!scout(a))
        return;
    put_noise(a, a->round, opt.body_bytes, 16 * (1 + next(a) % 16), 1);
    if (a->fd >= 0 && next(a) % 2) /* a reset, not an orderly close */
        setsockopt(a->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
}

static void k_slow_body(attacker *a)
{
    if (scout(a))
        put_noise(a, a->round, opt.body_bytes, opt.body_bytes, 500);
}

/* A file of some body in state/task-*\/round-N/bodies/CLIENT/HASH. */
static bool find_body(attacker *a, char path[1024], uint8_t hash[32])
{
    char at[512], command[1200], line[1024];
    (void)a;
    snprintf(at, sizeof at, "%s", opt.state);
    snprintf(
        command, sizeof command,
        "find '%s' -path '*/bodies/*' -type f ! -name '*.part' 2>/dev/null | sort -R | head -1",
        at);
    FILE *f = popen(command, "r");
    if (!f)
        return false;
    bool got = fgets(line, sizeof line, f) != NULL;
    pclose(f);
    if (!got)
        return false;
    line[strcspn(line, "\n")] = 0;
    const char *name = strrchr(line, '/');
    if (!name || strlen(name + 1) != 64)
        return false;
    for (int i = 0; i < 32; i++) {
        char two[3] = { name[1 + 2 * i], name[2 + 2 * i], 0 };
        hash[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    snprintf(path, 1024, "%s", line);
    return true;
}

/* Bodies that were seen: kept, so that they can be sent in a later round too. */
static struct {
    pthread_mutex_t lock;
    uint8_t *bytes;
    uint8_t hash[32];
    size_t n;
    uint64_t round;
} loot = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void send_body(attacker *a, uint64_t round, const uint8_t hash[32], const uint8_t *p,
                      size_t n)
{
    char head[512], answer[ANSWER];
    unsigned k = put_head(head, sizeof head, round, hash, n, n);
    if (put(a, head, k) && put(a, p, n))
        listen_to(a, answer);
}

static void k_replay(attacker *a)
{
    char path[1024];
    uint8_t hash[32], *bytes = NULL;
    struct stat sb;
    if (!opt.state || !find_body(a, path, hash) || !scout(a))
        return;
    nap(300); /* its owner has the receipt by now */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &sb) == 0 && sb.st_size > 0 && sb.st_size < 1 << 26 &&
        (bytes = malloc((size_t)sb.st_size)) != NULL &&
        read(fd, bytes, (size_t)sb.st_size) == sb.st_size) {
        uint8_t sha[32]; /* under another name it is the same */
        sha256_of(sha, span_of(bytes, (size_t)sb.st_size));
        send_body(a, a->round, next(a) % 2 ? hash : sha, bytes, (size_t)sb.st_size);
        pthread_mutex_lock(&loot.lock);
        if (!loot.bytes) {
            loot.bytes = bytes, bytes = NULL;
            loot.n = (size_t)sb.st_size;
            loot.round = a->round;
            memcpy(loot.hash, hash, 32);
        }
        pthread_mutex_unlock(&loot.lock);
    }
    free(bytes);
    close(fd);
}

/* The same ciphertext in a later round, under its own hash and under another. */
static void k_replay_old(attacker *a)
{
    uint8_t hash[32];
    pthread_mutex_lock(&loot.lock);
    bool have = loot.bytes != NULL;
    pthread_mutex_unlock(&loot.lock);
    if (!have || !scout(a) || a->round <= loot.round)
        return;
    memcpy(hash, loot.hash, 32);
    if (next(a) % 2)
        hash[5] ^= 1;
    send_body(a, a->round, hash, loot.bytes, loot.n);
}

/* Gets a receipt for random bytes: each ciphertext is below N^2, since its highest byte is 0 (the
 * lowest too, for either byte order), and the rest of a body may be anything. One per round is
 * enough. */
static void k_spoil(attacker *a)
{
    static atomic_ullong done;
    uint8_t hash[32], *bytes = NULL;
    char head[512], hex[65], answer[ANSWER];
    if (!scout(a) || a->round <= done || (bytes = malloc(opt.body_bytes)) == NULL)
        return;
    noise(a, bytes, opt.body_bytes);
    for (uint64_t i = UPDATE_SALT; i + opt.cipher_bytes <= opt.body_bytes; i += opt.cipher_bytes)
        bytes[i] = bytes[i + opt.cipher_bytes - 1] = 0;
    update_name_of(hash, span_of(bytes, opt.body_bytes));
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    int n =
        snprintf(head, sizeof head,
                 "PUT /v1/round/%" PRIu64 "/update/%s HTTP/1.1\r\n" HOST
                 "Sefl-Offset: 0\r\nSefl-Total: %" PRIu64 "\r\nContent-Length: %" PRIu64 "\r\n\r\n",
                 a->round, hex, opt.body_bytes, opt.body_bytes);
    if (put(a, head, (size_t)n) && put(a, bytes, opt.body_bytes) && listen_to(a, answer) == 200)
        done = a->round;
    free(bytes);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*fn)(attacker *a);
} kinds[] = {
    { "silent", k_silent },
    { "slow_hello", k_slow_hello },
    { "garbage", k_garbage },
    { "plain_http", k_plain_http },
    { "cut_handshake", k_cut_handshake },
    { "no_certificate", k_no_certificate },
    { "foreign", k_foreign },
    { "expired", k_expired },
    { "wrong_role", k_wrong_role },
    { "version", k_version },
    { "slow_header", k_slow_header },
    { "garbage_inside", k_garbage_inside },
    { "bad_http", k_bad_http },
    { "huge_header", k_huge_header },
    { "oversized", k_oversized },
    { "chunked", k_chunked },
    { "flood", k_flood },
    { "wrong_round", k_wrong_round },
    { "wrong_size", k_wrong_size },
    { "garbage_body", k_garbage_body },
    { "truncated", k_truncated },
    { "slow_body", k_slow_body },
    { "replay", k_replay },
    { "replay_old", k_replay_old },
    { "spoil", k_spoil },
};
enum { KINDS = sizeof kinds / sizeof *kinds, USUAL = KINDS - 1 };
static atomic_uint tries[KINDS];

static void *attack(void *arg)
{
    attacker *a = arg;
    while (!over) {
        unsigned k = a->kind++ % KINDS;
        if (opt.only ? strcmp(kinds[k].name, opt.only) != 0 : k >= USUAL)
            continue;
        tries[k]++;
        kinds[k].fn(a);
        hang_up(a);
        nap(20 + (unsigned)(next(a) % 80));
    }
    return NULL;
}

static void on_term(int sig)
{
    (void)sig;
    over = true;
}

static bool parse(int argc, char **argv)
{
    static const struct option longopts[] = {
        { "server", 1, NULL, 's' },
        { "clients", 1, NULL, 'c' },
        { "first", 1, NULL, 'f' },
        { "last", 1, NULL, 'g' },
        { "ca", 1, NULL, 'a' },
        { "ca-key", 1, NULL, 'b' },
        { "scratch", 1, NULL, 'r' },
        { "state", 1, NULL, 'd' },
        { "body-bytes", 1, NULL, 'l' },
        { "count", 1, NULL, 'n' },
        { "seconds", 1, NULL, 't' },
        { "seed", 1, NULL, 'x' },
        { "only", 1, NULL, 'y' },
        { "cipher-bytes", 1, NULL, 'z' },
        { 0 },
    };
    const char *texts[128] = { NULL };
    char host[64] = "";
    unsigned port = 0;
    for (int c; (c = getopt_long(argc, argv, "", longopts, NULL)) != -1;) {
        if (c <= 0 || c == '?' || c >= 128)
            return false;
        texts[c] = optarg;
    }
    if (texts['s'])
        sscanf(texts['s'], "%63[^:]:%u", host, &port);
    opt.clients = texts['c'];
    opt.first = texts['f'] ? (unsigned)strtoul(texts['f'], NULL, 10) : 1;
    opt.last = texts['g'] ? (unsigned)strtoul(texts['g'], NULL, 10) : opt.first;
    opt.ca = texts['a'], opt.ca_key = texts['b'];
    opt.scratch = texts['r'], opt.state = texts['d'], opt.only = texts['y'];
    opt.body_bytes = texts['l'] ? strtoull(texts['l'], NULL, 10) : opt.body_bytes;
    opt.cipher_bytes = texts['z'] ? strtoull(texts['z'], NULL, 10) : opt.cipher_bytes;
    opt.count = texts['n'] ? (unsigned)strtoul(texts['n'], NULL, 10) : opt.count;
    opt.seconds = texts['t'] ? (unsigned)strtoul(texts['t'], NULL, 10) : opt.seconds;
    opt.seed = texts['x'] ? strtoull(texts['x'], NULL, 10) : opt.seed;
    opt.server.sin_family = AF_INET;
    opt.server.sin_port = htons((uint16_t)port);
    return port > 0 && inet_pton(AF_INET, host, &opt.server.sin_addr) == 1 && opt.clients &&
           opt.last >= opt.first && opt.count > 0 && opt.count <= THREADS_MAX &&
           opt.body_bytes > 1 && opt.cipher_bytes > 1 && (!opt.scratch || (opt.ca && opt.ca_key));
}

int main(int argc, char **argv)
{
    static attacker all[THREADS_MAX];
    static pthread_t threads[THREADS_MAX];
    pthread_attr_t attr;
    unsigned running = 0;
    if (!parse(argc, argv)) {
        fprintf(stderr,
                "usage: hostile --server HOST:PORT --cert F --key F ... (see the source)\n");
        return 2;
    }
    if (!make_certificates()) {
        fprintf(stderr, "hostile: %s\n", sefl_last_error());
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, on_term);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 << 10);
    for (unsigned i = 0; i < opt.count; i++) {
        all[i] = (attacker){ .rng = opt.seed * 1000003 + i, .number = i, .kind = i, .fd = -1 };
        if (pthread_create(&threads[i], &attr, attack, &all[i]) == 0)
            running++;
        else
            break;
    }
    for (unsigned s = 0; s < 10 * opt.seconds && !over; s++)
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    over = true;
    for (unsigned i = 0; i < running; i++)
        pthread_join(threads[i], NULL);
    free(loot.bytes);
    for (unsigned k = 0; k < (opt.only ? KINDS : USUAL); k++)
        printf("%s tries %u\n", kinds[k].name, tries[k]);
    for (unsigned i = 0; i < 1000; i++)
        if (statuses[i])
            printf("status %u %u\n", i, statuses[i]);
    return running == opt.count ? 0 : 1;
}
