#include "bench/round/ingest_plan.h"

#include "base/alloc.h"
#include "base/file.h"
#include "net/https_client.h"
#include "protocol/http.h"
#include "protocol/update.h"
#include "protocol/version.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const uint8_t ingest_task[32] = "sefl bench ingest", ingest_round_seed[SEAL_SEED] = { 7 };

const char *ingest_in(const plan *pl, char out[160], const char *name)
{
    snprintf(out, 160, "%s/%s", pl->dir, name);
    return out;
}

sefl_status ingest_identity(const plan *pl, tls_id **out, const char *name)
{
    char cert[160], key[160], ca[160], file[40];
    snprintf(file, sizeof file, "%s.pem", name);
    ingest_in(pl, cert, file);
    snprintf(file, sizeof file, "%s.key", name);
    ingest_in(pl, key, file);
    return tls_id_read(out, cert, key, ingest_in(pl, ca, "ca.pem"));
}

void ingest_client(uint8_t client[32], unsigned long i)
{
    uint8_t number[8];
    store_u64(number, i);
    sha256_of(client, span_of(number, sizeof number));
}

sefl_status ingest_upload_key(sign_key **out, unsigned long i)
{
    uint8_t seed[32];
    ingest_client(seed, i);
    seed[0] ^= 1;
    return sign_key_from(out, seed);
}

/* ---- the generator --------------------------------------------------------------------------- */

static sefl_status make_body(const plan *pl, uint8_t *body)
{
    sefl_status st = SEFL_OK;
    const ahe_params *p = &pl->p;
    sefl_rng rng = rng_system();
    uint8_t context[AHE_CONTEXT_BYTES] = { 1 };
    ahe_enc *enc = NULL;
    ahe_upload *u = NULL;
    int64_t *values = NULL;
    pool *workers = NULL;
    SEFL_TRY(sefl_new(&values, p->units * p->unit_values, sizeof *values));
    for (size_t i = 0; i < p->values; i++)
        values[i] = (int64_t)(i % 201) - 100;
    SEFL_TRY(pool_new(&workers, 0));
    SEFL_TRY(ahe_enc_new(&enc, pl->pub, p, workers, NULL));
    SEFL_TRY(ahe_upload_new(&u, p, enc, context, &rng));
    SEFL_TRY(ahe_upload_units(p, u, body, values, p->units, workers, NULL));
done:
    ahe_upload_free(p, u);
    ahe_enc_free(p, enc);
    pool_free(workers);
    sefl_free(values);
    return st;
}

typedef struct sender {
    const plan *pl;
    const uint8_t *body;
    const seal_key *round_key;
    order o;
    unsigned long number;
    pthread_t id;
    tls_id *tls;
    https_client *client; /* kept: one connection for all turns */
    sefl_status st;
    char why[300];
} sender;

static sefl_status write_head(const plan *pl, int fd, unsigned long i, const uint8_t units[32],
                              const seal_key *round_key)
{
    sefl_status st = SEFL_OK;
    uint8_t out[HEAD_MAX], client[32], seed[HEAD_SEED] = { 3 };
    sign_key *key = NULL;
    sefl_rng rng = rng_system();
    ingest_client(client, i);
    SEFL_TRY(ingest_upload_key(&key, i));
    SEFL_TRY(head_make(out,
                       &(head_facts){ .suite = pl->seal,
                                      .task = ingest_task,
                                      .round = ROUND,
                                      .client = client,
                                      .units = units },
                       seal_key_pub(round_key), seed, key, &rng));
    SEFL_CHECK(pwrite(fd, out, head_bytes(pl->seal), 0) == (ssize_t)head_bytes(pl->seal), SEFL_EIO,
               "cannot write a head: %s", strerror(errno));
done:
    sign_key_free(key);
    return st;
}

/* Writes body number i, and its name. All bodies have the same units and their own salt. */
static sefl_status write_body(const plan *pl, const uint8_t *units, const seal_key *round_key,
                              unsigned long i, const char *path, uint8_t name[BLAKE3_BYTES])
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    uint8_t salt[UPDATE_SALT];
    update_name n;
    sefl_span all = span_of(units, ahe_body_bytes(&pl->p));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    SEFL_CHECK(fd >= 0, SEFL_EIO, "cannot write %s: %s", path, strerror(errno));
    SEFL_CHECK(lseek(fd, (off_t)head_bytes(pl->seal), SEEK_SET) >= 0, SEFL_EIO, "%s: %s", path,
               strerror(errno));
    SEFL_TRY(update_salt(salt, &n, &rng));
    update_name_add(&n, all);
    update_name_end(&n, name);
    SEFL_TRY(file_write_all(fd, span_of(salt, sizeof salt)));
    SEFL_TRY(file_write_all(fd, all));
    if (pl->seal)
        SEFL_TRY(write_head(pl, fd, i, name, round_key));
done:
    if (fd >= 0)
        close(fd);
    return st;
}

static void *send_all(void *arg)
{
    sender *s = arg;
    const plan *pl = s->pl;
    sefl_status st = SEFL_OK;
    https_reply r = { 0 };
    char path[160], name[40], url[HTTP_PATH_MAX], headers[128];
    http_target to = { .call = HTTP_UPDATE, .round = ROUND };
    snprintf(name, sizeof name, "sender-%lu", s->number);
    ingest_in(pl, path, name);
    if (!s->client) {
        SEFL_TRY(ingest_identity(pl, &s->tls, "client"));
        SEFL_TRY(https_client_new(&s->client,
                                  &(https_client_config){ .host = "127.0.0.1",
                                                          .port = s->o.port[s->number % s->o.ports],
                                                          .id = s->tls,
                                                          .proxy = "" }));
    }
    for (unsigned long i = s->o.first + s->number; i < s->o.end; i += pl->o.connections) {
        SEFL_TRY(write_body(pl, s->body, s->round_key, i, path, to.hash));
        snprintf(headers, sizeof headers, HTTP_VERSION_LINE "%s: %zu\n" NUMBER ": %lu\n",
                 http_field_name(HTTP_TOTAL_FIELD), pl->bytes, i);
        SEFL_TRY(https_put_file(s->client, http_path(url, &to), path, 0, headers, NULL, &r));
        SEFL_CHECK(r.status == 200, SEFL_EPROTO, "update %lu: status %u: %.*s", i, r.status,
                   (int)r.body.n, (const char *)r.body.p);
        https_reply_clear(&r);
    }
done:
    s->st = st;
    if (st != SEFL_OK)
        snprintf(s->why, sizeof s->why, "%s", sefl_last_error());
    https_reply_clear(&r);
    return NULL;
}

static sefl_status send_to(const plan *pl, const uint8_t *body, const seal_key *round_key,
                           sender *s, const order *o)
{
    sefl_status st = SEFL_OK;
    unsigned long n = 0;
    for (; n < pl->o.connections; n++) {
        s[n].pl = pl, s[n].body = body, s[n].o = *o, s[n].number = n;
        s[n].round_key = round_key;
        SEFL_CHECK(pthread_create(&s[n].id, NULL, send_all, &s[n]) == 0, SEFL_ENOMEM,
                   "cannot start a thread");
    }
done:
    for (unsigned long i = 0; i < n; i++) {
        pthread_join(s[i].id, NULL);
        if (st == SEFL_OK && s[i].st != SEFL_OK)
            st = sefl_fail(s[i].st, "%s", s[i].why);
    }
    return st;
}

int ingest_generator(const plan *pl, int in_fd, int out_fd)
{
    uint8_t *body = NULL;
    sender *s[2] = { NULL, NULL }; /* of either server */
    order o;
    seal_key *round_key = NULL;
    sefl_status st = sefl_new(&body, 1, ahe_body_bytes(&pl->p));
    if (st == SEFL_OK && pl->seal)
        st = seal_key_from(&round_key, pl->seal, ingest_round_seed);
    if (st == SEFL_OK)
        st = make_body(pl, body);
    for (int i = 0; i < 2 && st == SEFL_OK; i++)
        st = sefl_new(&s[i], CONNECTIONS_MAX, sizeof *s[i]);
    if (write(out_fd, &st, sizeof st) != sizeof st)
        return 1;
    while (st == SEFL_OK && read(in_fd, &o, sizeof o) == sizeof o) {
        st = send_to(pl, body, round_key, s[o.which], &o);
        if (st != SEFL_OK)
            fprintf(stderr, "sefl bench ingest: %s\n", sefl_last_error());
        if (write(out_fd, &st, sizeof st) != sizeof st)
            return 1;
    }
    for (int i = 0; i < 2; i++) {
        for (unsigned long k = 0; s[i] && k < CONNECTIONS_MAX; k++) {
            https_client_free(s[i][k].client);
            tls_id_free(s[i][k].tls);
        }
        sefl_free(s[i]);
    }
    seal_key_free(round_key);
    sefl_free(body);
    return 0;
}
