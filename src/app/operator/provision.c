/* The steps build the federation in FOLDER.tmp-PID; the last step renames it. */
#define _GNU_SOURCE
#include "operator/provision.h"

#include "base/alloc.h"
#include "base/dir.h"
#include "base/outfile.h"
#include "config/example.h"
#include "crypto/keyfile.h"
#include "crypto/sign.h"
#include "model/corpus/corpus.h"
#include "model/corpus/partition.h"
#include "model/corpus/synth.h"
#include "model/file/exchange.h"
#include "model/file/model_file.h"
#include "operator/draft.h"
#include "operator/kits.h"
#include "operator/provision_ids.h"
#include "operator/secret.h"
#include "protocol/modes/mode.h"
#include "protocol/task_make.h"
#include "protocol/task_model.h"
#include "protocol/task_profile.h"
#include "roles/aggregator/aggregator.h"
#include "roles/client/client_config.h"
#include "roles/csp/csp_role.h"
#include "store/ledger.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    SEFL_PASS(file_new_folder(b->at.root, 0700));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        SEFL_PASS(file_make_folder(dir_in(&b->at, "%s", names[i]), 0700));
    for (uint32_t i = 0; i < b->clients; i++)
        SEFL_PASS(file_make_folder(client(b, i, ""), 0700));
    return SEFL_OK;
}

/* ---- settings of the task --------------------------------------------------------------- */

#define SET(b, ...) settings_setf(&(b)->task, "provision", __VA_ARGS__)

static sefl_status start_settings(build *b)
{
    b->external = b->c->task && task_settings_external(b->c->task);
    SEFL_NEED(!b->external || (!b->c->data && !b->c->vocab), SEFL_EINVAL,
              "model.body is external: the task has no text and no word list");
    SEFL_NEED(
        !b->external || b->c->init || *settings_text(b->c->task, "model.tensors"), SEFL_EINVAL,
        "model.body is external: the task needs --init, a safetensors file, or model.tensors");
    settings_init(&b->task, task_schema);
    SEFL_PASS(SET(b, "rounds.enrolled=%" PRIu32, b->clients));
    if (b->c->hosts) /* people start the machines one after another */
        SEFL_PASS(SET(b, "rounds.deadline_ms=300000"));
    if (b->c->task)
        SEFL_PASS(settings_overlay(&b->task, b->c->task));
    return task_profile_fill(&b->task, TASK_OF_PROVISION);
}

/* ---- identities ------------------------------------------------------------------------- */

static sefl_status make_identities(build *b)
{
    const bool hosts = b->c->hosts != NULL;
    SEFL_PASS(provision_identities(b->at.root, hosts ? b->report.as.host : PROVISION_LOOPBACK,
                                   hosts ? b->report.csp.host : PROVISION_LOOPBACK, b->clients,
                                   b->width));
    SEFL_PASS(sign_key_read(&b->as_key, dir_in(&b->at, "aggregator/sign.key")));
    return sign_key_read(&b->csp_key, dir_in(&b->at, "csp/sign.key"));
}

/* Creates CSP's secret: the root of its round keys, or the Paillier pair of the task. */
static sefl_status make_key(build *b)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    const char *key = dir_in(&b->at, "csp/key.sealed"), *lock = dir_in(&b->at, "csp/key.lock");
    sefl_buf pub_file = { 0 };
    const bool pair = !settings_is(&b->task, "crypto.scheme", "pad");
    SEFL_CHECK(
        pair || !b->c->key_bits, SEFL_EINVAL,
        "a key of %u bits is for the scheme paillier: omit --bits, because pad has a root key",
        b->c->key_bits);
    if (pair) {
        unsigned bits = b->c->key_bits ? b->c->key_bits : PAILLIER_BITS_DEFAULT;
        SEFL_TRY(paillier_keygen_vartime(&b->sec, bits, &rng, NULL));
        SEFL_TRY(keyfile_pub_write(&pub_file, paillier_sec_pub(b->sec)));
        SEFL_TRY(file_write_new(dir_in(&b->at, "public/key.pub"), buf_span(&pub_file), 0644));
    }
    SEFL_TRY(secret_new(key, lock, b->sec));
done:
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
    SEFL_PASS(vocab_new(words, VOCAB_WORDS));
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

/* Counts words only in public text: the validation text. */
static sefl_status make_vocab(build *b)
{
    const char *out = dir_in(&b->at, "public/vocab.txt"), *list = dir_in(&b->at, "words.txt");
    if (b->external)
        return SEFL_OK;
    if (b->c->vocab) {
        const vocab_settings order = draft_order(&b->task);
        SEFL_PASS(vocab_read(&b->v, b->c->vocab, &order));
        SEFL_PASS(draft_words(&b->task, b->v, out));
    } else {
        SEFL_PASS(draft_vocab(&b->v, &b->task, dir_in(&b->at, "public/valid.txt"),
                              b->c->data ? NULL : list, out));
    }
    if (!b->c->data)
        (void)unlink(list);
    b->report.words = vocab_size(b->v);
    b->report.tokens = vocab_kind_of(b->v) == VOCAB_BPE;
    return SEFL_OK;
}

/* Copies the given initial model. */
static sefl_status copy_init(build *b)
{
    const char *path = dir_in(&b->at, "public/init.safetensors");
    SEFL_PASS(outfile_copy(path, b->c->init, 0644, NULL));
    return draft_hash(&b->task, "init.sha256", path);
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
    SEFL_TRY(draft_hash(&b->task, "init.sha256", path));
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
    if (b->c->init)
        SEFL_PASS(copy_init(b)); /* make_task compares it with the task */
    else
        SEFL_PASS(
            draft_model(&b->task, b->v, b->c->seed, dir_in(&b->at, "public/init.safetensors")));
    const char *valid = dir_in(&b->at, "public/valid.txt");
    return file_exists(valid) ? draft_hash(&b->task, "valid.sha256", valid) : SEFL_OK;
}

/* ---- the task, signed by both ----------------------------------------------------------- */

static sefl_status make_task(build *b)
{
    sefl_status st = SEFL_OK;
    sefl_buf document = { 0 }, signed_ = { 0 }, mode = { 0 };
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
    task_turns_warning(b->report.turns_warning, &t);
    SEFL_TRY(task_explain_mode(&mode, &t));
    snprintf(b->report.mode, sizeof b->report.mode, "%.*s", (int)mode.n, (const char *)mode.p);
    b->report.params = t.params;
    b->report.values = t.values;
    b->report.update_bytes = task_body_bytes(&t);
done:
    sefl_free(theta);
    task_clear(&t);
    buf_clear(&document);
    buf_clear(&signed_);
    buf_clear(&mode);
    return st;
}

/* ---- configuration ---------------------------------------------------------------------- */

/* Writes a settings file with the schema's examples and `set`. peer: the setting for the address of
 * the server `at`; port 0: the system chooses it, and an option names it later. */
static sefl_status write_settings(const char *path, const char *about, const setting_def *schema,
                                  const char *set, const char *peer, const host_port *at)
{
    sefl_status st = SEFL_OK;
    sefl_buf text = { 0 }, all = { 0 };
    SEFL_TRY(wr_fmt(&all, "%s", set));
    if (peer && at->port) {
        SEFL_TRY(wr_fmt(&all, " %s=", peer));
        SEFL_TRY(address_write(&all, at->host, at->port));
    } else if (peer) {
        SEFL_TRY(wr_fmt(&all, " -%s", peer));
    }
    SEFL_TRY(wr_u8(&all, 0));
    SEFL_TRY(example_brief(&text, about, schema, (const char *)all.p));
    if (peer && !at->port)
        SEFL_TRY(wr_fmt(&text,
                        "# %s: pass host:port with --%s, because the system chooses the port\n",
                        peer, peer));
    SEFL_TRY(file_write_new(path, buf_span(&text), 0600));
done:
    buf_clear(&text);
    buf_clear(&all);
    return st;
}

/* Returns the address of a server; without `hosts`, on this machine. */
static host_port address_of(const build *b, trust_role role)
{
    const unsigned base = b->c->port_base;
    host_port here = { .host = "127.0.0.1", .port = (uint16_t)base };
    if (b->c->hosts)
        return role == TRUST_CSP ? b->report.csp : b->report.as;
    if (role == TRUST_CSP && base)
        here.port++;
    return here;
}

/* Returns the address that a server listens on: all interfaces of its machine, or loopback. */
static const char *listen_at(const build *b, const host_port *at)
{
    return !b->c->hosts ? "127.0.0.1" : strchr(at->host, ':') ? "[::]" : "0.0.0.0";
}

static sefl_status write_servers(build *b)
{
    const host_port as = address_of(b, TRUST_AGGREGATOR), other = address_of(b, TRUST_CSP);
    const bool valid = file_exists(dir_in(&b->at, "public/valid.txt"));
    char set[256];
    /* the default, memory_lock: required, is for keys that matter */
    snprintf(set, sizeof set, "listen=%s:%u ca task init memory_lock=try ready_file%s%s",
             listen_at(b, &as), as.port, b->external ? "" : " vocab", valid ? " valid" : "");
    SEFL_PASS(write_settings(dir_in(&b->at, "aggregator/aggregator.yml"),
                             "the aggregation server of a trial federation", aggregator_schema, set,
                             "csp", &other));
    snprintf(set, sizeof set, "listen=%s:%u ca task key_lock memory_lock=try ready_file",
             listen_at(b, &other), other.port);
    return write_settings(dir_in(&b->at, "csp/csp.yml"),
                          "the cryptography service provider of a trial federation", csp_schema,
                          set, NULL, NULL);
}

static sefl_status write_kits(build *b)
{
    if (!b->c->hosts)
        return SEFL_OK;
    return kits_write(
        &(kits_config){ .root = b->at.root,
                        .as = b->report.as,
                        .csp = b->report.csp,
                        .clients = b->clients,
                        .width = b->width,
                        .external = settings_is(&b->task, "model.body", "external") });
}

static sefl_status write_clients(build *b)
{
    const bool none = settings_is(&b->task, "privacy.claim", "none");
    const char *epsilon = settings_text(&b->task, "privacy.epsilon");
    const host_port as = address_of(b, TRUST_AGGREGATOR);
    char rules[256];
    int n = snprintf(rules, sizeof rules, "clients_min=%s noise_modes=%s claim_none=%s",
                     settings_text(&b->task, "rounds.threshold"),
                     task_settings_mode(&b->task)->name, none ? "true" : "false");
    if (!none)
        snprintf(rules + n, sizeof rules - (size_t)n, " epsilon_per_task=%s epsilon_total=%s",
                 epsilon, epsilon);
    for (uint32_t i = 0; i < b->clients; i++) {
        /* one thread if all clients share one machine */
        SEFL_PASS(write_settings(client(b, i, "client.yml"), "a client of a trial federation",
                                 client_schema, b->c->hosts ? "" : "threads=1", "server", &as));
        SEFL_PASS(write_settings(
            client(b, i, "policy.yml"),
            "limits that this client's owner sets: the client refuses any other task",
            policy_schema, rules, NULL, NULL));
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
        make_folders, write_clients, make_identities, make_key,   make_text,    make_vocab,
        make_model,   make_task,     write_servers,   write_kits, put_in_place,
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
    if (c->hosts)
        SEFL_TRY(kits_hosts(&b->report.as, &b->report.csp, c->hosts, c->port_base));
    SEFL_TRY(start_settings(b));
    SEFL_TRY(dir_check_free(c->folder));
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
