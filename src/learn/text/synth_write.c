/* The generated corpus on disk. A client's split is one seeded stream ("synth 3 train"), so its
 * lines can be generated twice: once for the client's own file, and once for the pooled file, mixed
 * with the other clients' lines in a seeded order. Memory does not grow with the tokens. */
#include "base/hex.h"
#include "model/corpus/synth.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/outfile.h"
#include "model/corpus/corpus.h"
#include "model/corpus/dirichlet.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct client {
    double shares[SYNTH_TOPICS];
    double entropy;
    uint64_t tokens[CORPUS_SPLITS], lines[CORPUS_SPLITS];
    seeded gen; /* of the split being written */
} client;

typedef struct job {
    const char *dir;
    char path[PATH_MAX]; /* scratch */
    const synth_settings *settings;
    client *client;
    synth *source; /* with the mean shares of the clients */
    sefl_buf line;
    const sefl_progress *progress;
    uint64_t done, total; /* tokens */
} job;

static const char *path_of(job *j, int64_t who, const char *name)
{
    if (who < 0)
        snprintf(j->path, sizeof j->path, "%s/%s", j->dir, name);
    else
        snprintf(j->path, sizeof j->path, "%s/client-%03" PRId64 "%s%s", j->dir, who,
                 *name ? "/" : "", name);
    return j->path;
}

/* Returns the tokens per client of a split: a client starts a new line while it has fewer. */
static uint64_t quota(const job *j, int split)
{
    uint64_t all = split == CORPUS_TRAIN ? j->settings->tokens : j->settings->tokens / 10;
    uint64_t each = (all + j->settings->clients - 1) / j->settings->clients;
    return each ? each : 1;
}

static void start_stream(const job *j, uint32_t who, int split, seeded *gen)
{
    char name[64];
    snprintf(name, sizeof name, "synth %" PRIu32 " %s", who, corpus_split_names[split]);
    seeded_init(gen, j->settings->seed, name);
}

static sefl_status say(job *j, uint64_t tokens)
{
    uint64_t before = j->done >> 18;
    j->done += tokens;
    if (j->done >> 18 != before && !progress_report(j->progress, j->done, j->total))
        return sefl_fail(SEFL_ECANCELLED, "stopped while writing %s", j->dir);
    return SEFL_OK;
}

static sefl_status write_client(job *j, uint32_t who, int split)
{
    sefl_status st = SEFL_OK;
    outfile o = { 0 };
    client *c = &j->client[who];
    char name[16];
    snprintf(name, sizeof name, "%s.txt", corpus_split_names[split]);
    start_stream(j, who, split, &c->gen);
    SEFL_TRY(outfile_open(&o, path_of(j, who, name), 0644));
    while (c->tokens[split] < quota(j, split)) {
        uint64_t before = c->tokens[split];
        buf_reset(&j->line);
        SEFL_TRY(synth_line(j->source, c->shares, &j->line, &c->tokens[split], &c->gen));
        SEFL_TRY(outfile_put(&o, j->line.p, j->line.n));
        c->lines[split]++;
        SEFL_TRY(say(j, c->tokens[split] - before));
    }
    SEFL_TRY(outfile_publish(&o));
done:
    outfile_abort(&o);
    return st;
}

static sefl_status write_pooled(job *j, int split, synth_report *report)
{
    sefl_status st = SEFL_OK;
    outfile o = { 0 };
    uint32_t *left = NULL; /* clients that have lines to give */
    uint64_t *given = NULL;
    uint32_t n = j->settings->clients;
    double nats = 0;
    uint64_t scored = 0;
    seeded order;
    char name[32];
    SEFL_TRY(sefl_new(&left, n, sizeof *left));
    SEFL_TRY(sefl_new(&given, n, sizeof *given));
    for (uint32_t i = 0; i < n; i++) {
        left[i] = i;
        start_stream(j, i, split, &j->client[i].gen);
    }
    snprintf(name, sizeof name, "synth order %s", corpus_split_names[split]);
    seeded_init(&order, j->settings->seed, name);
    snprintf(name, sizeof name, "%s.txt", corpus_split_names[split]);
    SEFL_TRY(outfile_open(&o, path_of(j, -1, name), 0644));
    while (n > 0) {
        uint32_t at = (uint32_t)seeded_below(&order, n), who = left[at];
        uint64_t tokens = 0;
        buf_reset(&j->line);
        SEFL_TRY(
            synth_line(j->source, j->client[who].shares, &j->line, &tokens, &j->client[who].gen));
        SEFL_TRY(outfile_put(&o, j->line.p, j->line.n));
        SEFL_TRY(synth_score(j->source, span_of(j->line.p, j->line.n - 1), &nats, &scored));
        given[who] += tokens;
        report->tokens[split] += tokens;
        report->lines[split]++;
        if (given[who] >= quota(j, split))
            left[at] = left[--n];
        SEFL_TRY(say(j, tokens));
    }
    report->perplexity[split] = exp(nats / (double)scored);
    SEFL_TRY(outfile_publish(&o));
done:
    outfile_abort(&o);
    sefl_free(left);
    sefl_free(given);
    return st;
}

/* Draws every client's shares and sets the source to their mean. */
static sefl_status draw_clients(job *j)
{
    double mean[SYNTH_TOPICS] = { 0 }, sum = 0;
    uint32_t n = j->settings->clients;
    seeded gen;
    seeded_init(&gen, j->settings->seed, "synth shares");
    for (uint32_t i = 0; i < n; i++) {
        client *c = &j->client[i];
        if (n == 1) /* no other client to differ from */
            for (int t = 0; t < SYNTH_TOPICS; t++)
                c->shares[t] = 1.0 / SYNTH_TOPICS;
        else
            dirichlet_draw(c->shares, SYNTH_TOPICS,
                           j->settings->alpha > 0 ? j->settings->alpha : 0.5, &gen);
        for (int t = 0; t < SYNTH_TOPICS; t++)
            mean[t] += c->shares[t];
        SEFL_PASS(synth_mix(j->source, c->shares));
        c->entropy = synth_entropy(j->source);
    }
    for (int t = 0; t < SYNTH_TOPICS; t++)
        sum += mean[t];
    for (int t = 0; t < SYNTH_TOPICS; t++)
        mean[t] /= sum;
    return synth_mix(j->source, mean);
}

static sefl_status write_vocab(job *j, synth_report *report, char hash[2 * SHA256_BYTES + 1])
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    uint8_t digest[SHA256_BYTES];
    SEFL_TRY(wr_fmt(&b, "<unk>\n"));
    for (uint32_t i = 0; i < synth_words(j->source); i++)
        SEFL_TRY(wr_fmt(&b, "%s\n", synth_word(j->source, i)));
    sha256_of(digest, buf_span(&b));
    hex_write(hash, digest, sizeof digest);
    report->words = synth_words(j->source) + 1;
    SEFL_TRY(file_write_atomic(path_of(j, -1, "vocab.txt"), buf_span(&b), 0644));
done:
    buf_clear(&b);
    return st;
}

static sefl_status write_meta(job *j, const synth_report *r, const char *hash)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json o = json_into(&b);
    json_open(&o, '{');
    json_key(&o, "format"), json_str(&o, "sefl synth 1");
    json_key(&o, "seed"), json_u64(&o, j->settings->seed);
    json_key(&o, "clients"), json_u64(&o, j->settings->clients);
    json_key(&o, "tokens"), json_u64(&o, j->settings->tokens);
    json_key(&o, "alpha"), json_real(&o, j->settings->alpha > 0 ? j->settings->alpha : 0.5);
    json_key(&o, "vocabulary_words"), json_u64(&o, r->words);
    json_key(&o, "vocabulary_sha256"), json_str(&o, hash);
    json_key(&o, "entropy_nats_per_token"), json_real(&o, r->entropy);
    json_key(&o, "best_perplexity"), json_real(&o, r->best_perplexity);
    json_key(&o, "mean_line_tokens"), json_real(&o, synth_line_tokens(j->source));
    json_key(&o, "topics"), json_open(&o, '[');
    for (int t = 0; t < SYNTH_TOPICS; t++)
        json_str(&o, synth_topic_names[t]);
    json_close(&o, ']');
    json_key(&o, "splits"), json_open(&o, '{');
    for (int i = 0; i < CORPUS_SPLITS; i++) {
        json_key(&o, corpus_split_names[i]), json_open(&o, '{');
        json_key(&o, "tokens"), json_u64(&o, r->tokens[i]);
        json_key(&o, "lines"), json_u64(&o, r->lines[i]);
        json_key(&o, "source_perplexity"), json_real(&o, r->perplexity[i]);
        json_close(&o, '}');
    }
    json_close(&o, '}');
    json_key(&o, "client"), json_open(&o, '[');
    for (uint32_t i = 0; i < j->settings->clients; i++) {
        const client *c = &j->client[i];
        char name[32];
        snprintf(name, sizeof name, "client-%03" PRIu32, i);
        json_open(&o, '{');
        json_key(&o, "name"), json_str(&o, name);
        json_key(&o, "shares"), json_open(&o, '[');
        for (int t = 0; t < SYNTH_TOPICS; t++)
            json_real(&o, c->shares[t]);
        json_close(&o, ']');
        json_key(&o, "entropy_nats_per_token"), json_real(&o, c->entropy);
        json_key(&o, "best_perplexity"), json_real(&o, exp(c->entropy));
        json_key(&o, "train_tokens"), json_u64(&o, c->tokens[CORPUS_TRAIN]);
        json_close(&o, '}');
    }
    json_close(&o, ']');
    json_close(&o, '}');
    SEFL_TRY(json_end(&o));
    SEFL_TRY(wr_u8(&b, '\n'));
    SEFL_TRY(file_write_atomic(path_of(j, -1, "meta.json"), buf_span(&b), 0644));
done:
    buf_clear(&b);
    return st;
}

sefl_status synth_write(const char *dir, const synth_settings *settings, synth_report *report,
                        const sefl_progress *progress)
{
    sefl_status st = SEFL_OK;
    synth_report r = { 0 };
    char hash[2 * SHA256_BYTES + 1];
    job j = { .dir = dir, .settings = settings, .progress = progress };
    SEFL_CHECK(strlen(dir) + 64 <= PATH_MAX, SEFL_EINVAL, "the folder's path is too long");
    SEFL_CHECK(settings->clients >= 1 && settings->clients <= SYNTH_CLIENTS_MAX, SEFL_EINVAL,
               "%" PRIu32 " clients: must be 1 to %d", settings->clients, SYNTH_CLIENTS_MAX);
    SEFL_CHECK(settings->tokens >= 1 && settings->tokens <= SYNTH_TOKENS_MAX, SEFL_EINVAL,
               "%" PRIu64 " tokens: must be 1 to %" PRIu64, settings->tokens,
               (uint64_t)SYNTH_TOKENS_MAX);
    SEFL_CHECK(settings->alpha == 0 || (settings->alpha >= 0.001 && settings->alpha <= 1000),
               SEFL_EINVAL, "alpha is %g: must be 0.001 to 1000", settings->alpha);
    j.total = settings->tokens * 12 / 5; /* train and a tenth twice, both pooled and by client */
    SEFL_TRY(sefl_new(&j.client, settings->clients, sizeof *j.client));
    SEFL_TRY(synth_new(&j.source));
    SEFL_TRY(draw_clients(&j));
    r.entropy = synth_entropy(j.source);
    r.best_perplexity = exp(r.entropy);
    SEFL_TRY(file_make_folder(dir, 0755));
    for (uint32_t i = 0; i < settings->clients; i++) {
        SEFL_TRY(file_make_folder(path_of(&j, i, ""), 0755));
        for (int split = 0; split < CORPUS_SPLITS; split++)
            SEFL_TRY(write_client(&j, i, split));
    }
    for (int split = 0; split < CORPUS_SPLITS; split++)
        SEFL_TRY(write_pooled(&j, split, &r));
    SEFL_TRY(write_vocab(&j, &r, hash));
    SEFL_TRY(write_meta(&j, &r, hash)); /* last: it shows that the rest is complete */
    progress_report(progress, j.done, j.done);
    *report = r;
done:
    buf_clear(&j.line);
    synth_free(j.source);
    sefl_free(j.client);
    return st;
}
