#include "paper/loop.h"

#include "base/clock.h"
#include "base/file.h"
#include "net/tls.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { WAIT_MS = 30000 };

/* AS's half of a call, on its own thread. */
typedef struct half {
    loop *l;
    int listener;
    uint8_t *to;
    size_t n;
    sefl_status st;
} half;

static sefl_status make_id(tls_id **out, const char *folder, const char *role)
{
    char ca[PATH_MAX], ca_key[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
    SEFL_PASS(file_path(ca, "%s/loop-ca.pem", folder));
    SEFL_PASS(file_path(ca_key, "%s/loop-ca.key", folder));
    if (!file_exists(ca))
        SEFL_PASS(
            x509_make(ca, ca_key, &(x509_subject){ .name = "loop CA", .days = 1 }, NULL, NULL));
    SEFL_PASS(file_path(cert, "%s/loop-%s.pem", folder, role));
    SEFL_PASS(file_path(key, "%s/loop-%s.key", folder, role));
    const x509_subject s = { .name = role, .role = role, .hosts = "127.0.0.1", .days = 1 };
    SEFL_PASS(x509_make(cert, key, &s, ca, ca_key));
    return tls_id_read(out, cert, key, ca);
}

static void *accept_client(void *arg)
{
    half *h = arg;
    h->st = tls_accept(&h->l->as, h->listener, h->l->as_id, &(tls_peer){ .role = "client" },
                       WAIT_MS, NULL);
    return NULL;
}

static void *receive(void *arg)
{
    half *h = arg;
    channel *ch = tls_channel(h->l->as);
    h->st = channel_recv(ch, h->to, h->n);
    if (h->st == SEFL_OK)
        h->st = channel_send(ch, "1", 1);
    if (h->st == SEFL_OK)
        h->st = channel_flush(ch);
    return NULL;
}

sefl_status loop_open(loop *l, const char *folder)
{
    sefl_status st = SEFL_OK;
    uint16_t port;
    pthread_t thread;
    half h = { .l = l, .listener = -1 };
    *l = (loop){ 0 };
    SEFL_TRY(make_id(&l->as_id, folder, "aggregator"));
    SEFL_TRY(make_id(&l->client_id, folder, "client"));
    SEFL_TRY(tls_listen(&h.listener, "127.0.0.1", 0, &port));
    SEFL_CHECK(pthread_create(&thread, NULL, accept_client, &h) == 0, SEFL_ENOMEM, "no thread");
    st = tls_dial(&l->client, "127.0.0.1", port, l->client_id, &(tls_peer){ .role = "aggregator" },
                  NULL);
    pthread_join(thread, NULL);
    SEFL_TRY(st);
    SEFL_CHECK(h.st == SEFL_OK, h.st, "loopback: the TLS handshake failed");
done:
    if (h.listener >= 0)
        close(h.listener);
    return st;
}

void loop_close(loop *l)
{
    tls_close(l->client);
    tls_close(l->as);
    tls_id_free(l->client_id);
    tls_id_free(l->as_id);
    *l = (loop){ 0 };
}

sefl_status loop_send(loop *l, double *seconds, uint8_t *to, const uint8_t *from, size_t n)
{
    channel *ch = tls_channel(l->client);
    half h = { .l = l, .to = to, .n = n };
    pthread_t thread;
    uint8_t answer;
    SEFL_NEED(pthread_create(&thread, NULL, receive, &h) == 0, SEFL_ENOMEM, "no thread");
    uint64_t began = clock_now_ns();
    sefl_status st = channel_send(ch, from, n);
    if (st == SEFL_OK)
        st = channel_recv(ch, &answer, 1);
    *seconds = clock_since(began);
    if (st != SEFL_OK)
        tls_interrupt(l->as);
    pthread_join(thread, NULL);
    SEFL_PASS(st);
    SEFL_NEED(h.st == SEFL_OK, h.st, "loopback: AS did not receive the upload");
    return SEFL_OK;
}
