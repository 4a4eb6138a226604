/* proxy: a small HTTP CONNECT proxy on loopback, like a hospital's, for tests.
 *
 *     proxy --ready FILE [--user NAME:PASSWORD] [--only HOST:PORT] [--flood SECONDS]
 *
 * Writes "127.0.0.1:PORT" to FILE, then one line per request to stdout: "CONNECT host:port 200". It
 * relays bytes without interpreting them. --user: others get 407. --only: others get 403. --flood:
 * everybody gets 407 with a body that does not end, for so long. Anything but CONNECT gets
 * 405. A thread a connection, at most 256. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 8192, PIECE = 65536 };

static const char *only;
static unsigned flood_s;
static char credentials[512]; /* base64 of user:password; empty: none wanted */

static void base64(char *out, const char *in)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = strlen(in);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)(uint8_t)in[i] << 16;
        v |= i + 1 < n ? (uint32_t)(uint8_t)in[i + 1] << 8 : 0;
        v |= i + 2 < n ? (uint32_t)(uint8_t)in[i + 2] : 0;
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[v & 63] : '=';
    }
    *out = 0;
}

static bool send_all(int fd, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        at += k, n -= (size_t)k;
    }
    return true;
}

static void relay(int a, int b)
{
    static _Thread_local char piece[PIECE];
    struct pollfd p[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };
    while (poll(p, 2, 120000) > 0)
        for (int i = 0; i < 2; i++)
            if (p[i].revents) {
                ssize_t n = recv(p[i].fd, piece, sizeof piece, 0);
                if (n <= 0 || !send_all(p[1 - i].fd, piece, (size_t)n))
                    return;
            }
}

static int dial(char *target)
{
    struct addrinfo *found = NULL, hints = { .ai_socktype = SOCK_STREAM };
    char *colon = strrchr(target, ':');
    int fd = -1;
    if (!colon)
        return -1;
    *colon = 0;
    if (getaddrinfo(target, colon + 1, &hints, &found) == 0 && found) {
        fd = socket(found->ai_family, SOCK_STREAM, 0);
        if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
        freeaddrinfo(found);
    }
    *colon = ':';
    return fd;
}

static void flood(int fd)
{
    static const char bytes[PIECE];
    const char *head = "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\n"
                       "Content-Length: 99999999999\r\n\r\n";
    time_t until = time(NULL) + flood_s;
    bool heard = send_all(fd, head, strlen(head));
    while (heard && time(NULL) < until)
        heard = send_all(fd, bytes, sizeof bytes);
}

static void *serve(void *arg)
{
    int client = (int)(intptr_t)arg, server = -1;
    char head[HEAD] = "", method[16] = "", target[300] = "", want[600];
    size_t n = 0;
    unsigned status = 400;
    while (n + 1 < sizeof head && !strstr(head, "\r\n\r\n")) {
        ssize_t k = recv(client, head + n, sizeof head - 1 - n, 0);
        if (k <= 0)
            break;
        n += (size_t)k;
        head[n] = 0;
    }
    snprintf(want, sizeof want, "Proxy-Authorization: Basic %s\r\n", credentials);
    if (sscanf(head, "%15s %299s HTTP/1.", method, target) != 2)
        status = 400;
    else if (strcmp(method, "CONNECT") != 0)
        status = 405;
    else if (flood_s || (credentials[0] && !strstr(head, want)))
        status = 407;
    else if (only && strcmp(target, only) != 0)
        status = 403;
    else if ((server = dial(target)) < 0)
        status = 502;
    else
        status = 200;
    printf("%s %s %u\n", method, target, status);
    fflush(stdout);
    if (flood_s) {
        flood(client);
        close(client);
        return NULL;
    }
    int k = snprintf(head, sizeof head, "HTTP/1.1 %u %s\r\n%s\r\n", status,
                     status == 200 ? "Connection established" : "No",
                     status == 407 ? "Proxy-Authenticate: Basic realm=\"x\"\r\n" : "");
    if (send_all(client, head, (size_t)k) && status == 200)
        relay(client, server);
    if (server >= 0)
        close(server);
    close(client);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    const char *ready = NULL;
    char tmp[1024];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--ready") == 0)
            ready = argv[i + 1];
        else if (strcmp(argv[i], "--user") == 0 && strlen(argv[i + 1]) < 300)
            base64(credentials, argv[i + 1]);
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else if (strcmp(argv[i], "--flood") == 0)
            flood_s = (unsigned)atoi(argv[i + 1]);
        else
            return 2;
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (!ready || fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return 1;
    snprintf(tmp, sizeof tmp, "%s.tmp", ready);
    FILE *f = fopen(tmp, "w");
    if (!f || fprintf(f, "127.0.0.1:%u\n", ntohs(a.sin_port)) < 0 || fclose(f) != 0 ||
        rename(tmp, ready) != 0)
        return 1;
    for (;;) {
        int c = accept(fd, NULL, NULL);
        pthread_t t;
        if (c < 0)
            continue;
        if (pthread_create(&t, NULL, serve, (void *)(intptr_t)c) == 0)
            pthread_detach(t);
        else
            close(c);
    }
}
