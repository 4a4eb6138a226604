/* Three processes. The caller is the stage: it makes the clients' vectors, encrypts them and knows
 * the plain sum to compare with. Its two children are the servers. Links, all loopback:
 *     stage -> AS     update bodies; back: the noisy sum and AS's times
 *     AS   <-> CSP    masked sum, noise protocol
 *     CSP  -> stage   a pipe: public key and port (in a federation: the signed task)
 * Every secret is drawn from the system, in the process that owns it. */
#include "cli/full/demo_sum.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ct.h"
#include "base/file.h"
#include "base/random.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "grid/grid.h"
#include "mpc/noise/online.h"
#include "mpc/noise/pool.h"
#include "net/loopback.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 120000, CHUNK_UNITS = 64 };

/* What all parties of the sum agree on; in a federation it comes from the signed task. */
typedef struct terms {
    const demo_sum *d;
    pack pack;
    uint8_t context[AHE_CONTEXT_BYTES];
} terms;

typedef struct as_report {
    double sum_s, mask_s, offline_s, online_s;
    uint64_t offline_bytes, online_bytes;
} as_report;

static double seconds_since(uint64_t *t)
{
    sefl_clock c = clock_monotonic();
    uint64_t now = clock_ns(&c), was = *t;
    *t = now;
    return (double)(now - was) * 1e-9;
}

static noise_params noise_terms(const terms *t)
{
    noise_params p = { .round = 1,
                       .attempt = 1,
                       .count = t->d->values,
                       .k = t->pack.k,
                       .t = t->pack.t,
                       .g = t->pack.g };
    memcpy(p.task, t->context, sizeof p.task);
    return p;
}

/* One side's noise shares for the sum, noise_value_bytes each: made with the peer, before any data. */
static sefl_status make_shares(uint8_t **x, noise_params *p, bool garbles, channel *ch,
                               const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    shares_pool *waiting = NULL;
    shares_slice slice;
    SEFL_TRY(sefl_new(x, p->count, noise_value_bytes(p)));
    SEFL_TRY(shares_pool_new(&waiting, 0, rng));
    SEFL_TRY(shares_pool_fill(waiting, garbles, ch, &(shares_params){ 0 }, p->count, rng));
    SEFL_TRY(
        shares_pool_pick(waiting, &slice, p->count)); /* all there is: the same on both sides */
    SEFL_TRY(shares_pool_take(waiting, &slice, *x, noise_value_bytes(p)));
    shares_slice_hash(p->slice, &slice);
done:
    shares_pool_free(waiting);
    return st;
}

/* ---- CSP ------------------------------------------------------------------------------------- */

static sefl_status read_all(int fd, void *out, size_t n)
{
    uint8_t *p = out;
    while (n > 0) {
        ssize_t got = read(fd, p, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return sefl_fail(SEFL_ECLOSED, "a server of the demo ended early");
        p += got;
        n -= (size_t)got;
    }
    return SEFL_OK;
}

/* Receives the masked sum in pieces and turns it into digits. */
static sefl_status csp_decrypt(const ahe_params *ap, const ahe_sec *sec, const terms *t,
                               channel *ch, uint64_t *digits)
{
    sefl_status st = SEFL_OK;
    ahe_dec *dec = NULL;
    uint8_t *bytes = NULL, *plain = NULL;
    size_t most = ap->sum_head_bytes > CHUNK_UNITS * ap->sum_unit_bytes
                      ? ap->sum_head_bytes
                      : CHUNK_UNITS * ap->sum_unit_bytes;
    SEFL_TRY(sefl_new(&bytes, most, 1));
    SEFL_TRY(sefl_new(&plain, CHUNK_UNITS, ap->plain_bytes));
    SEFL_TRY(ahe_dec_new(&dec, ap, sec, t->context));
    SEFL_TRY(channel_recv(ch, bytes, ap->sum_head_bytes));
    SEFL_TRY(ahe_dec_head(ap, dec, bytes, NULL));
    for (size_t u = 0; u < ap->units; u += CHUNK_UNITS) {
        size_t n = ap->units - u < CHUNK_UNITS ? ap->units - u : CHUNK_UNITS;
        SEFL_TRY(channel_recv(ch, bytes, n * ap->sum_unit_bytes));
        SEFL_TRY(ahe_dec_units(ap, dec, plain, u, bytes, n, NULL, NULL));
        ahe_plain_digits(ap, digits + u * ap->unit_values, plain, n);
    }
done:
    ahe_dec_free(ap, dec);
    sefl_free(bytes);
    sefl_free_secret(plain, CHUNK_UNITS * ap->plain_bytes);
    return st;
}

static sefl_status csp_main(const terms *t, int pipe_out)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    noise_params np = noise_terms(t);
    const ahe_scheme *scheme;
    paillier_sec *sec = NULL;
    loopback *lb = NULL;
    uint8_t *x = NULL, *reply = NULL;
    size_t reply_bytes = 0;
    uint64_t *digits = NULL;
    size_t count = 0;
    sefl_buf pub = { 0 };
    uint16_t port = 0;
    int listener = -1;

    SEFL_TRY(ahe_scheme_find(&scheme, t->d->scheme));
    SEFL_TRY(paillier_keygen_vartime(&sec, t->d->bits, &rng, NULL));
    SEFL_TRY(loopback_listen(&listener, "127.0.0.1", 0, &port));
    SEFL_TRY(wr_u16(&pub, port));
    SEFL_TRY(paillier_pub_write(paillier_sec_pub(sec), &pub));
    SEFL_TRY(file_write_all(pipe_out, buf_span(&pub)));

    ahe_params ap;
    SEFL_TRY(ahe_params_init(&ap, scheme, &t->pack, paillier_sec_pub(sec), t->d->values));
    SEFL_TRY(loopback_accept(&lb, listener, TIMEOUT_MS));
    channel *ch = loopback_channel(lb);
    SEFL_TRY(make_shares(&x, &np, true, ch, &rng));

    count = ap.units * ap.unit_values;
    SEFL_TRY(sefl_new(&digits, count, sizeof *digits));
    SEFL_TRY(csp_decrypt(&ap, sec, t, ch, digits));
    noise_digits from = noise_digits_of(digits);
    noise_taken taken = { x, noise_value_bytes(&np) };
    noise_source add = noise_taken_of(&taken);
    SEFL_TRY(noise_reply_bytes(&reply_bytes, &np));
    SEFL_TRY(sefl_new(&reply, reply_bytes, 1));
    SEFL_TRY(noise_reply_make(reply, &np, &from, &add, &rng));
    SEFL_TRY(channel_send(ch, reply, reply_bytes));
    SEFL_TRY(channel_flush(ch));
    SEFL_TRY(channel_recv(ch, &(uint8_t){ 0 }, 1)); /* AS has it: now the connection may close */
done:
    sefl_free_secret(x, x ? np.count * noise_value_bytes(&np) : 0);
    sefl_free_secret(reply, reply ? reply_bytes : 0);
    sefl_free_secret(digits, count * sizeof *digits);
    loopback_close(lb);
    paillier_sec_free(sec);
    buf_clear(&pub);
    if (listener >= 0)
        close(listener);
    return st;
}

/* ---- AS -------------------------------------------------------------------------------------- */

/* Takes one body in pieces: each is checked before it enters the sum. */
static sefl_status as_add_body(const ahe_params *ap, ahe_sum *sum, channel *clients, uint8_t *bytes,
                               double *busy_s)
{
    sefl_status st = SEFL_OK;
    uint64_t clock = 0;
    SEFL_TRY(channel_recv(clients, bytes, ap->head_bytes));
    seconds_since(&clock); /* waiting for clients does not count */
    SEFL_TRY(ahe_sum_check_head(ap, sum, bytes));
    SEFL_TRY(ahe_sum_add_head(ap, sum, bytes));
    *busy_s += seconds_since(&clock);
    for (size_t u = 0; u < ap->units; u += CHUNK_UNITS) {
        size_t n = ap->units - u < CHUNK_UNITS ? ap->units - u : CHUNK_UNITS;
        SEFL_TRY(channel_recv(clients, bytes, n * ap->unit_bytes));
        seconds_since(&clock);
        SEFL_TRY(ahe_sum_check_units(ap, sum, bytes, n));
        SEFL_TRY(ahe_sum_add_units(ap, sum, u, bytes, n, NULL));
        *busy_s += seconds_since(&clock);
    }
done:
    return st;
}

/* Masks the closed sum, sends it to CSP in pieces, keeps the digits of the mask. */
static sefl_status as_send_masked(const ahe_params *ap, ahe_sum *sum, channel *csp, uint8_t *bytes,
                                  uint64_t *digits, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    uint8_t seed[AHE_SEED_BYTES], *plain = NULL;
    SEFL_TRY(rng_fill(rng, seed, sizeof seed));
    SEFL_TRY(sefl_new(&plain, CHUNK_UNITS, ap->plain_bytes));
    SEFL_TRY(ahe_sum_write_head(ap, sum, bytes));
    SEFL_TRY(channel_send(csp, bytes, ap->sum_head_bytes));
    for (size_t u = 0; u < ap->units; u += CHUNK_UNITS) {
        size_t n = ap->units - u < CHUNK_UNITS ? ap->units - u : CHUNK_UNITS;
        SEFL_TRY(ahe_sum_write_units(ap, sum, bytes, u, n, seed, NULL));
        SEFL_TRY(channel_send(csp, bytes, n * ap->sum_unit_bytes));
        SEFL_TRY(ahe_mask_units(ap, plain, u, n, seed));
        ahe_plain_digits(ap, digits + u * ap->unit_values, plain, n);
    }
    SEFL_TRY(channel_flush(csp));
done:
    sefl_wipe(seed, sizeof seed);
    sefl_free_secret(plain, CHUNK_UNITS * ap->plain_bytes);
    return st;
}

static size_t largest_piece(const ahe_params *ap)
{
    size_t sizes[] = { ap->head_bytes, CHUNK_UNITS * ap->unit_bytes, ap->sum_head_bytes,
                       CHUNK_UNITS * ap->sum_unit_bytes };
    size_t most = 0;
    for (size_t i = 0; i < 4; i++)
        most = sizes[i] > most ? sizes[i] : most;
    return most;
}

static sefl_status as_main(const terms *t, const ahe_pub *pub, uint16_t csp_port, int listener)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    noise_params np = noise_terms(t);
    as_report report = { 0 };
    const ahe_scheme *scheme;
    loopback *csp = NULL, *clients = NULL;
    ahe_sum *sum = NULL;
    ahe_params ap = { 0 };
    uint8_t *bytes = NULL, *x = NULL, *reply = NULL, coins[NOISE_COINS] = { 0 };
    uint64_t *digits = NULL;
    int64_t *w = NULL;
    size_t count = 0, reply_bytes = 0;
    uint64_t clock = 0;

    SEFL_TRY(ahe_scheme_find(&scheme, t->d->scheme));
    SEFL_TRY(ahe_params_init(&ap, scheme, &t->pack, pub, t->d->values));
    count = ap.units * ap.unit_values;
    SEFL_TRY(sefl_new(&bytes, largest_piece(&ap), 1));
    SEFL_TRY(sefl_new(&digits, count, sizeof *digits));
    SEFL_TRY(sefl_new(&w, t->d->values, sizeof *w));
    SEFL_TRY(ahe_sum_new(&sum, &ap, pub));
    SEFL_TRY(loopback_dial(&csp, "127.0.0.1", csp_port, TIMEOUT_MS));
    channel *ch = loopback_channel(csp);

    seconds_since(&clock);
    SEFL_TRY(make_shares(&x, &np, false, ch, &rng));
    report.offline_s = seconds_since(&clock);
    report.offline_bytes = ch->sent + ch->received;

    SEFL_TRY(loopback_accept(&clients, listener, TIMEOUT_MS));
    for (unsigned i = 0; i < t->d->clients; i++)
        SEFL_TRY(as_add_body(&ap, sum, loopback_channel(clients), bytes, &report.sum_s));
    seconds_since(&clock);
    SEFL_TRY(ahe_sum_close(&ap, sum));
    report.sum_s += seconds_since(&clock);
    SEFL_TRY(as_send_masked(&ap, sum, ch, bytes, digits, &rng));
    report.mask_s = seconds_since(&clock);

    uint64_t before = ch->sent + ch->received;
    noise_digits from = noise_digits_of(digits);
    noise_taken taken = { x, noise_value_bytes(&np) };
    noise_source add = noise_taken_of(&taken);
    SEFL_TRY(noise_reply_bytes(&reply_bytes, &np));
    SEFL_TRY(sefl_new(&reply, reply_bytes, 1));
    SEFL_TRY(channel_recv(ch, reply, reply_bytes));
    SEFL_TRY(rng_fill(&rng, coins, sizeof coins));
    SEFL_TRY(noise_reply_finish(w, &np, span_of(reply, reply_bytes), &from, &add, coins));
    report.online_s = seconds_since(&clock);
    report.online_bytes = ch->sent + ch->received - before;
    SEFL_TRY(channel_send(ch, "", 1));
    SEFL_TRY(channel_flush(ch));

    SEFL_TRY(channel_send(loopback_channel(clients), &report, sizeof report));
    SEFL_TRY(channel_send(loopback_channel(clients), w, t->d->values * sizeof *w));
    SEFL_TRY(channel_flush(loopback_channel(clients)));
done:
    sefl_wipe(coins, sizeof coins);
    sefl_free_secret(x, x ? np.count * noise_value_bytes(&np) : 0);
    sefl_free(reply);
    ahe_sum_free(&ap, sum);
    sefl_free_secret(digits, count * sizeof *digits);
    sefl_free(bytes);
    sefl_free(w);
    loopback_close(csp);
    loopback_close(clients);
    return st;
}

/* ---- the stage: clients, plain sum, comparison ----------------------------------------------- */

/* Starts a server as a process of its own; its failure is a sentence on stderr and exit 1. */
static sefl_status start(pid_t *pid, const char *name, const terms *t, const ahe_pub *pub,
                         uint16_t port, int fd)
{
    fflush(NULL);
    *pid = fork();
    if (*pid < 0)
        return sefl_fail(SEFL_EIO, "cannot start %s: %s", name, strerror(errno));
    if (*pid > 0)
        return SEFL_OK;
    sefl_status st = pub ? as_main(t, pub, port, fd) : csp_main(t, fd);
    if (st != SEFL_OK)
        fprintf(stderr, "sefl demo: %s: %s\n", name, sefl_last_error());
    _exit(st == SEFL_OK ? 0 : 1);
}

static sefl_status finish(pid_t pid, const char *name)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return sefl_fail(SEFL_EIO, "%s did not end well", name);
    return SEFL_OK;
}

/* A client's vector: uniform integers whose norm is just inside the task's bound. */
static sefl_status draw_vector(const terms *t, int64_t *x, int64_t *plain_sum, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    int64_t most = (int64_t)(sqrt(2.7 * (double)t->pack.s2 / (double)t->d->values));
    if (most > t->pack.value_max)
        most = t->pack.value_max;
    for (size_t i = 0; i < t->d->values; i++) {
        uint64_t u = 0;
        SEFL_TRY(rng_below(rng, &u, 2 * (uint64_t)most + 1));
        x[i] = (int64_t)u - most;
        plain_sum[i] += x[i];
    }
done:
    return st;
}

static sefl_status send_updates(const terms *t, const ahe_params *ap, const ahe_pub *pub,
                                channel *as, int64_t *plain_sum, double *encrypt_s)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    ahe_enc *enc = NULL;
    ahe_upload *up = NULL;
    int64_t *x = NULL;
    uint8_t *body = NULL;
    uint64_t clock = 0;
    SEFL_TRY(sefl_new(&x, ap->units * ap->unit_values, sizeof *x));
    SEFL_TRY(sefl_new(&body, ahe_body_bytes(ap), 1));
    seconds_since(&clock);
    SEFL_TRY(ahe_enc_new(&enc, pub, ap, NULL, NULL));
    *encrypt_s = seconds_since(&clock);
    for (unsigned i = 0; i < t->d->clients; i++) {
        SEFL_TRY(draw_vector(t, x, plain_sum, &rng));
        seconds_since(&clock);
        SEFL_TRY(ahe_upload_new(&up, ap, enc, t->context, &rng));
        SEFL_TRY(ahe_upload_head(ap, up, body, NULL));
        SEFL_TRY(ahe_upload_units(ap, up, body + ap->head_bytes, x, ap->units, NULL, NULL));
        *encrypt_s += seconds_since(&clock);
        ahe_upload_free(ap, up), up = NULL;
        SEFL_TRY(channel_send(as, body, ahe_body_bytes(ap)));
        SEFL_TRY(channel_flush(as));
    }
done:
    ahe_upload_free(ap, up);
    ahe_enc_free(ap, enc);
    sefl_free_secret(x, ap->units * ap->unit_values * sizeof *x);
    sefl_free(body);
    return st;
}

static sefl_status compare(const terms *t, const int64_t *plain, const int64_t *w)
{
    double h = t->pack.h, sigma = 9.4392 * h, sum = 0, squares = 0, most = 0, signal = 0;
    size_t n = t->d->values;
    printf("\n  coordinate    plain sum    noisy sum    difference\n");
    for (size_t i = 0; i < n; i++) {
        double exact = (double)plain[i] * t->pack.q, noisy = ((double)w[i] + 0.5) * h;
        double e = (noisy - exact) / sigma;
        sum += e;
        squares += e * e;
        most = fabs(e) > most ? fabs(e) : most;
        signal += exact * exact;
        if (i < 4)
            printf("  %10zu %12.6f %12.6f   %+6.2f sigma\n", i, exact, noisy, e);
    }
    double mean = sum / (double)n, std = sqrt(squares / (double)n - mean * mean);
    double drowned = sigma * sqrt((double)n) / sqrt(signal);
    printf("  all %zu: the error has mean %+.4f and standard deviation %.4f, in units of the sigma "
           "claimed;\n  the largest is %.2f. Noise norm over signal norm: %.1f%s.\n",
           n, mean, std, most, drowned,
           drowned > 1 ? " (these are too few clients to learn from at this noise)" : "");
    /* a standard deviation from n samples is off by 1/sqrt(2n): six of those, and the jumps */
    double slack = 6 / sqrt(2 * (double)n) + 0.01;
    if (fabs(std - 1) > slack || fabs(mean) > 6 / sqrt((double)n))
        return sefl_fail(SEFL_ECRYPTO, "the noisy sum is not the plain sum plus the claimed noise");
    return SEFL_OK;
}

static void print_report(const terms *t, const ahe_params *ap, const as_report *r, double key_s,
                         double encrypt_s)
{
    double body = (double)ahe_body_bytes(ap), n = (double)t->d->values;
    printf("  key        Paillier, %u bits, made in %.1f s by CSP; its secret half stays there\n",
           t->d->bits, key_s);
    printf("  clients    %u upload%s of %.1f kB (%.2f bytes a number%s), %.2f s to encrypt all\n",
           t->d->clients, t->d->clients == 1 ? "" : "s", body * 1e-3,
           (double)ap->unit_bytes / (double)ap->unit_values, ap->head_bytes ? " and a head" : "",
           encrypt_s);
    printf("  AS         checked and added in %.2f s, masked and sent to CSP in %.2f s\n", r->sum_s,
           r->mask_s);
    printf("  2PC        ahead of the data: %.2f s, %.0f bytes a number; with it (CSP's "
           "decryption\n             included): %.2f s, %.0f bytes a number\n",
           r->offline_s, (double)r->offline_bytes / n, r->online_s, (double)r->online_bytes / n);
}

/* The stage's half once the servers run. */
static sefl_status play(const terms *t, const ahe_pub *pub, channel *as, double key_s)
{
    sefl_status st = SEFL_OK;
    const ahe_scheme *scheme;
    ahe_params ap;
    as_report report;
    int64_t *plain = NULL;
    int64_t *w = NULL;
    double encrypt_s = 0;
    SEFL_TRY(ahe_scheme_find(&scheme, t->d->scheme));
    SEFL_TRY(ahe_params_init(&ap, scheme, &t->pack, pub, t->d->values));
    SEFL_TRY(sefl_new(&plain, t->d->values, sizeof *plain));
    SEFL_TRY(sefl_new(&w, t->d->values, sizeof *w));
    SEFL_TRY(send_updates(t, &ap, pub, as, plain, &encrypt_s));
    SEFL_TRY(channel_recv(as, &report, sizeof report));
    SEFL_TRY(channel_recv(as, w, t->d->values * sizeof *w));
    print_report(t, &ap, &report, key_s, encrypt_s);
    SEFL_TRY(compare(t, plain, w));
done:
    sefl_free(plain);
    sefl_free(w);
    return st;
}

static sefl_status agree(terms *t, const demo_sum *d, const sefl_rng *rng)
{
    sefl_status st = SEFL_OK;
    pack_config c = { .scheme = strcmp(d->scheme, "lwe") == 0 ? PACK_LWE : PACK_PAILLIER,
                      .clients = d->clients,
                      .dimension = d->values,
                      .clip = PACK_ONE };
    *t = (terms){ .d = d };
    SEFL_TRY(pack_decimal(&c.noise, d->noise));
    SEFL_CHECK(c.noise > 0, SEFL_EINVAL, "--noise 0 is no noise: this demo is about joint noise");
    SEFL_TRY(pack_init(&t->pack, &c));
    SEFL_TRY(rng_fill(rng, t->context, sizeof t->context));
done:
    return st;
}

sefl_status demo_sum_run(const demo_sum *d)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    terms t;
    paillier_pub *pub = NULL;
    loopback *as = NULL;
    uint8_t *key = NULL, port_bytes[2];
    uint16_t as_port = 0;
    pid_t csp_pid = 0, as_pid = 0;
    int pipe_fd[2] = { -1, -1 }, listener = -1;
    uint64_t clock = 0;

    SEFL_TRY(agree(&t, d, &rng));
    uint64_t claim_limit = grid_s2(12, GRID_BILLION / 4); /* z below 0.25: nothing is proven */
    printf("secure sum with %s: %u client%s, %zu numbers each, noise multiplier %s%s\n", d->scheme,
           d->clients, d->clients == 1 ? "" : "s", d->values, d->noise,
           t.pack.s2 > claim_limit ? "; no differential privacy claimed" : "");
    seconds_since(&clock);
    SEFL_CHECK(pipe(pipe_fd) == 0, SEFL_EIO, "cannot make a pipe: %s", strerror(errno));
    SEFL_TRY(start(&csp_pid, "CSP", &t, NULL, 0, pipe_fd[1]));
    close(pipe_fd[1]), pipe_fd[1] = -1;

    SEFL_TRY(sefl_new(&key, paillier_pub_bytes(d->bits), 1));
    SEFL_TRY(read_all(pipe_fd[0], port_bytes, sizeof port_bytes));
    SEFL_TRY(read_all(pipe_fd[0], key, paillier_pub_bytes(d->bits)));
    SEFL_TRY(paillier_pub_read(&pub, span_of(key, paillier_pub_bytes(d->bits))));
    double key_s = seconds_since(&clock);

    SEFL_TRY(loopback_listen(&listener, "127.0.0.1", 0, &as_port));
    SEFL_TRY(
        start(&as_pid, "AS", &t, pub, (uint16_t)(port_bytes[0] | port_bytes[1] << 8), listener));
    close(listener), listener = -1;
    SEFL_TRY(loopback_dial(&as, "127.0.0.1", as_port, TIMEOUT_MS));
    SEFL_TRY(play(&t, pub, loopback_channel(as), key_s));
done:
    loopback_close(as); /* a server that still waits for us ends now */
    for (int i = 0; i < 2; i++)
        if (pipe_fd[i] >= 0)
            close(pipe_fd[i]);
    if (listener >= 0)
        close(listener);
    if (as_pid > 0 && finish(as_pid, "AS") != SEFL_OK && st == SEFL_OK)
        st = SEFL_EIO;
    if (csp_pid > 0 && finish(csp_pid, "CSP") != SEFL_OK && st == SEFL_OK)
        st = SEFL_EIO;
    paillier_pub_free(pub);
    sefl_free(key);
    return st;
}
