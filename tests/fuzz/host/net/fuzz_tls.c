/* The stream between the servers, from the first byte to the end: two ends, and somebody between
 * them who changes bytes, holds them back or cuts the line. Input: a byte of settings (which
 * identities and roles, protocol names), the number of changes and for each direction, position u16
 * and XOR; then messages. Without a change the handshake succeeds exactly if both identities are
 * good; both ends that finish have the same binding; what arrives is what was sent. */
#define _GNU_SOURCE
#include "net/tls_inside.h"
#include "support/must.h"
#include "unit/host/net/net_ids.h"

#include "base/span.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES = 6, MESSAGE_MAX = 40000 };

static tls_id *as, *csp, *stranger, *client;

/* Bytes of one direction: from the socket `from` to the socket `to`. */
typedef struct line {
    int from, to;
    uint64_t at;
    struct {
        uint64_t at;
        uint8_t with;
    } change[CHANGES];
    unsigned changes;
    bool changed, cut;
} line;

static uint8_t next(rd *in)
{
    uint8_t b = 0;
    return rd_u8(in, &b) == SEFL_OK ? b : 0;
}

static void pump(line *l)
{
    uint8_t p[16384];
    ssize_t n;
    while ((n = recv(l->from, p, sizeof p, MSG_DONTWAIT)) > 0) {
        for (unsigned i = 0; i < l->changes; i++)
            if (l->change[i].at >= l->at && l->change[i].at < l->at + (uint64_t)n) {
                p[l->change[i].at - l->at] ^= l->change[i].with;
                l->changed = l->changed || l->change[i].with != 0;
            }
        l->at += (uint64_t)n;
        if (!l->cut)
            MUST(send(l->to, p, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n || errno == EPIPE);
    }
}

static void make_ids(void)
{
    static void *state;
    MUST(folder_make_quick(&state) == 0);
    net_ca("ca"), net_ca("other");
    net_cert("as", "aggregator", "localhost", "ca");
    net_cert("csp", "csp", "localhost", "ca");
    net_cert("client", "client", "localhost", "ca");
    net_cert("stranger", "aggregator", "localhost", "other");
    as = net_id("as", "ca"), csp = net_id("csp", "ca"), client = net_id("client", "ca");
    stranger = net_id("stranger", "ca");
}

static void remove_ids(void)
{
    static void *state;
    tls_id_free(as), tls_id_free(csp), tls_id_free(client), tls_id_free(stranger);
    folder_remove(&state);
}

static void open_pair(int fd[2])
{
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
}

/* Sends n bytes one way and reads them at the other end. */
static bool message(tls *from, tls *to, line l[2], size_t n, uint8_t first)
{
    static uint8_t sent[MESSAGE_MAX], got[MESSAGE_MAX];
    for (size_t i = 0; i < n; i++)
        sent[i] = (uint8_t)(first + i);
    if (channel_send(tls_channel(from), sent, n) != SEFL_OK ||
        channel_flush(tls_channel(from)) != SEFL_OK)
        return false;
    pump(&l[0]), pump(&l[1]);
    memset(got, 0, n);
    const sefl_status st = channel_recv(tls_channel(to), got, n);
    MUST(st != SEFL_OK || memcmp(sent, got, n) == 0);
    MUST(st == SEFL_OK || *sefl_last_error());
    return st == SEFL_OK;
}

static void talk(tls *dials, tls *listens, line l[2], rd *in)
{
    for (int i = 0; i < 8 && in->left > 0; i++) {
        const uint8_t b = next(in);
        const size_t n = b & 0x40 ? 300u * (b & 0x3f) : b & 0x3f;
        const bool back = b & 0x80, clean = !l[0].changed && !l[1].changed && !l[0].cut;
        if (b == 0x3f)
            l[0].cut = l[1].cut = true;
        const bool good = message(back ? listens : dials, back ? dials : listens, l, n, b);
        MUST(good || !clean || b == 0x3f || l[0].changed || l[1].changed);
        if (!good)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tls_limits limits = { .connect_ms = 1000, .idle_ms = 5 };
    rd in = rd_over(span_of(data, size));
    int d[2], s[2];
    tls *end[2] = { NULL, NULL };
    bool done[2] = { false, false }, failed[2] = { false, false };
    if (!as) {
        make_ids();
        MUST(atexit(remove_ids) == 0);
    }
    const uint8_t set = next(&in), n = next(&in) % (CHANGES + 1);
    tls_id *const who[] = { as, stranger, client, as };
    const tls_peer wants_csp = { .role = set & 4 ? "aggregator" : "csp",
                                 .protocols = { set & 8 ? "sefl-link" : NULL } };
    const tls_peer wants_as = { .role = "aggregator",
                                .fingerprint = set & 0x40 ? tls_id_fingerprint(csp) : NULL,
                                .protocols = { set & 0x10 ? "sefl-link" : NULL,
                                               set & 0x20 ? "sefl-lane" : NULL } };
    open_pair(d), open_pair(s);
    line l[2] = { { .from = d[1], .to = s[1] }, { .from = s[1], .to = d[1] } };
    for (unsigned i = 0; i < n; i++) {
        line *one = &l[next(&in) & 1];
        const uint64_t low = next(&in), high = next(&in);
        one->change[one->changes].at = low | high << 8;
        one->change[one->changes++].with = next(&in);
    }
    MUST_OK(tls_wrap(&end[0], d[0], false, "localhost", who[set & 3], &wants_csp, &limits));
    MUST_OK(tls_wrap(&end[1], s[0], true, NULL, csp, &wants_as, &limits));
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 2; k++)
            if (!done[k] && !failed[k])
                failed[k] = tls_shake(end[k], &done[k]) != SEFL_OK;
        pump(&l[0]), pump(&l[1]);
    }
    const bool serves = set & 0x10; /* then the first name is the one that is offered */
    const bool names = set & 8 ? serves : !serves;
    const bool good = ((set & 3) == 0 || (set & 3) == 3) && !(set & 4) && names && !(set & 0x40);
    if (!l[0].changed && !l[1].changed && (set & 0x30) != 0x20)
        MUST((done[0] && done[1] && !failed[0] && !failed[1]) == good);
    if (done[0] && done[1] && !failed[0] && !failed[1]) {
        MUST(memcmp(tls_channel(end[0])->binding, tls_channel(end[1])->binding, CHANNEL_BINDING) ==
             0);
        MUST(strcmp(tls_peer_info(end[0])->role, "csp") == 0);
        MUST(strcmp(tls_peer_info(end[1])->role, "aggregator") == 0);
        talk(end[0], end[1], l, &in);
    }
    MUST(!done[1] || failed[1] || (set & 3) == 0 || (set & 3) == 3); /* never a stranger */
    tls_close(end[0]), tls_close(end[1]);
    close(d[1]), close(s[1]);
    return 0;
}
