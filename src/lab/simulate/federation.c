#include "simulate/federation.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hex.h"
#include "model/corpus/dirichlet.h"
#include "model/corpus/synth.h"
#include "model/model_open.h"
#include "protocol/task_make.h"
#include "protocol/task_model.h"
#include "seeded/seeded.h"
#include "simulate/experiment_start.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALID_LEAST = 2000, VALID_MOST = 200000, VALID_CLIENTS = 10000 };

typedef struct maker {
    federation *s;
    const federation_config *c;
    sefl_buf text, valid, test; /* generated text */
} maker;

static sefl_status tick(const maker *m, uint32_t done)
{
    return progress_report(m->c->progress, done, m->s->clients)
               ? SEFL_OK
               : sefl_fail(SEFL_ECANCELLED, "stopped");
}

/* ---- generated text -------------------------------------------------------------------------- */

static sefl_status some_lines(sefl_buf *out, const synth *source, const double *shares,
                              uint64_t tokens, seeded *gen)
{
    for (uint64_t n = 0; n < tokens;)
        SEFL_PASS(synth_line(source, shares, out, &n, gen));
    return SEFL_OK;
}

static void seed_stream(seeded *gen, const experiment *e, const char *what, uint32_t client)
{
    char name[48];
    snprintf(name, sizeof name, "%s %" PRIu32, what, client);
    seeded_init(gen, e->seed, name);
}

static void shares_of(double shares[SYNTH_TOPICS], const experiment *e, uint32_t i, seeded *gen)
{
    seed_stream(gen, e, "simulated client", i);
    dirichlet_draw(shares, SYNTH_TOPICS, e->alpha, gen);
}

/* Counts every word of the source once, plus its occurrences in the validation text. */
static sefl_status generated_words(maker *m, const synth *source, const vocab_settings *vs)
{
    sefl_status st = SEFL_OK;
    vocab *v = NULL;
    uint64_t words = 0;
    SEFL_TRY(vocab_new(&v, vs->kind));
    for (size_t i = 0; i < m->valid.n;) {
        const uint8_t *end = memchr(m->valid.p + i, '\n', m->valid.n - i);
        size_t n = (size_t)(end - (m->valid.p + i));
        SEFL_TRY(corpus_count_line(v, span_of(m->valid.p + i, n), &words));
        i += n + 1;
    }
    for (uint32_t i = 0; i < synth_words(source); i++)
        SEFL_TRY(vocab_count(v, span_of_str(synth_word(source, i))));
    SEFL_TRY(vocab_finish(v, vs));
    m->s->words = v, v = NULL;
done:
    vocab_free(v);
    return st;
}

static sefl_status score(maker *m, synth *source, const double *mean)
{
    double nats = 0;
    uint64_t tokens = 0;
    SEFL_PASS(synth_mix(source, mean));
    for (size_t i = 0; i < m->valid.n;) {
        const uint8_t *end = memchr(m->valid.p + i, '\n', m->valid.n - i);
        size_t n = (size_t)(end - (m->valid.p + i));
        SEFL_PASS(synth_score(source, span_of(m->valid.p + i, n), &nats, &tokens));
        i += n + 1;
    }
    /* per token of the vocabulary, as the models' perplexities: words, or BPE tokens */
    m->s->best_perplexity = exp(nats / (double)m->s->valid.tokens);
    return SEFL_OK;
}

static sefl_status generate(maker *m, const vocab_settings *vs)
{
    sefl_status st = SEFL_OK;
    federation *s = m->s;
    const experiment *e = s->e;
    synth *source = NULL;
    double shares[SYNTH_TOPICS], mean[SYNTH_TOPICS] = { 0 };
    seeded gen;
    corpus_file name = { .path = "generated text", .format = CORPUS_TEXT };
    uint64_t valid = e->words / 10;
    if (valid * e->clients < VALID_LEAST)
        valid = VALID_LEAST / e->clients + 1;
    if (valid * s->clients > VALID_MOST)
        valid = VALID_MOST / s->clients + 1;
    const uint32_t each = (s->clients - 1) / VALID_CLIENTS + 1;
    SEFL_TRY(synth_new(&source));
    for (uint32_t i = 0; i < s->clients; i++) {
        shares_of(shares, e, i, &gen);
        for (unsigned k = 0; k < SYNTH_TOPICS; k++)
            mean[k] += shares[k] / s->clients;
        if (i % each != 0)
            continue;
        SEFL_TRY(some_lines(&m->valid, source, shares, valid, &gen));
        seed_stream(&gen, e, "simulated test text", i);
        SEFL_TRY(some_lines(&m->test, source, shares, valid, &gen));
    }
    SEFL_TRY(generated_words(m, source, vs));
    SEFL_TRY(corpus_read_over(&s->valid, s->words, &name, buf_span(&m->valid)));
    SEFL_TRY(score(m, source, mean));
    SEFL_TRY(corpus_read_over(&s->test, s->words, &name, buf_span(&m->test)));
    for (uint32_t i = s->ranks->rank; i < s->clients; i += s->ranks->size) {
        shares_of(shares, e, i, &gen);
        seed_stream(&gen, e, "simulated text", i);
        buf_reset(&m->text);
        SEFL_TRY(some_lines(&m->text, source, shares, e->words, &gen));
        SEFL_TRY(corpus_read_over(&s->text[i], s->words, &name, buf_span(&m->text)));
        SEFL_TRY(tick(m, i + 1));
    }
done:
    synth_free(source);
    return st;
}

/* ---- text of a folder ------------------------------------------------------------------------ */

static sefl_status deal(maker *m, const vocab_settings *vs)
{
    sefl_status st = SEFL_OK;
    federation *s = m->s;
    const experiment *e = s->e;
    corpus_paths paths = { 0 };
    corpus whole = { 0 };
    partition p = { 0 };
    SEFL_TRY(corpus_paths_find(&paths, e->data));
    corpus_file train = { .path = paths.path[CORPUS_TRAIN] };
    SEFL_TRY(experiment_words(&s->words, e, &train, vs));
    SEFL_TRY(corpus_read(&whole, s->words, &train, NULL));
    for (int k = CORPUS_VALID; k <= CORPUS_TEST; k++)
        if (paths.path[k])
            SEFL_TRY(corpus_read(k == CORPUS_VALID ? &s->valid : &s->test, s->words,
                                 &(corpus_file){ .path = paths.path[k] }, NULL));
    st = partition_make(
        &p, &whole,
        &(partition_settings){
            .kind = e->partition, .clients = e->clients, .alpha = e->alpha, .seed = e->seed });
    if (st != SEFL_OK) {
        char kind[SETTING_WORD_BYTES];
        sefl_note_before("%s, data.partition %s", train.path,
                         setting_word_at(kind, PARTITIONS, e->partition));
        goto done;
    }
    for (uint32_t i = s->ranks->rank; i < s->clients; i += s->ranks->size) {
        SEFL_TRY(partition_take(&s->text[i], &whole, &p, i));
        SEFL_CHECK(s->text[i].tokens >= 2, SEFL_EINVAL,
                   "data.partition: client %" PRIu32 " of %" PRIu32
                   " gets fewer than two words: use fewer clients or another partition",
                   i + 1, e->clients);
        SEFL_TRY(tick(m, i + 1));
    }
done:
    partition_clear(&p);
    corpus_clear(&whole);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- model, keys, task ----------------------------------------------------------------------- */

/* Hashes the initial values instead of a file; the caller writes the file, if any. */
static sefl_status make_model(federation *s, const settings *set, char hash[2 * SHA256_BYTES + 1])
{
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    uint8_t digest[SHA256_BYTES];
    lm_config cfg;
    size_t count;
    task_settings_model(&cfg, set, vocab_size(s->words));
    cfg.batch = cfg.steps = 1;
    SEFL_TRY(lm_new(&m, &cfg, NULL));
    if (*s->e->init) {
        SEFL_TRY(experiment_init(&s->theta, &count, s->e->init, *lm_get_config(m), s->words));
    } else {
        count = lm_count(m);
        lm_init(m, s->e->seed);
        SEFL_TRY(sefl_new(&s->theta, count, sizeof *s->theta));
        memcpy(s->theta, lm_theta(m), count * sizeof *s->theta);
    }
    sha256_of(digest, span_of(s->theta, count * sizeof *s->theta));
    hex_write(hash, digest, SHA256_BYTES);
done:
    lm_free(m);
    return st;
}

static sefl_status make_keys(federation *s, const settings *set, federation_key *k,
                             const sefl_progress *stop)
{
    seeded gen;
    sefl_rng rng = seeded_rng(&gen);
    seeded_init(&gen, s->e->seed, "simulated signing keys");
    SEFL_PASS(sign_key_new(&s->as_key, &rng));
    SEFL_PASS(sign_key_new(&s->csp_key, &rng));
    if (settings_is(set, "crypto.scheme", "pad")) {
        seeded_init(&gen, s->e->seed, "simulated root");
        return rng_fill(&rng, s->root, sizeof s->root);
    }
    if (k && k->sec && k->seed == s->e->seed && k->bits == s->e->key_bits) {
        s->sec = k->sec;
        return SEFL_OK;
    }
    seeded_init(&gen, s->e->seed, "simulated key");
    SEFL_PASS(paillier_keygen_vartime(&s->sec, s->e->key_bits, &rng, stop));
    s->own_sec = !k;
    if (k) {
        federation_key_clear(k);
        *k = (federation_key){ s->e->seed, s->e->key_bits, s->sec };
    }
    return SEFL_OK;
}

static sefl_status make_task(maker *m, const char *init_hash)
{
    sefl_status st = SEFL_OK;
    federation *s = m->s;
    settings ts;
    sefl_buf document = { 0 };
    uint8_t digest[SHA256_BYTES] = { 0 };
    char vocab_hex[2 * SHA256_BYTES + 1], valid_hex[2 * SHA256_BYTES + 1];
    pinned keys;
    memcpy(keys.as, sign_key_pub(s->as_key), sizeof keys.as);
    memcpy(keys.csp, sign_key_pub(s->csp_key), sizeof keys.csp);
    if (s->words)
        vocab_hash(s->words, digest);
    hex_write(vocab_hex, digest, SHA256_BYTES);
    /* hashes the token numbers: generated text has no file */
    sha256_of(digest, span_of(s->valid.token, s->valid.tokens * sizeof *s->valid.token));
    hex_write(valid_hex, digest, SHA256_BYTES);
    SEFL_PASS(experiment_task(&ts, m->c->settings, s->e, s->words ? vocab_size(s->words) : 0,
                              vocab_hex, init_hash, s->valid.tokens > 0 ? valid_hex : NULL));
    if (s->e->external)
        SEFL_TRY(sefl_at(task_settings_tensors(&ts, s->e->init), "model.init"));
    if (experiment_exact_weights(m->c->settings))
        SEFL_TRY(settings_setf(&ts, "experiment", "privacy.weight_cap=%" PRIu64, s->longest));
    SEFL_TRY(task_make(&document, &ts, s->sec ? paillier_sec_pub(s->sec) : NULL, &keys));
    envelope env = { .kind = SIGN_TASK, .content = buf_span(&document) };
    SEFL_TRY(envelope_sign(&env, SIGNER_AS, s->as_key));
    SEFL_TRY(envelope_sign(&env, SIGNER_CSP, s->csp_key));
    SEFL_TRY(envelope_write(&s->envelope, &env));
    SEFL_TRY(task_open(&s->task, buf_span(&s->envelope), &keys));
    SEFL_TRY(experiment_fit(s->e, &s->task));
    if (s->e->external)
        SEFL_TRY(sefl_at(task_model_read(&s->theta, &s->task, s->e->init), "model.init"));
done:
    settings_clear(&ts);
    buf_clear(&document);
    return st;
}

static void add_text(sha256 *h, const corpus *c)
{
    sha256_add(h, span_of(&c->tokens, sizeof c->tokens));
    sha256_add(h, span_of(c->token, c->tokens * sizeof *c->token));
}

/* What all ranks count together. */
typedef struct text_counts {
    uint64_t tokens, longest, digest;
} text_counts;

static void add_counts(const void *ctx, void *sum, const void *more, size_t items)
{
    text_counts *a = sum;
    const text_counts *b = more;
    (void)ctx;
    for (size_t i = 0; i < items; i++) {
        a[i].tokens += b[i].tokens;
        a[i].longest = b[i].longest > a[i].longest ? b[i].longest : a[i].longest;
        a[i].digest += b[i].digest;
    }
}

/* Hashes a text; the number is the client's, or one beyond all clients. */
static uint64_t digest_of(uint32_t number, const corpus *c)
{
    sha256 h;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&h);
    sha256_add(&h, span_of(&number, sizeof number));
    add_text(&h, c);
    sha256_end(&h, digest);
    return load_u64(digest);
}

static sefl_status count_text(federation *s)
{
    text_counts n = { 0 };
    for (uint32_t i = s->ranks->rank; i < s->clients; i += s->ranks->size) {
        text_counts one = { s->text[i].tokens, s->text[i].tokens, digest_of(i, &s->text[i]) };
        add_counts(NULL, &n, &one, 1);
    }
    SEFL_PASS(
        ranks_reduce(s->ranks, &n, 1, &(ranks_how){ .item_bytes = sizeof n, .add = add_counts }));
    SEFL_PASS(ranks_broadcast(s->ranks, &n, sizeof n));
    s->tokens = n.tokens;
    s->longest = n.longest;
    s->digest = n.digest + digest_of(s->clients, &s->valid) + digest_of(s->clients + 1, &s->test);
    s->digest += s->digest == 0;
    return SEFL_OK;
}

/* Creates the texts of this rank's clients, the shared texts and the initial model. */
static sefl_status make_inputs(maker *m, char init[2 * SHA256_BYTES + 1])
{
    const experiment *e = m->s->e;
    const settings *set = m->c->settings;
    if (e->external) {
        uint8_t hash[SHA256_BYTES];
        SEFL_PASS(sefl_at(file_sha256(hash, NULL, e->init), "model.init"));
        hex_write(init, hash, sizeof hash);
        return SEFL_OK;
    }
    vocab_settings vs = experiment_vocab(e, set);
    SEFL_PASS(*e->data ? deal(m, &vs) : generate(m, &vs));
    return make_model(m->s, set, init);
}

sefl_status federation_new(federation **out, const federation_config *c)
{
    const experiment *e = c->experiment;
    maker m = { .c = c };
    char init[2 * SHA256_BYTES + 1];
    SEFL_MAKE(federation, s, out);
    m.s = s;
    s->e = e;
    s->ranks = c->ranks ? c->ranks : &ranks_one;
    s->clients = c->some > 0 && c->some < e->clients ? c->some : e->clients;
    SEFL_TRY(sefl_new(&s->text, s->clients, sizeof *s->text));
    SEFL_TRY(sefl_new(&s->client, s->clients, sizeof *s->client));
    for (uint32_t i = 0; i < s->clients; i++) {
        char name[48];
        snprintf(name, sizeof name, "simulated client %" PRIu32, i);
        sha256_of(s->client[i], span_of_str(name));
    }
    SEFL_TRY(ranks_agree(s->ranks, make_inputs(&m, init)));
    SEFL_TRY(count_text(s));
    SEFL_TRY(make_keys(s, c->settings, c->key, c->stop));
    SEFL_TRY(make_task(&m, init));
    *out = s, s = NULL;
done:
    buf_clear(&m.text);
    buf_clear(&m.valid);
    buf_clear(&m.test);
    federation_free(s);
    return st;
}

sefl_status federation_upload_key(sign_key **out, const federation *s, uint32_t client)
{
    seeded gen;
    sefl_rng rng = seeded_rng(&gen);
    char name[48];
    snprintf(name, sizeof name, "simulated upload key %" PRIu32, client);
    seeded_init(&gen, s->e->seed, name);
    return sign_key_new(out, &rng);
}

sefl_status federation_round_key(const federation *s, round_header *h)
{
    seal_key *key = NULL;
    if (!task_is_sealed(&s->task))
        return SEFL_OK;
    SEFL_PASS(seal_key_from(&key, s->task.seal, s->root));
    sefl_span pub = seal_key_pub(key);
    h->suite = s->task.seal->id;
    h->key_bytes = (uint16_t)pub.n;
    memcpy(h->key, pub.p, pub.n);
    seal_key_free(key);
    return SEFL_OK;
}

uint64_t federation_text(const federation *s)
{
    sha256 h;
    uint8_t digest[SHA256_BYTES];
    uint64_t name;
    sha256_init(&h);
    for (uint32_t i = 0; i < s->clients; i++)
        add_text(&h, &s->text[i]);
    add_text(&h, &s->valid);
    add_text(&h, &s->test);
    sha256_end(&h, digest);
    memcpy(&name, digest, sizeof name);
    return name ? name : 1;
}

void federation_key_clear(federation_key *k)
{
    paillier_sec_free(k->sec);
    *k = (federation_key){ 0 };
}

void federation_free(federation *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; s->text && i < s->clients; i++)
        corpus_clear(&s->text[i]);
    sefl_free(s->text);
    sefl_free(s->client);
    corpus_clear(&s->valid);
    corpus_clear(&s->test);
    vocab_free(s->words);
    sefl_free(s->theta);
    if (s->own_sec)
        paillier_sec_free(s->sec);
    sign_key_free(s->as_key);
    sign_key_free(s->csp_key);
    buf_clear(&s->envelope);
    task_clear(&s->task);
    sefl_free(s);
}
