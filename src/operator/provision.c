/* The steps build the federation in FOLDER.tmp-PID; the last step renames it. */
#define _GNU_SOURCE
#include "operator/provision.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/hex.h"
#include "config/example.h"
#include "crypto/keyfile.h"
#include "crypto/sign.h"
#include "model/corpus/corpus.h"
#include "model/corpus/partition.h"
#include "model/corpus/synth.h"
#include "model/file/exchange.h"
#include "model/file/model_file.h"
#include "operator/provision_ids.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "protocol/task_model.h"
#include "roles/aggregator/aggregator.h"
#include "roles/client/config.h"
#include "roles/csp/csp_role.h"
#include "store/ledger.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOCK_BYTES = 32 };
#define INIT_MAX (UINT64_C(16) << 30) /* bytes of an initial model */

typedef struct build {
    const provision_config *c;
    dir_tree at;    /* the folder being built */
    unsigned width; /* number of digits in a client's number */
    uint32_t clients;
    settings task; /* the caller's settings and our defaults */
    bool external;
    sign_key *as_key, *csp_key;
    paillier_sec *sec;
    vocab *v;
    provision_report report;
} build;

static const char *client(build *b, uint32_t i, const char *file)
{
    return dir_in(&b->at, "clients/client-%0*" PRIu32 "/%s", (int)b->width, i + 1, file);
}

/* ---- the folder ------------------------------------------------------------------------- */

static sefl_status make_folders(build *b)
{
    static const char *const names[] = { "ca",         "ca/aggregator", "ca/csp", "public",
                                         "aggregator", "csp",           "clients" };
    SEFL_PASS(file_make_folder(b->at.root, 0700));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        SEFL_PASS(file_make_folder(dir_in(&b->at, "%s", names[i]), 0700));
    for (uint32_t i = 0; i < b->clients; i++)
        SEFL_PASS(file_make_folder(client(b, i, ""), 0700));
    return SEFL_OK;
}

/* ---- settings of the task --------------------------------------------------------------- */

/* Defaults for settings that the caller does not give, beside those of task_small. */
static const char *const defaults[] = {
    "name=trial",     "population=trial",       "training.epochs=2",
    "rounds.count=5", "rounds.extend_ms=15000", NULL
};

#define SET(b, ...) settings_setf(&(b)->task, "provision", __VA_ARGS__)

static bool is(const build *b, const char *key, const char *word)
{
    return strcmp(settings_text(&b->task, key), word) == 0;
}

/* True if the caller does not give this setting. */
static bool is_free(const build *b, const char *key)
{
    return !b->c->task || !settings_given(b->c->task, key);
}

/* An external model has no settings of its body and of its training. */
static sefl_status set_default(build *b, const char *pair)
{
    if (b->external && (strncmp(pair, "model.", 6) == 0 || strncmp(pair, "training.", 9) == 0))
        return SEFL_OK;
    return SET(b, "%s", pair);
}

static sefl_status start_settings(build *b)
{
    b->external = b->c->task && task_settings_external(b->c->task);
    SEFL_NEED(!b->external || (!b->c->data && !b->c->vocab), SEFL_EINVAL,
              "model.body is external: the task has no text and no word list");
    SEFL_NEED(
        !b->external || b->c->init || *settings_text(b->c->task, "model.tensors"), SEFL_EINVAL,
        "model.body is external: the task needs --init, a safetensors file, or model.tensors");
    settings_init(&b->task, task_schema);
    for (const char *const *d = task_small; *d; d++)
        SEFL_PASS(set_default(b, *d));
    for (const char *const *d = defaults; *d; d++)
        SEFL_PASS(set_default(b, *d));
    SEFL_PASS(SET(b, "rounds.enrolled=%" PRIu32, b->clients));
    if (b->c->task)
        SEFL_PASS(settings_overlay(&b->task, b->c->task));
    if (is_free(b, "privacy.z") && !task_settings_mode(&b->task)->noisy)
        SEFL_PASS(SET(b, "privacy.z=0"));
    /* a quarter is enough; a round ends when all uploads are in, unless that weakens the claim */
    if (is_free(b, "rounds.threshold"))
        SEFL_PASS(SET(b, "rounds.threshold=%" PRIu32, b->clients < 8 ? 2 : b->clients / 4));
    if (is_free(b, "rounds.enough") && is(b, "privacy.sampling", "all"))
        SEFL_PASS(SET(b, "rounds.enough=%" PRIu32, b->clients));
    return SEFL_OK;
}

/* ---- identities ------------------------------------------------------------------------- */

static sefl_status make_identities(build *b)
{
    SEFL_PASS(provision_identities(b->at.root, b->clients, b->width));
    SEFL_PASS(sign_key_read(&b->as_key, dir_in(&b->at, "aggregator/sign.key")));
    return sign_key_read(&b->csp_key, dir_in(&b->at, "csp/sign.key"));
}

/* Creates CSP's secret: the root of its round keys, or the Paillier pair of the task. */
static sefl_status make_key(build *b)
{
    /* 32 random bytes need no key stretching: Argon2id is for passphrases */
    static const sealed_cost cost = { .passes = 1, .kib = 8192 };
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    uint8_t lock[LOCK_BYTES], root[KEYFILE_ROOT_BYTES];
    sealed_lock l = { .by = SEALED_BY_KEY_FILE, .secret = span_of(lock, sizeof lock) };
    sefl_buf sec_file = { 0 }, pub_file = { 0 };
    bool pair = !is(b, "crypto.scheme", "pad");
    SEFL_CHECK(
        pair || !b->c->key_bits, SEFL_EINVAL,
        "a key of %u bits is for the scheme paillier: omit --bits, because pad has a root key",
        b->c->key_bits);
    SEFL_TRY(rng_fill(&rng, lock, sizeof lock));
    if (pair) {
        unsigned bits = b->c->key_bits ? b->c->key_bits : PAILLIER_BITS_DEFAULT;
        SEFL_TRY(paillier_keygen_vartime(&b->sec, bits, &rng, NULL));
        SEFL_TRY(keyfile_sec_write(&sec_file, b->sec, &l, &cost, &rng));
        SEFL_TRY(keyfile_pub_write(&pub_file, paillier_sec_pub(b->sec)));
        SEFL_TRY(file_write_new(dir_in(&b->at, "public/key.pub"), buf_span(&pub_file), 0644));
    } else {
        SEFL_TRY(rng_fill(&rng, root, sizeof root));
        SEFL_TRY(keyfile_root_write(&sec_file, root, &l, &cost, &rng));
    }
    SEFL_TRY(file_write_new(dir_in(&b->at, "csp/key.lock"), span_of(lock, sizeof lock), 0600));
    SEFL_TRY(file_write_new(dir_in(&b->at, "csp/key.sealed"), buf_span(&sec_file), 0600));
done:
    sefl_wipe(lock, sizeof lock);
    sefl_wipe(root, sizeof root);
    buf_clear(&sec_file);
    buf_clear(&pub_file);
    return st;
}

/* ---- text ------------------------------------------------------------------------------- */

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
    synth_report r;
    uint64_t words = b->c->words ? b->c->words : PROVISION_WORDS;
    const uint32_t clients = b->clients;
    assert(clients > 0);
    synth_settings s = { .clients = clients, .tokens = words * clients, .seed = b->c->seed };
    SEFL_NEED(words <= SYNTH_TOKENS_MAX / clients, SEFL_EINVAL,
              "%" PRIu64 " words per client are too many", words);
    SEFL_PASS(synth_write(dir_in(&b->at, "synth"), &s, &r, NULL));
    for (uint32_t i = 0; i < clients; i++)
        SEFL_PASS(move(client(b, i, "text/train.txt"),
                       dir_in(&b->at, "synth/client-%03" PRIu32 "/train.txt", i)));
    note_tokens(b, r.tokens[CORPUS_TRAIN] / clients);
    b->report.best_perplexity = r.perplexity[CORPUS_VALID];
    SEFL_PASS(move(dir_in(&b->at, "public/valid.txt"), dir_in(&b->at, "synth/valid.txt")));
    SEFL_PASS(move(dir_in(&b->at, "words.txt"), dir_in(&b->at, "synth/vocab.txt")));
    dir_remove(dir_in(&b->at, "synth"));
    return SEFL_OK;
}

/* Reads a text with its own words as the vocabulary, so that it can be written back. */
static sefl_status read_text(corpus *out, vocab **words, const corpus_file *f)
{
    SEFL_PASS(vocab_new(words));
    SEFL_PASS(corpus_count(*words, f, NULL));
    SEFL_PASS(vocab_finish(*words, &(vocab_settings){ .order = VOCAB_APPEARANCE }));
    return corpus_read(out, *words, f, NULL);
}

static sefl_status deal_text(build *b, const corpus_file *f)
{
    sefl_status st = SEFL_OK;
    vocab *words = NULL;
    corpus all = { 0 }, part = { 0 };
    partition p = { 0 };
    bool text = corpus_format_of(f) == CORPUS_TEXT;
    SEFL_TRY(read_text(&all, &words, f));
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
               "%s has no validation text: give a public word list with --vocab", b->c->data);
    SEFL_TRY(deal_text(b, &(corpus_file){ .path = paths.path[CORPUS_TRAIN] }));
    if (!paths.path[CORPUS_VALID])
        goto done;
    corpus_file f = { .path = paths.path[CORPUS_VALID] };
    SEFL_TRY(read_text(&valid, &words, &f));
    SEFL_TRY(
        corpus_write(&valid, words, &(corpus_file){ .path = dir_in(&b->at, "public/valid.txt") }));
done:
    corpus_clear(&valid);
    vocab_free(words);
    corpus_paths_clear(&paths);
    return st;
}

static sefl_status make_text(build *b)
{
    if (b->external)
        return SEFL_OK;
    return b->c->data ? make_dealt_text(b) : make_generated_text(b);
}

/* ---- public files ------------------------------------------------------------------ */

/* Counts each word of the list once: the generator's list has no counts. */
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

/* Counts words only in public text: the validation text. */
static sefl_status make_vocab(build *b)
{
    if (b->external)
        return SEFL_OK;
    lm_config cfg;
    task_settings_model(&cfg, &b->task, 0);
    vocab_settings s = { .order = (vocab_order)settings_choice(&b->task, "vocab.order"),
                         .block = lm_config_word_block(&cfg) };
    if (b->c->vocab) {
        SEFL_PASS(vocab_read(&b->v, b->c->vocab, &s));
    } else {
        SEFL_PASS(vocab_new(&b->v));
        SEFL_PASS(
            corpus_count(b->v, &(corpus_file){ .path = dir_in(&b->at, "public/valid.txt") }, NULL));
        if (!b->c->data)
            SEFL_PASS(count_list(b->v, dir_in(&b->at, "words.txt")));
        SEFL_PASS(vocab_finish(b->v, &s));
    }
    if (!b->c->data)
        (void)unlink(dir_in(&b->at, "words.txt"));
    SEFL_PASS(vocab_write(b->v, dir_in(&b->at, "public/vocab.txt"), false));
    b->report.words = vocab_size(b->v);
    return SEFL_OK;
}

/* Sets `key` to a file's SHA-256. */
static sefl_status set_hash(build *b, const char *key, const char *path)
{
    uint8_t hash[SHA256_BYTES];
    char hex[HEX_CHARS(SHA256_BYTES)];
    SEFL_PASS(file_sha256(hash, NULL, path));
    return SET(b, "%s=%s", key, hex_write(hex, hash, sizeof hash));
}

/* Copies the given initial model. */
static sefl_status copy_init(build *b)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    SEFL_TRY(file_read(&file, b->c->init, INIT_MAX));
    SEFL_TRY(file_write_new(dir_in(&b->at, "public/init.safetensors"), buf_span(&file), 0644));
    SEFL_TRY(set_hash(b, "init.sha256", dir_in(&b->at, "public/init.safetensors")));
done:
    buf_clear(&file);
    return st;
}

/* An external model without an initial one starts from zeros. */
static sefl_status write_zeros(build *b)
{
    sefl_status st = SEFL_OK;
    const char *path = dir_in(&b->at, "public/init.safetensors");
    layout l = { 0 };
    float *zeros = NULL;
    SEFL_TRY(layout_parse(&l, settings_text(&b->task, "model.tensors"), 1));
    SEFL_TRY(sefl_new(&zeros, l.dense, sizeof *zeros));
    SEFL_TRY(exchange_write(path, &l, zeros));
    SEFL_TRY(set_hash(b, "init.sha256", path));
done:
    sefl_free(zeros);
    layout_clear(&l);
    return st;
}

static sefl_status make_model(build *b)
{
    if (b->external && !b->c->init)
        return write_zeros(b);
    if (b->external) {
        SEFL_PASS(task_settings_tensors(&b->task, b->c->init));
        return copy_init(b); /* make_task compares it with the task */
    }
    sefl_status st = SEFL_OK;
    lm *m = NULL;
    model_meta meta = { 0 };
    lm_config cfg;
    task_settings_model(&cfg, &b->task, vocab_size(b->v));
    SEFL_TRY(lm_new(&m, &cfg, NULL));
    lm_init(m, b->c->seed);
    meta.cfg = *lm_get_config(m);
    model_meta_set_vocab(&meta, b->v);
    if (b->c->init) {
        SEFL_TRY(copy_init(b)); /* make_task compares it with the task */
    } else {
        SEFL_TRY(model_write(dir_in(&b->at, "public/init.safetensors"), &meta, lm_theta(m)));
        SEFL_TRY(set_hash(b, "init.sha256", dir_in(&b->at, "public/init.safetensors")));
    }
    SEFL_TRY(SET(b, "model.vocab=%" PRIu32, vocab_size(b->v)));
    SEFL_TRY(set_hash(b, "vocab.sha256", dir_in(&b->at, "public/vocab.txt")));
    if (file_exists(dir_in(&b->at, "public/valid.txt")))
        SEFL_TRY(set_hash(b, "valid.sha256", dir_in(&b->at, "public/valid.txt")));
done:
    lm_free(m);
    return st;
}

/* ---- the task, signed by both ----------------------------------------------------------- */

static sefl_status make_task(build *b)
{
    sefl_status st = SEFL_OK;
    sefl_buf document = { 0 }, signed_ = { 0 };
    task t = { 0 };
    float *theta = NULL;
    pinned keys;
    memcpy(keys.as, sign_key_pub(b->as_key), sizeof keys.as);
    memcpy(keys.csp, sign_key_pub(b->csp_key), sizeof keys.csp);
    SEFL_TRY(task_make(&document, &b->task, b->sec ? paillier_sec_pub(b->sec) : NULL, &keys));
    envelope env = { .kind = SIGN_TASK, .content = buf_span(&document) };
    SEFL_TRY(envelope_sign(&env, SIGNER_AS, b->as_key));
    SEFL_TRY(envelope_sign(&env, SIGNER_CSP, b->csp_key));
    SEFL_TRY(envelope_write(&signed_, &env));
    SEFL_TRY(task_open(&t, buf_span(&signed_), &keys)); /* checks it as every client will */
    SEFL_TRY(task_model_read(&theta, &t, dir_in(&b->at, "public/init.safetensors")));
    SEFL_TRY(file_write_new(dir_in(&b->at, "public/task.json"), buf_span(&document), 0644));
    SEFL_TRY(file_write_new(dir_in(&b->at, "public/task.signed"), buf_span(&signed_), 0644));
    SEFL_TRY(ledger_create(dir_in(&b->at, "aggregator/ledger"), t.population));
    SEFL_TRY(ledger_create(dir_in(&b->at, "csp/ledger"), t.population));
    memcpy(b->report.task, t.id, sizeof b->report.task);
    b->report.params = t.params;
    b->report.values = t.values;
    b->report.update_bytes = task_body_bytes(&t);
done:
    sefl_free(theta);
    task_clear(&t);
    buf_clear(&document);
    buf_clear(&signed_);
    return st;
}

/* ---- configuration ---------------------------------------------------------------------- */

/* Writes a settings file with the schema's examples and `set`. peer: the setting for the address of
 * the server at this port; port 0: the system chooses it, and an option names it later. */
static sefl_status write_settings(const char *path, const char *about, const setting_def *schema,
                                  const char *set, const char *peer, unsigned port)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 };
    char with_peer[320];
    snprintf(with_peer, sizeof with_peer, port ? "%s %s=127.0.0.1:%u" : "%s -%s", set, peer, port);
    SEFL_TRY(example_brief(&text, about, schema, peer ? with_peer : set));
    if (peer && !port)
        SEFL_TRY(wr_fmt(&text,
                        "# %s: pass host:port with --%s, because the system chooses the port\n",
                        peer, peer));
    SEFL_TRY(file_write_new(path, buf_span(&text), 0600));
done:
    buf_clear(&text);
    return st;
}

static sefl_status write_servers(build *b)
{
    const unsigned base = b->c->port_base, csp_port = base ? base + 1 : 0;
    const bool valid = file_exists(dir_in(&b->at, "public/valid.txt"));
    char set[256];
    /* the default, memory_lock: required, is for keys that matter */
    snprintf(set, sizeof set, "listen=127.0.0.1:%u ca task init memory_lock=try ready_file%s%s",
             base, b->external ? "" : " vocab", valid ? " valid" : "");
    SEFL_PASS(write_settings(dir_in(&b->at, "aggregator/aggregator.yml"),
                             "the aggregation server of a trial federation", aggregator_schema, set,
                             "csp", csp_port));
    snprintf(set, sizeof set, "listen=127.0.0.1:%u ca task key_lock memory_lock=try ready_file",
             csp_port);
    return write_settings(dir_in(&b->at, "csp/csp.yml"),
                          "the cryptography service provider of a trial federation", csp_schema,
                          set, NULL, 0);
}

static sefl_status write_clients(build *b)
{
    const bool none = is(b, "privacy.claim", "none");
    const char *epsilon = settings_text(&b->task, "privacy.epsilon");
    char rules[256];
    int n = snprintf(rules, sizeof rules, "clients_min=%s noise_modes=%s claim_none=%s",
                     settings_text(&b->task, "rounds.threshold"),
                     settings_text(&b->task, "privacy.noise"), none ? "true" : "false");
    if (!none)
        snprintf(rules + n, sizeof rules - (size_t)n, " epsilon_per_task=%s epsilon_total=%s",
                 epsilon, epsilon);
    for (uint32_t i = 0; i < b->clients; i++) {
        /* one thread, because all clients share one machine */
        SEFL_PASS(write_settings(client(b, i, "client.yml"), "a client of a trial federation",
                                 client_schema, "threads=1", "server", b->c->port_base));
        SEFL_PASS(write_settings(
            client(b, i, "policy.yml"),
            "limits that this client's owner sets: the client refuses any other task",
            policy_schema, rules, NULL, 0));
    }
    return SEFL_OK;
}

static sefl_status put_in_place(build *b)
{
    return move(b->c->folder, b->at.root);
}

/* ---- all steps -------------------------------------------------------------------------- */

sefl_status provision_make(provision_report *out, const provision_config *c,
                           const sefl_progress *progress)
{
    static sefl_status (*const steps[])(build *) = {
        make_folders, write_clients, make_identities, make_key,      make_text,
        make_vocab,   make_model,    make_task,       write_servers, put_in_place,
    };
    enum { STEPS = sizeof steps / sizeof *steps };
    sefl_status st = SEFL_OK;
    build *b = NULL;
    bool begun = false;
    char root[PATH_MAX];

    SEFL_TRY(sefl_new(&b, 1, sizeof *b));
    b->c = c;
    b->clients = c->clients ? c->clients : 8;
    b->width = b->clients < 100 ? 2 : b->clients < 1000 ? 3 : 4;
    SEFL_TRY(dir_root(&b->at, c->folder));
    snprintf(root, sizeof root, "%s.tmp-%ld", b->at.root, (long)getpid());
    SEFL_TRY(dir_root(&b->at, root));
    SEFL_CHECK(b->clients >= 2 && b->clients <= PROVISION_CLIENTS_MAX, SEFL_EINVAL,
               "a trial federation has 2 to %d clients, not %" PRIu32, PROVISION_CLIENTS_MAX,
               b->clients);
    SEFL_CHECK(c->port_base < 65535, SEFL_EINVAL,
               "port base %u is too high: CSP needs the next port", c->port_base);
    SEFL_TRY(start_settings(b));
    SEFL_TRY(dir_check_free(c->folder));
    SEFL_TRY(dir_check_free(b->at.root));
    begun = true;
    for (unsigned i = 0; i < STEPS; i++) {
        SEFL_CHECK(progress_report(progress, i, STEPS), SEFL_ECANCELLED, "stopped");
        SEFL_TRY(steps[i](b));
    }
    begun = false;
    b->report.clients = b->clients;
    *out = b->report;
done:
    if (begun)
        dir_remove(b->at.root);
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
