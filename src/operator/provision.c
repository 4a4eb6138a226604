/* Everything is built in FOLDER.tmp-PID, one step after the other, and renamed at the end. A path is
 * asked for with in(); the root's length is checked first, so that none is ever cut. */
#define _GNU_SOURCE
#include "operator/provision.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/file.h"
#include "base/hex.h"
#include "crypto/keyfile.h"
#include "crypto/sign.h"
#include "model/corpus/corpus.h"
#include "model/corpus/partition.h"
#include "model/corpus/synth.h"
#include "model/file/model_file.h"
#include "operator/provision_ids.h"
#include "store/text_ledger.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_BYTES = 32, ROOT_MAX = PATH_MAX - 128, RING = 6, STEPS = 9, MODEL_BYTES_MAX = 1 << 30 };

typedef struct build {
    const provision_config *c;
    const sefl_progress *progress;
    unsigned step;
    char root[ROOT_MAX];
    char path[RING][PATH_MAX];
    unsigned next;
    unsigned width; /* digits of a client's number */
    uint32_t clients;
    settings task; /* the caller's, and what is filled in here */
    sign_key *as_key, *csp_key;
    paillier_sec *sec;
    vocab *v;
    provision_report report;
} build;

/* A path below the folder being built; valid until the sixth next call. */
static const char *in(build *b, const char *fmt, ...)SEFL_PRINTF(2, 3);
static const char *in(build *b, const char *fmt, ...)
{
    char *p = b->path[b->next++ % RING];
    va_list ap;
    int n = snprintf(p, PATH_MAX, "%s/", b->root);
    va_start(ap, fmt);
    n += vsnprintf(p + n, (size_t)(PATH_MAX - n), fmt, ap);
    va_end(ap);
    assert(n > 0 && n < PATH_MAX);
    return p;
}

static const char *client(build *b, uint32_t i, const char *file)
{
    return in(b, "clients/client-%0*" PRIu32 "/%s", (int)b->width, i + 1, file);
}

static sefl_status next_step(build *b)
{
    return progress_report(b->progress, b->step++, STEPS) ? SEFL_OK
                                                          : sefl_fail(SEFL_ECANCELLED, "stopped");
}

static sefl_status make_folder(const char *path)
{
    return mkdir(path, 0700) == 0
               ? SEFL_OK
               : sefl_fail(SEFL_EIO, "cannot make the folder %s: %s", path, strerror(errno));
}

/* ---- the folder ---------------------------------------------------------------------------- */

static sefl_status check_folder(const char *path)
{
    struct stat sb;
    if (lstat(path, &sb) != 0)
        return errno == ENOENT ? SEFL_OK : sefl_fail(SEFL_EIO, "%s: %s", path, strerror(errno));
    DIR *d = S_ISDIR(sb.st_mode) ? opendir(path) : NULL;
    if (!d)
        return sefl_fail(SEFL_EEXIST, "%s exists and is no folder", path);
    bool empty = true;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    closedir(d);
    return empty ? SEFL_OK : sefl_fail(SEFL_EEXIST, "%s is not empty: nothing is replaced", path);
}

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
    (void)sb, (void)flag, (void)ftw;
    return remove(path);
}

static void remove_all(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static sefl_status make_folders(build *b)
{
    static const char *const names[] = { "ca",         "ca/aggregator", "ca/csp", "public",
                                         "aggregator", "csp",           "clients" };
    sefl_status st = SEFL_OK;
    SEFL_TRY(make_folder(b->root));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        SEFL_TRY(make_folder(in(b, "%s", names[i])));
    for (uint32_t i = 0; i < b->clients; i++) {
        SEFL_TRY(make_folder(client(b, i, "")));
        SEFL_TRY(make_folder(client(b, i, "text")));
    }
done:
    return st;
}

/* ---- settings of the task -------------------------------------------------------------------- */

const provision_default provision_defaults[] = {
    { "name", "trial" },
    { "population", "trial" },
    { "model.embed", "48" },
    { "model.hidden", "48" },
    { "model.layers", "1" },
    { "model.block", "8" },
    { "model.batch", "5" },
    { "model.steps", "20" },
    { "training.epochs", "2" },
    { "training.dropout", "0" },
    { "privacy.noise", "joint" },
    { "privacy.claim", "none" },
    { "privacy.clip", "8" },
    { "privacy.z", "0.02" },
    { "rounds.count", "5" },
    { "rounds.deadline_ms", "60000" },
    { "rounds.extend_ms", "15000" },
    { "rounds.extensions", "1" },
    { NULL, NULL },
};

static sefl_status set(build *b, const char *key, const char *fmt, ...) SEFL_PRINTF(3, 4);
static sefl_status set(build *b, const char *key, const char *fmt, ...)
{
    char value[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    return settings_set_pair(&b->task, span_of_str(key), span_of_str(value), "provision");
}

static bool says(const build *b, const char *key, const char *word)
{
    return strcmp(settings_text(&b->task, key), word) == 0;
}

static sefl_status start_settings(build *b)
{
    sefl_status st = SEFL_OK;
    const settings *mine = b->c->task;
    settings_init(&b->task, task_schema);
    for (const provision_default *d = provision_defaults; d->key; d++)
        SEFL_TRY(set(b, d->key, "%s", d->value));
    SEFL_TRY(set(b, "rounds.enrolled", "%" PRIu32, b->clients));
    for (size_t i = 0; mine && i < mine->count; i++)
        if (mine->value[i])
            SEFL_TRY(settings_set_pair(&b->task, span_of_str(mine->schema[i].key),
                                       span_of_str(mine->value[i]), mine->origin[i]));
    if ((!mine || !settings_given(mine, "privacy.z")) && says(b, "privacy.noise", "none"))
        SEFL_TRY(set(b, "privacy.z", "0"));
    /* a quarter may stay away; rounds end when all are in, where that takes no claim away */
    if (!mine || !settings_given(mine, "rounds.threshold"))
        SEFL_TRY(set(b, "rounds.threshold", "%" PRIu32, b->clients < 8 ? 2 : b->clients / 4));
    if ((!mine || !settings_given(mine, "rounds.enough")) && says(b, "privacy.sampling", "all"))
        SEFL_TRY(set(b, "rounds.enough", "%" PRIu32, b->clients));
done:
    return st;
}

/* ---- identities ---------------------------------------------------------------------------- */

static sefl_status make_identities(build *b)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(provision_identities(b->root, b->clients, b->width));
    SEFL_TRY(sign_key_read(&b->as_key, in(b, "aggregator/sign.key")));
    SEFL_TRY(sign_key_read(&b->csp_key, in(b, "csp/sign.key")));
done:
    return st;
}

/* CSP's secret: the root of its round keys, or the Paillier pair of the task. */
static sefl_status make_key(build *b)
{
    /* 32 random bytes need no stretching: what Argon2id is for are passphrases */
    static const sealed_cost cost = { .passes = 1, .kib = 8192 };
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    uint8_t lock[LOCK_BYTES], root[KEYFILE_ROOT_BYTES];
    sealed_lock l = { .by = SEALED_BY_KEY_FILE, .secret = span_of(lock, sizeof lock) };
    sefl_buf sec_file = { 0 }, pub_file = { 0 };
    bool pair = !says(b, "crypto.scheme", "pad");
    SEFL_CHECK(pair || !b->c->key_bits, SEFL_EINVAL,
               "a key of %u bits is for scheme paillier; with pad CSP has a root", b->c->key_bits);
    SEFL_TRY(rng_fill(&rng, lock, sizeof lock));
    if (pair) {
        unsigned bits = b->c->key_bits ? b->c->key_bits : PAILLIER_BITS_DEFAULT;
        SEFL_TRY(paillier_keygen_vartime(&b->sec, bits, &rng, NULL));
        SEFL_TRY(keyfile_sec_write(&sec_file, b->sec, &l, &cost, &rng));
        SEFL_TRY(keyfile_pub_write(&pub_file, paillier_sec_pub(b->sec)));
        SEFL_TRY(file_write_new(in(b, "public/key.pub"), buf_span(&pub_file), 0644));
    } else {
        SEFL_TRY(rng_fill(&rng, root, sizeof root));
        SEFL_TRY(keyfile_root_write(&sec_file, root, &l, &cost, &rng));
    }
    SEFL_TRY(file_write_new(in(b, "csp/key.lock"), span_of(lock, sizeof lock), 0600));
    SEFL_TRY(file_write_new(in(b, "csp/key.sealed"), buf_span(&sec_file), 0600));
done:
    sefl_wipe(lock, sizeof lock);
    sefl_wipe(root, sizeof root);
    buf_clear(&sec_file);
    buf_clear(&pub_file);
    return st;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void note_tokens(build *b, uint64_t tokens)
{
    provision_report *r = &b->report;
    if (r->tokens_least == 0 || tokens < r->tokens_least)
        r->tokens_least = tokens;
    if (tokens > r->tokens_most)
        r->tokens_most = tokens;
}

static sefl_status move(const char *to, const char *from)
{
    return rename(from, to) == 0 ? SEFL_OK : sefl_fail(SEFL_EIO, "%s: %s", to, strerror(errno));
}

static sefl_status make_generated_text(build *b)
{
    sefl_status st = SEFL_OK;
    synth_report r;
    uint64_t words = b->c->words ? b->c->words : PROVISION_WORDS;
    const uint32_t clients = b->clients;
    assert(clients > 0);
    synth_settings s = { .clients = clients, .tokens = words * clients, .seed = b->c->seed };
    SEFL_CHECK(words <= SYNTH_TOKENS_MAX / clients, SEFL_EINVAL, "%" PRIu64 " words a client",
               words);
    SEFL_TRY(synth_write(in(b, "synth"), &s, &r, NULL));
    for (uint32_t i = 0; i < clients; i++)
        SEFL_TRY(
            move(client(b, i, "text/train.txt"), in(b, "synth/client-%03" PRIu32 "/train.txt", i)));
    note_tokens(b, r.tokens[CORPUS_TRAIN] / clients);
    b->report.best_perplexity = r.perplexity[CORPUS_VALID];
    SEFL_TRY(move(in(b, "public/valid.txt"), in(b, "synth/valid.txt")));
    SEFL_TRY(move(in(b, "words.txt"), in(b, "synth/vocab.txt")));
    remove_all(in(b, "synth"));
done:
    return st;
}

static sefl_status deal_text(build *b, const corpus_file *f)
{
    sefl_status st = SEFL_OK;
    vocab *words = NULL; /* only to write what was read */
    corpus all = { 0 }, part = { 0 };
    partition p = { 0 };
    bool text = corpus_format_of(f) == CORPUS_TEXT;
    SEFL_TRY(vocab_new(&words));
    SEFL_TRY(corpus_count(words, f, NULL));
    SEFL_TRY(vocab_finish(words, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    SEFL_TRY(corpus_read(&all, words, f, NULL));
    st = partition_make(&p, &all,
                        &(partition_settings){
                            .kind = PARTITION_ARTICLE, .clients = b->clients, .seed = b->c->seed });
    if (st != SEFL_OK) {
        sefl_note_before("%s", f->path);
        goto done;
    }
    for (uint32_t i = 0; i < b->clients; i++) {
        SEFL_TRY(partition_take(&part, &all, &p, i));
        SEFL_TRY(corpus_write(
            &part, words,
            &(corpus_file){ .path = client(b, i, text ? "text/train.txt" : "text/train.jsonl") }));
        note_tokens(b, part.tokens);
        corpus_clear(&part);
    }
done:
    partition_clear(&p);
    corpus_clear(&part);
    corpus_clear(&all);
    vocab_free(words);
    return st;
}

static sefl_status make_dealt_text(build *b)
{
    sefl_status st = SEFL_OK;
    corpus_paths paths = { 0 };
    vocab *words = NULL;
    corpus valid = { 0 };
    SEFL_TRY(corpus_paths_find(&paths, b->c->data));
    SEFL_CHECK(paths.path[CORPUS_VALID] || b->c->vocab, SEFL_EINVAL,
               "%s has no validation text; without it a public word list is needed (--vocab)",
               b->c->data);
    SEFL_TRY(deal_text(b, &(corpus_file){ .path = paths.path[CORPUS_TRAIN] }));
    if (!paths.path[CORPUS_VALID])
        goto done;
    corpus_file f = { .path = paths.path[CORPUS_VALID] };
    SEFL_TRY(vocab_new(&words));
    SEFL_TRY(corpus_count(words, &f, NULL));
    SEFL_TRY(vocab_finish(words, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    SEFL_TRY(corpus_read(&valid, words, &f, NULL));
    SEFL_TRY(corpus_write(&valid, words, &(corpus_file){ .path = in(b, "public/valid.txt") }));
done:
    corpus_clear(&valid);
    vocab_free(words);
    corpus_paths_clear(&paths);
    return st;
}

/* ---- public beginnings ------------------------------------------------------------------------ */

/* Each word of the list once more: the generator's list has no counts. */
static sefl_status count_list(vocab *v, const char *path)
{
    sefl_status st = SEFL_OK;
    vocab *list = NULL;
    SEFL_TRY(vocab_read(&list, path, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    for (uint32_t i = 0; i < vocab_size(list); i++)
        if (i != vocab_unk(list) && i != vocab_eos(list))
            SEFL_TRY(vocab_count(v, vocab_word(list, i)));
done:
    vocab_free(list);
    return st;
}

/* Counts come from public text only: the validation text. */
static sefl_status make_vocab(build *b)
{
    sefl_status st = SEFL_OK;
    vocab_settings s = { .block = (uint32_t)settings_u64(&b->task, "model.block") };
    SEFL_TRY(vocab_order_parse(&s.order, settings_text(&b->task, "vocab.order")));
    if (b->c->vocab) {
        SEFL_TRY(vocab_read(&b->v, b->c->vocab, &s));
    } else {
        SEFL_TRY(vocab_new(&b->v));
        SEFL_TRY(corpus_count(b->v, &(corpus_file){ .path = in(b, "public/valid.txt") }, NULL));
        if (!b->c->data)
            SEFL_TRY(count_list(b->v, in(b, "words.txt")));
        SEFL_TRY(vocab_finish(b->v, &s));
    }
    if (!b->c->data)
        (void)unlink(in(b, "words.txt"));
    SEFL_TRY(vocab_write(b->v, in(b, "public/vocab.txt"), false));
    b->report.words = vocab_size(b->v);
done:
    return st;
}

/* A file's SHA-256 as settings want it. */
static sefl_status set_hash(build *b, const char *key, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    uint8_t hash[SHA256_BYTES];
    char hex[HEX_CHARS(SHA256_BYTES)];
    SEFL_TRY(file_read(&file, path, MODEL_BYTES_MAX));
    sha256_of(hash, buf_span(&file));
    SEFL_TRY(set(b, key, "%s", hex_write(hex, hash, sizeof hash)));
done:
    buf_clear(&file);
    return st;
}

static sefl_status make_model(build *b)
{
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    model_meta meta = { 0 };
    lm_config cfg = { .body = settings_text(&b->task, "model.body"),
                      .vocab = vocab_size(b->v),
                      .embed = (uint32_t)settings_u64(&b->task, "model.embed"),
                      .hidden = (uint32_t)settings_u64(&b->task, "model.hidden"),
                      .layers = (uint32_t)settings_u64(&b->task, "model.layers"),
                      .heads = (uint32_t)settings_u64(&b->task, "model.heads"),
                      .block = (uint32_t)settings_u64(&b->task, "model.block"),
                      .tied = settings_bool(&b->task, "model.tied"),
                      .batch = (uint32_t)settings_u64(&b->task, "model.batch"),
                      .steps = (uint32_t)settings_u64(&b->task, "model.steps") };
    SEFL_TRY(lm_new(&m, &cfg, NULL));
    lm_init(m, b->c->seed);
    meta.cfg = *lm_get_config(m);
    model_meta_set_vocab(&meta, b->v);
    SEFL_TRY(model_write(in(b, "public/init.safetensors"), &meta, lm_theta(m)));
    SEFL_TRY(set(b, "model.vocab", "%" PRIu32, vocab_size(b->v)));
    SEFL_TRY(set_hash(b, "vocab.sha256", in(b, "public/vocab.txt")));
    SEFL_TRY(set_hash(b, "init.sha256", in(b, "public/init.safetensors")));
    if (file_exists(in(b, "public/valid.txt")))
        SEFL_TRY(set_hash(b, "valid.sha256", in(b, "public/valid.txt")));
done:
    lm_free(m);
    return st;
}

/* ---- the task, signed by both ------------------------------------------------------------------ */

static sefl_status make_task(build *b)
{
    sefl_status st = SEFL_OK;
    sefl_buf document = { 0 }, signed_ = { 0 };
    task t = { 0 };
    pinned keys;
    memcpy(keys.as, sign_key_pub(b->as_key), sizeof keys.as);
    memcpy(keys.csp, sign_key_pub(b->csp_key), sizeof keys.csp);
    SEFL_TRY(task_make(&document, &b->task, b->sec ? paillier_sec_pub(b->sec) : NULL, &keys));
    envelope env = { .kind = SIGN_TASK, .content = buf_span(&document) };
    SEFL_TRY(envelope_sign(&env, SIGNER_AS, b->as_key));
    SEFL_TRY(envelope_sign(&env, SIGNER_CSP, b->csp_key));
    SEFL_TRY(envelope_write(&signed_, &env));
    SEFL_TRY(task_open(&t, buf_span(&signed_), &keys)); /* as every client will */
    SEFL_TRY(file_write_new(in(b, "public/task.json"), buf_span(&document), 0644));
    SEFL_TRY(file_write_new(in(b, "public/task.signed"), buf_span(&signed_), 0644));
    SEFL_TRY(ledger_create(in(b, "aggregator/ledger"), t.population));
    SEFL_TRY(ledger_create(in(b, "csp/ledger"), t.population));
    for (uint32_t i = 0; i < b->clients; i++)
        SEFL_TRY(text_ledger_create(client(b, i, "ledger"), client(b, i, "text")));
    memcpy(b->report.task, t.id, sizeof b->report.task);
    b->report.values = t.values;
    b->report.update_bytes = task_body_bytes(&t);
done:
    task_clear(&t);
    buf_clear(&document);
    buf_clear(&signed_);
    return st;
}

/* ---- configuration ----------------------------------------------------------------------------- */

static const char tls_lines[] = "tls:\n"
                                "  cert: cert.pem\n"
                                "  key: key.pem\n"
                                "  peers: peers.pem\n";

static const char lock_line[] = "memory_lock: try # required (the default) where the keys matter\n";

/* "name: 127.0.0.1:port", or a line that says where it will come from. */
static sefl_status wr_peer(sefl_buf *out, const char *name, unsigned port)
{
    if (port)
        return wr_fmt(out, "%s: 127.0.0.1:%u\n", name, port);
    return wr_fmt(out, "# %s: host:port is given with --%s: the system chooses the port\n", name,
                  name);
}

static sefl_status write_servers(build *b, sefl_buf *text)
{
    sefl_status st = SEFL_OK;
    unsigned base = b->c->port_base;
    bool valid = file_exists(in(b, "public/valid.txt"));
    SEFL_TRY(wr_fmt(text,
                    "# the aggregation server of a trial federation\n"
                    "listen: 127.0.0.1:%u\n",
                    base));
    SEFL_TRY(wr_peer(text, "csp", base ? base + 1 : 0));
    SEFL_TRY(wr_fmt(text,
                    "%s  csp_peers: csp_peers.pem\n"
                    "ca: ../ca/aggregator\n"
                    "sign_key: sign.key\n"
                    "task: ../public/task.signed\n"
                    "vocab: ../public/vocab.txt\n"
                    "init: ../public/init.safetensors\n"
                    "%s"
                    "state: state\n"
                    "models: models\n"
                    "ledger: ledger\n"
                    "%s"
                    "ready_file: ready\n",
                    tls_lines, valid ? "valid: ../public/valid.txt\n" : "", lock_line));
    SEFL_TRY(file_write_new(in(b, "aggregator/aggregator.yml"), buf_span(text), 0600));
    buf_reset(text);
    SEFL_TRY(wr_fmt(text,
                    "# the cryptography service provider of a trial federation\n"
                    "listen: 127.0.0.1:%u\n"
                    "%sca: ../ca/csp\n"
                    "sign_key: sign.key\n"
                    "key: key.sealed\n"
                    "key_lock: key.lock\n"
                    "task: ../public/task.signed\n"
                    "state: state\n"
                    "ledger: ledger\n"
                    "%s"
                    "ready_file: ready\n",
                    base ? base + 1 : 0, tls_lines, lock_line));
    SEFL_TRY(file_write_new(in(b, "csp/csp.yml"), buf_span(text), 0600));
done:
    return st;
}

static sefl_status write_clients(build *b, sefl_buf *text)
{
    sefl_status st = SEFL_OK;
    bool none = says(b, "privacy.claim", "none");
    buf_reset(text);
    SEFL_TRY(wr_fmt(text, "# a client of a trial federation\n"));
    SEFL_TRY(wr_peer(text, "server", b->c->port_base));
    SEFL_TRY(wr_fmt(text,
                    "%saggregator_key: aggregator.pub\n"
                    "csp_key: csp.pub\n"
                    "policy: policy.yml\n"
                    "text: text\n"
                    "state: state\n"
                    "ledger: ledger\n"
                    "threads: 1 # all clients share one machine here\n",
                    tls_lines));
    for (uint32_t i = 0; i < b->clients; i++)
        SEFL_TRY(file_write_new(client(b, i, "client.yml"), buf_span(text), 0600));
    buf_reset(text);
    SEFL_TRY(wr_fmt(text,
                    "# what this client's owner allows: a task outside it is refused\n"
                    "clients_min: %s\n"
                    "noise_modes: %s\n"
                    "claim_none: %s\n",
                    settings_text(&b->task, "rounds.threshold"),
                    settings_text(&b->task, "privacy.noise"), none ? "true" : "false"));
    if (!none)
        SEFL_TRY(wr_fmt(text,
                        "epsilon_per_task: %s\n"
                        "epsilon_total: %s\n",
                        settings_text(&b->task, "privacy.epsilon"),
                        settings_text(&b->task, "privacy.epsilon")));
    for (uint32_t i = 0; i < b->clients; i++)
        SEFL_TRY(file_write_new(client(b, i, "policy.yml"), buf_span(text), 0600));
done:
    return st;
}

static sefl_status write_configs(build *b)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    SEFL_TRY(write_servers(b, &text));
    SEFL_TRY(write_clients(b, &text));
done:
    buf_clear(&text);
    return st;
}

/* ---- all of it --------------------------------------------------------------------------------- */

sefl_status provision_make(provision_report *out, const provision_config *c,
                           const sefl_progress *progress)
{
    static sefl_status (*const steps[STEPS])(build *) = {
        make_folders, make_identities, make_key, NULL /* text */, make_vocab, make_model,
        make_task,    write_configs,   NULL /* rename */
    };
    sefl_status st = SEFL_OK;
    build *b = NULL;
    bool begun = false;

    SEFL_TRY(sefl_new(&b, 1, sizeof *b));
    b->c = c;
    b->progress = progress;
    b->clients = c->clients ? c->clients : 8;
    b->width = b->clients < 100 ? 2 : b->clients < 1000 ? 3 : 4;
    size_t n = strlen(c->folder);
    while (n > 1 && c->folder[n - 1] == '/')
        n--;
    SEFL_CHECK(n > 0 && n + 32 < sizeof b->root, SEFL_EINVAL, "no folder's name");
    SEFL_CHECK(b->clients >= 2 && b->clients <= PROVISION_CLIENTS_MAX, SEFL_EINVAL,
               "a federation has 2 to %d clients here, not %" PRIu32, PROVISION_CLIENTS_MAX,
               b->clients);
    SEFL_CHECK(c->port_base < 65535, SEFL_EINVAL, "no port follows %u", c->port_base);
    SEFL_TRY(start_settings(b));
    SEFL_TRY(check_folder(c->folder));
    snprintf(b->root, sizeof b->root, "%.*s.tmp-%ld", (int)n, c->folder, (long)getpid());
    SEFL_TRY(check_folder(b->root));
    begun = true;
    for (unsigned i = 0; i < STEPS - 1; i++) {
        SEFL_TRY(next_step(b));
        if (steps[i])
            SEFL_TRY(steps[i](b));
        else
            SEFL_TRY(c->data ? make_dealt_text(b) : make_generated_text(b));
    }
    SEFL_TRY(next_step(b));
    SEFL_CHECK(rename(b->root, c->folder) == 0, SEFL_EIO, "%s: %s", c->folder, strerror(errno));
    begun = false;
    b->report.clients = b->clients;
    *out = b->report;
done:
    if (begun)
        remove_all(b->root);
    if (b) {
        sign_key_free(b->as_key);
        sign_key_free(b->csp_key);
        paillier_sec_free(b->sec);
        vocab_free(b->v);
        settings_clear(&b->task);
    }
    sefl_free(b);
    return st;
}
