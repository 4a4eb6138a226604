/* Known answer: with seeded coins every byte both servers send to make noise shares is fixed, on every path
 * of every primitive, and so are the shares, CSP's reply and AS's result. The digests were printed by this
 * program (SEFL_PRINT_DIGESTS=1). Those of the bytes pin the wire format: a change of them is a change of
 * the protocol and wants a new hello version. Those of shares and result pin what never travels.
 *
 * Run without arguments the program runs itself again with SEFL_CPU narrowed, so that the portable
 * and the AVX2 paths must give the same bytes. */
#include "support/check.h"

#include "base/cpu.h"
#include "base/sha256.h"
#include "mpc/noise/online.h"
#include "mpc/noise/shares.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N = 300, SIDES = 2 };

/* A channel that hashes what is sent. */
typedef struct hashed {
    channel inner;
    sha256 h;
} hashed;

static sefl_status hashed_send(void *self, const void *p, size_t n)
{
    hashed *x = self;
    sha256_add(&x->h, span_of(p, n));
    return channel_send(&x->inner, p, n);
}

static sefl_status hashed_recv(void *self, void *p, size_t n)
{
    return channel_recv(&((hashed *)self)->inner, p, n);
}

static sefl_status hashed_flush(void *self)
{
    return channel_flush(&((hashed *)self)->inner);
}

static const channel_ops hashed_ops = { hashed_send, hashed_recv, hashed_flush };

typedef struct end {
    hashed wire;
    shares_params p;
    uint64_t x[N];
    bool garbles;
} end;

static void *run_end(void *arg)
{
    end *e = arg;
    channel ch = { .ops = &hashed_ops, .self = &e->wire };
    seeded gen;
    shares_result made;
    seeded_init(&gen, 2024, e->garbles ? "CSP" : "AS");
    sefl_rng rng = seeded_rng(&gen);
    CHECK_OK(e->garbles ? shares_garble(&made, e->x, &ch, &e->p, &rng)
                        : shares_evaluate(&made, e->x, &ch, &e->p, &rng));
    return NULL;
}

static void digest_numbers(uint8_t out[SHA256_BYTES], const uint64_t *x)
{
    uint8_t raw[8 * N];
    for (size_t i = 0; i < N; i++)
        store_u64(raw + 8 * i, x[i]);
    sha256_of(out, span_of(raw, sizeof raw));
}

static sefl_status add_share(void *ctx, int64_t *e, size_t first, size_t n)
{
    memcpy(e, (const uint64_t *)ctx + first, n * sizeof *e);
    return SEFL_OK;
}

static void transcript_is_known(void **state)
{
    (void)state;
    static const struct {
        unsigned ot_k;
        const char *digest[6]; /* bytes of AS, of CSP; shares of AS, of CSP; reply; w */
    } known[] = {
        { 4,
          { "5d3ed5e956ea84e8939d6bb6e0bc2678f9f80441026e7aee03460d1870b82014",
            "1c64fd39be70522e629de51c3d5ad564d3ae81bf6760691f56cf18952f360ca6",
            "ba5554a16cdd8e4df0f226c73bb4773ac478a1d48191dd7be1e9740b53a3cb4e",
            "982b2c503e6b591f8f168110d0219639d91c3ffcdc214e015435da934ae6976c",
            "86e927aae8eed4e8ed69c9bdedaf732b50a626d2864d909448c3aaab00becfa0",
            "28c4435dcd2124834b1d2da94a6032f7fbbabe24ae4e6997afd3c90f4345e6ff" } },
        { 1,
          { "285f6bc4e7342012e4e8035a86aa49b513d52968e8b2c77ae3f3eaca8038caf1",
            "9c4f6ba5cf3b9e35dca745664fa5a101c0552104ee8194afecf42d326f746af2",
            "52711a30e94e43adbe8ceb0f145dff40058369b0557e4b02960cba4cdc4b3a4a",
            "3cc084dc2f6a24f164f87dc4383aab534550074428eadc87ef3137278ade53ab",
            "9fd185e2db5ca9b869abf7527fac844cb3cb24a5735c8bd3e3bee20eeedd302e",
            "93e68d145a01c6b9dd78dca05271e433416e9d394a07f1799a81e594c67719df" } },
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        static end e[SIDES]; /* AS, CSP */
        uint8_t digest[6][SHA256_BYTES];
        pthread_t thread;
        memset(e, 0, sizeof e);
        CHECK_OK(channel_pair_new(&e[0].wire.inner, &e[1].wire.inner, 60000));
        for (int i = 0; i < SIDES; i++) {
            e[i].garbles = i;
            e[i].p = (shares_params){
                .pair = { 1, 2, 3 }, .count = N, .chunk = 128, .ot_k = known[k].ot_k
            };
            sha256_init(&e[i].wire.h);
        }
        assert_int_equal(pthread_create(&thread, NULL, run_end, &e[1]), 0);
        run_end(&e[0]);
        pthread_join(thread, NULL);
        for (int i = 0; i < SIDES; i++) {
            channel_pair_close(&e[i].wire.inner);
            sha256_end(&e[i].wire.h, digest[i]);
            digest_numbers(digest[2 + i], e[i].x);
        }

        uint64_t mask[N], masked[N];
        int64_t w[N];
        uint8_t reply[NOISE_REPLY_HEAD + 2 * N], coins[NOISE_COINS] = { 7 };
        seeded gen;
        noise_params p = {
            .task = { 1, 2, 3 }, .round = 12, .attempt = 1, .count = N, .k = 16, .t = 12, .g = 16
        };
        for (size_t i = 0; i < N; i++) {
            mask[i] = i * 0x9e3779b97f4a7c15u >> 20;
            masked[i] = (mask[i] + ((uint64_t)i << 28)) & (((uint64_t)1 << 44) - 1);
        }
        seeded_init(&gen, 2024, "reply");
        sefl_rng rng = seeded_rng(&gen);
        noise_digits dn = noise_digits_of(masked), dv = noise_digits_of(mask);
        noise_source add[SIDES] = { { add_share, e[0].x }, { add_share, e[1].x } };
        CHECK_OK(noise_reply_make(reply, &p, &dn, &add[1], &rng));
        CHECK_OK(noise_reply_finish(w, &p, span_of(reply, sizeof reply), &dv, &add[0], coins));
        for (size_t i = 0; i < N; i++) /* sum i, noise of a few sigma */
            assert_true(w[i] > (int64_t)i - 120 && w[i] < (int64_t)i + 120);
        sha256_of(digest[4], span_of(reply, sizeof reply));
        digest_numbers(digest[5], (const uint64_t *)w);
        for (int d = 0; d < 6; d++) {
            char text[65];
            for (int i = 0; i < SHA256_BYTES; i++)
                snprintf(text + 2 * i, 3, "%02x", digest[d][i]);
            if (getenv("SEFL_PRINT_DIGESTS"))
                printf("%u %d %s\n", known[k].ot_k, d, text);
            else
                assert_string_equal(text, known[k].digest[d]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(transcript_is_known) };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    if (argc > 1)
        return rc;
    static const char *const narrow[] = { "portable", "aes,avx2,pclmul" };
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow && rc == 0; i++) {
        char line[4200];
        snprintf(line, sizeof line, "SEFL_CPU=%s '%s' again", narrow[i], argv[0]);
        rc = system(line) == 0 ? 0 : 1;
    }
    return rc;
}
