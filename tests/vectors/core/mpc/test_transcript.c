/* Known answer: with seeded coins every byte both servers send to make noise shares is fixed, on every path
 * of every primitive, and so are the shares, CSP's reply and AS's result. The digests were printed by this
 * program (SEFL_PRINT_DIGESTS=1). Those of the bytes pin the wire format: a change of them is a change of
 * the protocol and wants a new hello version. Those of shares and result pin what never travels.
 *
 * Run without arguments the program runs itself again with SEFL_CPU narrowed, so that the portable
 * and the AVX2 paths must give the same bytes. */
#include "support/check.h"
#include "support/digits.h"

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

static void check_digest(const uint8_t digest[SHA256_BYTES], const char *known, unsigned ot_k,
                         int d)
{
    char text[65];
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    if (getenv("SEFL_PRINT_DIGESTS"))
        printf("%u %d %s\n", ot_k, d, text);
    else
        assert_string_equal(text, known);
}

static void transcript_is_known(void **state)
{
    (void)state;
    static const struct {
        unsigned ot_k;
        const char *digest[6]; /* bytes of AS, of CSP; shares of AS, of CSP; reply; w */
    } known[] = {
        { 4,
          { "dab9dbd322ed7f845d037374eb5c063f172aa49dc9f41cd3251e9eea80fd7dec",
            "c171059f79ba6225464c1adf50248b871aebb998406be1eee02c33b480ebd4bc",
            "96af64ce388beb6fea3a468659ef054a8f5a83654bf9165cb523da17bbaaf11c",
            "89f3e8833ae8259a60940d56a5c424205b38104bb57373b6c8789f4bb3a712b1",
            "a52b99aebc3b3437580365cb2e5faa84f130e3577cd976b98d51c09c336e776c",
            "28c4435dcd2124834b1d2da94a6032f7fbbabe24ae4e6997afd3c90f4345e6ff" } },
        { 1,
          { "28212a71221e76736a2dae8f8295ab7554673ce265a33705a99e1bc007cf40e3",
            "dc3e0f50faa0a0614278e74756a7bafe459cc0e9a603a6d6872be9b93d63ed65",
            "b93651c6aa6e53fe4c7937d9958554270c5cbaccfafd1b87493129503a749cc3",
            "6347bd9bfd2d2327e01826a9e7908f91f5fd9ed4077db7e402b52bf30ecd202a",
            "cf4fae9c3b8a4a2faae05ba6b9272be8e4ae943ce91e4b41206ea73c2b7550f7",
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
        noise_params p = { .task = { 1, 2, 3 },
                           .round = 12,
                           .attempt = 1,
                           .count = N,
                           .k = 16,
                           .t = 12,
                           .g = 16,
                           .shape = &noise_joint };
        for (size_t i = 0; i < N; i++) {
            mask[i] = i * 0x9e3779b97f4a7c15u >> 20;
            masked[i] = (mask[i] + ((uint64_t)i << 28)) & (((uint64_t)1 << 44) - 1);
        }
        seeded_init(&gen, 2024, "reply");
        sefl_rng rng = seeded_rng(&gen);
        noise_digits dn = noise_digits_of(masked), dv = noise_digits_of(mask);
        noise_source add[SIDES] = { { add_share, e[0].x }, { add_share, e[1].x } };
        CHECK_OK(noise_reply_make(reply, &p, &dn, &add[1], NULL, NULL, &rng));
        CHECK_OK(noise_reply_finish(w, &p, span_of(reply, sizeof reply), &dv, &add[0], NULL, NULL,
                                    coins));
        for (size_t i = 0; i < N; i++) /* sum i, noise of a few sigma */
            assert_true(w[i] > (int64_t)i - 120 && w[i] < (int64_t)i + 120);
        sha256_of(digest[4], span_of(reply, sizeof reply));
        digest_numbers(digest[5], (const uint64_t *)w);
        for (int d = 0; d < 6; d++)
            check_digest(digest[d], known[k].digest[d], known[k].ot_k, d);
    }
}

static sefl_status add_known(void *ctx, int64_t *e, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        e[i] = *(const int64_t *)ctx * ((int64_t)((first + i) * 7919 % 40001) - 20000);
    return SEFL_OK;
}

/* Mode own: CSP's reply and AS's result. */
static void own_is_known(void **state)
{
    (void)state;
    static const char *const known[] = {
        "ce574cd7b5615d183d49bfac32381d9042162d0417efe8e9cdb1cc30d44284a2",
        "8c58b9129ca8cd2abda29c7d05b6162155ca4a4511263d53cfe620862b54ec5b"
    };
    uint64_t mask[N], masked[N];
    int64_t w[N], times[SIDES] = { 1, -3 };
    uint8_t reply[NOISE_REPLY_HEAD + 4 * N], coins[NOISE_COINS] = { 7 }, digest[2][SHA256_BYTES];
    seeded gen;
    noise_params p = { .task = { 1, 2, 3 },
                       .round = 12,
                       .attempt = 1,
                       .count = N,
                       .k = 16,
                       .t = 12,
                       .g = 16,
                       .shape = &noise_own,
                       .slice = { 9 } };
    for (size_t i = 0; i < N; i++) {
        mask[i] = i * 0x9e3779b97f4a7c15u >> 20;
        masked[i] = (mask[i] + ((uint64_t)i << 28)) & (((uint64_t)1 << 44) - 1);
    }
    seeded_init(&gen, 2024, "reply");
    sefl_rng rng = seeded_rng(&gen);
    noise_digits dn = noise_digits_of(masked), dv = noise_digits_of(mask);
    CHECK_OK(noise_reply_make(reply, &p, &dn, &(noise_source){ add_known, &times[1] }, NULL, NULL,
                              &rng));
    CHECK_OK(noise_reply_finish(w, &p, span_of(reply, sizeof reply), &dv,
                                &(noise_source){ add_known, &times[0] }, NULL, NULL, coins));
    sha256_of(digest[0], span_of(reply, sizeof reply));
    digest_numbers(digest[1], (const uint64_t *)w);
    for (int d = 0; d < 2; d++)
        check_digest(digest[d], known[d], 0, d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(transcript_is_known),
                                        cmocka_unit_test(own_is_known) };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    if (!TEST_KERNELS || argc > 1)
        return rc;
    static const char *const narrow[] = { "portable", "aes,avx2,pclmul" };
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow && rc == 0; i++) {
        char line[4200];
        snprintf(line, sizeof line, "SEFL_CPU=%s '%s' again", narrow[i], argv[0]);
        rc = system(line) == 0 ? 0 : 1;
    }
    return rc;
}
