#include "base/hex.h"
#include "cli/actions.h"
#include "cli/cli.h"
#include "cli/full/unlock.h"
#include "cli/print.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "crypto/sign.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPT_OUT = 1,
    OPT_SCHEME,
    OPT_BITS,
    OPT_PASSPHRASE,
    OPT_KEY,
    OPT_FORCE,
    OPT_JSON,
    OPT_PUB,
    OPT_MEMORY
};

typedef struct settings {
    const char *out, *pub, *file;
    unsigned long long bits, mib; /* bits 0: not given */
    bool paillier, force, json;
    cli_unlock unlock;
} settings;

static const char *level(unsigned bits)
{
    return bits == 2048 ? "112" : bits == 3072 ? "128" : "about 150";
}

/* ---- what is known about a key, for people and programs -------------------------------------- */

typedef struct report {
    const char *secret_path, *public_path; /* NULL: not part of it */
    const keyfile_info *info;
    const char *verdict; /* NULL, or what check found */
} report;

static sefl_status say_json(const report *r)
{
    const keyfile_info *i = r->info;
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    char hex[2 * PAILLIER_FINGERPRINT_BYTES + 1];
    json j = json_into(&b);
    hex_write(hex, i->fingerprint, sizeof i->fingerprint);
    json_open(&j, '{');
    json_key(&j, "kind"), json_str(&j, i->secret ? "secret" : "public");
    if (r->secret_path)
        json_key(&j, "secret_key"), json_str(&j, r->secret_path);
    if (r->public_path)
        json_key(&j, "public_key"), json_str(&j, r->public_path);
    json_key(&j, "scheme"), json_str(&j, i->kind == KEYFILE_ROOT ? "pad" : "paillier");
    json_key(&j, "bits"), json_u64(&j, i->bits);
    json_key(&j, "fingerprint"), json_str(&j, hex);
    if (i->secret) {
        json_key(&j, "locked_by");
        json_str(&j, i->by == SEALED_BY_PASSPHRASE ? "passphrase" : "key file");
        json_key(&j, "kdf"), json_str(&j, "argon2id");
        json_key(&j, "kdf_passes"), json_u64(&j, i->cost.passes);
        json_key(&j, "kdf_kib"), json_u64(&j, i->cost.kib);
        json_key(&j, "verified"), json_bool(&j, r->verdict != NULL);
    }
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
}

static void print_text(const report *r)
{
    const keyfile_info *i = r->info;
    char hex[2 * PAILLIER_FINGERPRINT_BYTES + 1];
    hex_write(hex, i->fingerprint, sizeof i->fingerprint);
    if (r->secret_path)
        printf("secret key   %s\n", r->secret_path);
    if (r->public_path)
        printf("public key   %s\n", r->public_path);
    if (i->kind == KEYFILE_ROOT)
        printf("scheme       pad: the root of CSP's round keys, %u bits\n", i->bits);
    else
        printf("scheme       paillier, %u bits (%s-bit security)\n", i->bits, level(i->bits));
    printf("fingerprint  "); /* in groups of eight, to be read out */
    for (int k = 0; k < 64; k += 8)
        printf("%.8s%s", hex + k, k < 56 ? " " : "\n");
    if (i->secret)
        printf("locked by    %s, Argon2id with %u passes over %u MiB\n",
               i->by == SEALED_BY_PASSPHRASE ? "passphrase" : "key file", i->cost.passes,
               i->cost.kib / 1024);
    if (r->verdict)
        printf("check        %s\n", r->verdict);
}

static sefl_status print_report(const report *r, bool as_json)
{
    if (as_json)
        return say_json(r);
    print_text(r);
    return SEFL_OK;
}

static void warn_unlocked(void)
{
    fprintf(stderr, "sefl: warning: the key cannot be locked in memory (ulimit -l)\n");
}

/* ---- new ------------------------------------------------------------------------------------- */

/* PREFIX.key and PREFIX.pub; in a folder its csp.key and csp.pub. */
static sefl_status paths(char secret[PATH_MAX], char public[PATH_MAX], const char *out)
{
    struct stat sb;
    size_t n = strlen(out);
    bool folder = n > 0 && (out[n - 1] == '/' || (stat(out, &sb) == 0 && S_ISDIR(sb.st_mode)));
    const char *middle = !folder ? "" : out[n - 1] == '/' ? "csp" : "/csp";
    int a = snprintf(secret, PATH_MAX, "%s%s.key", out, middle);
    int b = snprintf(public, PATH_MAX, "%s%s.pub", out, middle);
    if (n == 0 || a < 0 || b < 0 || a >= PATH_MAX || b >= PATH_MAX)
        return sefl_fail(SEFL_EINVAL, "--out wants a folder or the beginning of a file name");
    return SEFL_OK;
}

typedef struct dots {
    bool terminal;
    uint64_t shown;
} dots;

static bool show_progress(void *self, uint64_t done, uint64_t total)
{
    dots *d = self;
    (void)total; /* nobody knows how long primes take to be found */
    if (d->terminal && done >= d->shown + 8) {
        fputc('.', stderr);
        d->shown = done;
    }
    return true;
}

/* Both files or none; the secret key, which nobody can make again, is the last to be replaced. If
 * that fails the public key is put back. A crash in between leaves the old secret key with the new
 * public one, which 'key check' tells. */
static sefl_status write_pair(const char *secret, const char *public, const sefl_buf *sec_file,
                              const sefl_buf *pub_file, bool force)
{
    sefl_status st = SEFL_OK;
    sefl_buf old = { 0 }, now = { 0 };
    bool had = file_exists(public);
    if (!force) {
        SEFL_TRY(file_write_new(public, buf_span(pub_file), 0644));
        st = file_write_new(secret, buf_span(sec_file), 0600);
        if (st != SEFL_OK)
            (void)unlink(public);
        goto done;
    }
    if (had)
        SEFL_TRY(file_read(&old, public, KEYFILE_BYTES_MAX));
    SEFL_TRY(file_write_atomic(public, buf_span(pub_file), 0644));
    st = file_write_atomic(secret, buf_span(sec_file), 0600);
    if (st == SEFL_OK)
        goto done;
    char why[512];
    snprintf(why, sizeof why, "%s", sefl_last_error());
    bool replaced = file_read(&now, secret, KEYFILE_BYTES_MAX) == SEFL_OK && now.n == sec_file->n &&
                    memcmp(now.p, sec_file->p, now.n) == 0;
    sefl_status back = SEFL_OK;
    if (!replaced && had) /* replaced: only the last sync failed, the new pair is there */
        back = file_write_atomic(public, buf_span(&old), 0644);
    else if (!replaced)
        (void)unlink(public);
    st = sefl_fail(st, "%s%s%s", why, back == SEFL_OK ? "" : "; the public key is the new one: ",
                   back == SEFL_OK ? "" : public);
done:
    buf_clear(&old);
    buf_clear(&now);
    return st;
}

static sealed_cost cost_of(const settings *s)
{
    return (sealed_cost){ .passes = sealed_cost_default.passes, .kib = (uint32_t)s->mib * 1024 };
}

static sefl_status new_root(settings *s, const char *secret)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    uint8_t *root = NULL;
    bool locked = true;
    sefl_rng rng = rng_system();
    keyfile_info info;
    sealed_cost cost = cost_of(s);

    SEFL_CHECK(s->bits == 0, SEFL_EINVAL, "--bits goes with --scheme paillier");
    s->unlock.creating = true;
    SEFL_TRY(cli_unlock_get(&s->unlock, SEALED_BY_PASSPHRASE));
    SEFL_TRY(secmem_new(&root, KEYFILE_ROOT_BYTES, &locked));
    if (!locked)
        warn_unlocked();
    SEFL_TRY(rng_fill(&rng, root, KEYFILE_ROOT_BYTES));
    SEFL_TRY(keyfile_root_write(&file, root, &s->unlock.lock, &cost, &rng));
    SEFL_TRY(keyfile_root_read(root, buf_span(&file), &s->unlock.lock));
    SEFL_TRY(keyfile_info_read(&info, buf_span(&file)));
    SEFL_TRY(s->force ? file_write_atomic(secret, buf_span(&file), 0600)
                      : file_write_new(secret, buf_span(&file), 0600));
    report r = { .secret_path = secret, .info = &info, .verdict = "opens" };
    SEFL_TRY(print_report(&r, s->json));
done:
    secmem_free(root);
    buf_clear(&file);
    return st;
}

static sefl_status new_pair(settings *s, const char *secret, const char *public)
{
    sefl_status st = SEFL_OK;
    sefl_buf sec_file = { 0 }, pub_file = { 0 };
    paillier_sec *sec = NULL;
    bool locked = true;
    sefl_rng rng = rng_system();
    keyfile_info info;
    dots d = { .terminal = isatty(2) };
    sefl_progress progress = { .report = show_progress, .self = &d };
    sealed_cost cost = cost_of(s);
    unsigned bits = s->bits ? (unsigned)s->bits : PAILLIER_BITS_DEFAULT;

    SEFL_CHECK(bits >= 2048, SEFL_EINVAL,
               "a key of %u bits can be broken: 3072 (the default), 4096, or at least 2048", bits);
    SEFL_CHECK(paillier_bits_ok(bits), SEFL_EINVAL,
               "no key of %u bits: 2048, 3072 (the default) or 4096", bits);
    s->unlock.creating = true;
    SEFL_TRY(cli_unlock_get(&s->unlock, SEALED_BY_PASSPHRASE));

    sefl_clock clock = clock_monotonic();
    uint64_t begin = clock_ms(&clock);
    fprintf(stderr, "sefl key: making a %u-bit key ", bits);
    st = paillier_keygen_vartime(&sec, bits, &rng, &progress);
    fprintf(stderr, " %s %.1f s\n", st == SEFL_OK ? "done," : "failed after",
            (double)(clock_ms(&clock) - begin) / 1000);
    if (st != SEFL_OK)
        goto done;
    sefl_span memory = paillier_sec_memory(sec);
    SEFL_TRY(secmem_lock(memory.p, memory.n, &locked));
    if (!locked)
        warn_unlocked();
    SEFL_TRY(keyfile_check(sec, &rng));
    SEFL_TRY(keyfile_sec_write(&sec_file, sec, &s->unlock.lock, &cost, &rng));
    SEFL_TRY(keyfile_pub_write(&pub_file, paillier_sec_pub(sec)));
    SEFL_TRY(keyfile_info_read(&info, buf_span(&sec_file)));
    SEFL_TRY(write_pair(secret, public, &sec_file, &pub_file, s->force));
    report r = { .secret_path = secret,
                 .public_path = public,
                 .info = &info,
                 .verdict = "decrypts what it encrypts" };
    SEFL_TRY(print_report(&r, s->json));
done:
    paillier_sec_free(sec);
    buf_clear(&sec_file);
    buf_clear(&pub_file);
    return st;
}

static sefl_status new_key(settings *s)
{
    sefl_status st = SEFL_OK;
    char secret[PATH_MAX], public[PATH_MAX];

    SEFL_CHECK(s->out, SEFL_EINVAL, "where to? give --out FOLDER or --out PREFIX");
    SEFL_TRY(paths(secret, public, s->out));
    const char *files[] = { secret, public };
    for (int i = 0; i < (s->paillier ? 2 : 1); i++)
        SEFL_CHECK(s->force || !file_exists(files[i]), SEFL_EEXIST,
                   "%s exists: --force replaces it, and the old key is lost", files[i]);
    SEFL_TRY(s->paillier ? new_pair(s, secret, public) : new_root(s, secret));
done:
    return st;
}

/* ---- show ------------------------------------------------------------------------------------ */

static sefl_status read_key_file(sefl_buf *b, const char *path)
{
    sefl_status st = file_read(b, path, KEYFILE_BYTES_MAX);
    return st == SEFL_ERANGE ? sefl_fail(SEFL_EPROTO, "%s: too large for a key of sefl", path) : st;
}

static sefl_status show_key(settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    keyfile_info info;
    paillier_pub *pub = NULL;
    SEFL_TRY(read_key_file(&b, s->file));
    st = keyfile_info_read(&info, buf_span(&b));
    if (st == SEFL_OK && !info.secret)
        st = keyfile_pub_read(&pub, buf_span(&b)); /* all checks that a client makes */
    if (st != SEFL_OK)
        sefl_note_before("%s", s->file);
    if (st != SEFL_OK)
        goto done;
    report r = { .info = &info };
    if (info.secret)
        r.secret_path = s->file;
    else
        r.public_path = s->file;
    SEFL_TRY(print_report(&r, s->json));
    if (info.secret)
        fprintf(stderr, "sefl key: read without opening it; 'sefl key check %s' proves it\n",
                s->file);
done:
    paillier_pub_free(pub);
    buf_clear(&b);
    return st;
}

/* ---- check ----------------------------------------------------------------------------------- */

/* The public key beside a secret one: X.pub for X.key, if it is there. */
static bool pub_beside(char out[PATH_MAX], const char *secret)
{
    size_t n = strlen(secret);
    if (n < 4 || n >= PATH_MAX || strcmp(secret + n - 4, ".key") != 0)
        return false;
    snprintf(out, PATH_MAX, "%.*s.pub", (int)(n - 4), secret);
    return file_exists(out);
}

/* The unlocked pair, tried, and the public key beside it. */
static sefl_status check_pair(settings *s, report *r, sefl_span sec_file, char beside[PATH_MAX])
{
    sefl_status st = SEFL_OK;
    sefl_buf pub_file = { 0 };
    paillier_sec *sec = NULL;
    paillier_pub *pub = NULL;
    sefl_rng rng = rng_system();
    bool locked = true;

    st = keyfile_sec_read(&sec, sec_file, &s->unlock.lock, &locked);
    if (st != SEFL_OK) {
        sefl_note_before("%s", s->file);
        goto done;
    }
    if (!locked)
        warn_unlocked();
    SEFL_TRY(keyfile_check(sec, &rng));
    r->public_path = s->pub;
    if (!r->public_path && pub_beside(beside, s->file))
        r->public_path = beside;
    r->verdict = "opens, decrypts what it encrypts; no public key beside it";
    if (!r->public_path)
        goto done;
    SEFL_TRY(read_key_file(&pub_file, r->public_path));
    st = keyfile_pub_read(&pub, buf_span(&pub_file));
    if (st != SEFL_OK) {
        sefl_note_before("%s", r->public_path);
        goto done;
    }
    SEFL_CHECK(paillier_pub_equal(pub, paillier_sec_pub(sec)), SEFL_ECRYPTO,
               "%s is not the public half of %s", r->public_path, s->file);
    r->verdict = "opens, decrypts what it encrypts, the public key matches";
done:
    paillier_sec_free(sec);
    paillier_pub_free(pub);
    buf_clear(&pub_file);
    return st;
}

static sefl_status check_root(settings *s, report *r, sefl_span file)
{
    sefl_status st = SEFL_OK;
    uint8_t *root = NULL;
    bool locked = true;
    SEFL_CHECK(!s->pub, SEFL_EINVAL, "%s is a root: it has no public half to compare", s->file);
    SEFL_TRY(secmem_new(&root, KEYFILE_ROOT_BYTES, &locked));
    if (!locked)
        warn_unlocked();
    st = keyfile_root_read(root, file, &s->unlock.lock);
    if (st != SEFL_OK)
        sefl_note_before("%s", s->file);
    r->verdict = "opens";
done:
    secmem_free(root);
    return st;
}

static sefl_status check_key(settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    keyfile_info info;
    char beside[PATH_MAX];
    report r = { .secret_path = s->file, .info = &info };

    SEFL_TRY(read_key_file(&file, s->file));
    st = keyfile_info_read(&info, buf_span(&file));
    if (st != SEFL_OK) {
        sefl_note_before("%s", s->file);
        goto done;
    }
    SEFL_CHECK(info.secret, SEFL_EINVAL,
               "%s is a public key: 'sefl key show' checks it, 'check' wants the secret one",
               s->file);
    SEFL_TRY(cli_unlock_get(&s->unlock, info.by));
    SEFL_TRY(info.kind == KEYFILE_ROOT ? check_root(s, &r, buf_span(&file))
                                       : check_pair(s, &r, buf_span(&file), beside));
    SEFL_TRY(print_report(&r, s->json));
done:
    buf_clear(&file);
    return st;
}

/* ---- command line ---------------------------------------------------------------------------- */

#define UNLOCK_OPTIONS                                              \
    { "passphrase-file", required_argument, NULL, OPT_PASSPHRASE }, \
    {                                                               \
        "key-file", required_argument, NULL, OPT_KEY                \
    }

static const struct option new_options[] = { { "out", required_argument, NULL, OPT_OUT },
                                             { "scheme", required_argument, NULL, OPT_SCHEME },
                                             { "bits", required_argument, NULL, OPT_BITS },
                                             { "memory", required_argument, NULL, OPT_MEMORY },
                                             { "force", no_argument, NULL, OPT_FORCE },
                                             { "json", no_argument, NULL, OPT_JSON },
                                             UNLOCK_OPTIONS,
                                             { 0 } };
static const struct option show_options[] = { { "json", no_argument, NULL, OPT_JSON }, { 0 } };
static const struct option check_options[] = { { "pub", required_argument, NULL, OPT_PUB },
                                               { "json", no_argument, NULL, OPT_JSON },
                                               UNLOCK_OPTIONS,
                                               { 0 } };

static const struct option sign_options[] = { { "out", required_argument, NULL, OPT_OUT }, { 0 } };

/* The Ed25519 key with which a server signs tasks, headers and receipts. */
static sefl_status new_sign_key(settings *s)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    sign_key *key = NULL;
    char path[PATH_MAX], pub[PATH_MAX];
    SEFL_CHECK(s->out && s->out[0], SEFL_EINVAL, "--out PREFIX is needed");
    SEFL_CHECK(snprintf(path, sizeof path, "%s.key", s->out) < (int)sizeof path &&
                   snprintf(pub, sizeof pub, "%s.pub", s->out) < (int)sizeof pub,
               SEFL_EINVAL, "--out: too long");
    SEFL_CHECK(!file_exists(pub), SEFL_EEXIST, "%s is there already", pub);
    SEFL_TRY(sign_key_new(&key, &rng));
    SEFL_TRY(sign_key_write(key, path));
    SEFL_TRY(sign_pub_write(sign_key_pub(key), pub));
    char hex[HEX_CHARS(SIGN_PUB_BYTES)];
    printf("%s (secret), %s:\n%s\n", path, pub, hex_write(hex, sign_key_pub(key), SIGN_PUB_BYTES));
done:
    sign_key_free(key);
    return st;
}

static const struct action {
    const char *name;
    const struct option *options;
    const char *file; /* what its one argument is, NULL if it takes none */
    sefl_status (*run)(settings *s);
} actions[] = {
    { "new", new_options, NULL, new_key },
    { "show", show_options, "a key file", show_key },
    { "check", check_options, "a secret key file", check_key },
    { "sign", sign_options, NULL, new_sign_key },
};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

static int parse(settings *s, const struct action *a, int argc, char **argv)
{
    opterr = 0;
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", a->options, NULL)) != -1;)
        switch (c) {
        case OPT_OUT:
            s->out = optarg;
            break;
        case OPT_PUB:
            s->pub = optarg;
            break;
        case OPT_PASSPHRASE:
            s->unlock.passphrase_file = optarg;
            break;
        case OPT_KEY:
            s->unlock.key_file = optarg;
            break;
        case OPT_FORCE:
            s->force = true;
            break;
        case OPT_JSON:
            s->json = true;
            break;
        case OPT_SCHEME:
            s->paillier = strcmp(optarg, "paillier") == 0;
            if (!s->paillier && strcmp(optarg, "pad") != 0)
                return cli_misuse(&cmd_key, "--scheme wants pad or paillier, not \"%.32s\"",
                                  optarg);
            break;
        case OPT_BITS:
            if (!cli_parse_u64(optarg, 1, 1000000, &s->bits))
                return cli_misuse(&cmd_key, "--bits wants 2048, 3072 or 4096, not \"%.32s\"",
                                  optarg);
            break;
        case OPT_MEMORY:
            if (!cli_parse_u64(optarg, 64, SEALED_KIB_MAX / 1024, &s->mib))
                return cli_misuse(&cmd_key, "--memory wants 64 to %d (MiB), not \"%.32s\"",
                                  SEALED_KIB_MAX / 1024, optarg);
            break;
        default:
            return cli_bad_option(&cmd_key, argc, argv, c, a->options);
        }
    if (a->file && optind == argc)
        return cli_misuse(&cmd_key, "'%s' wants %s", a->name, a->file);
    if (a->file)
        s->file = argv[optind++];
    if (optind < argc)
        return cli_misuse(&cmd_key, "'%s' does not take \"%.64s\"", a->name, argv[optind]);
    return CLI_DONE;
}

static int run(int argc, char **argv)
{
    settings s = { .mib = sealed_cost_default.kib / 1024 };
    const char *names[ACTIONS + 1] = { 0 };
    size_t which;
    for (size_t i = 0; i < ACTIONS; i++)
        names[i] = actions[i].name;
    int rc = cli_action_pick(&cmd_key, names, argc, argv, &which);
    if (rc != CLI_DONE)
        return rc;
    const struct action *a = &actions[which];
    rc = parse(&s, a, argc - 1, argv + 1);
    if (rc == CLI_DONE) {
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 }); /* no key in a core file */
        sefl_status st = a->run(&s);
        rc = st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_key, st);
    }
    cli_unlock_clear(&s.unlock);
    return rc;
}

const cli_command cmd_key = {
    .name = "key",
    .summary = "make, show or check the secret key of a CSP; make a signing key",
    .usage = "new --out PREFIX | show FILE | check SECRET | sign --out PREFIX\n"
             "       [options]",
    .details = "new makes PREFIX.key (in a folder: csp.key), locked: the root of the keys that\n"
               "  CSP makes for each round. A lost root costs the round that runs.\n"
               "  --scheme paillier makes a Paillier pair, PREFIX.key and PREFIX.pub, for one\n"
               "  task: CSP refuses a pair that served another. Keep no copy: a lost pair costs\n"
               "  the task, a stolen one its updates.\n"
               "show tells what a public or secret key file is, without opening it.\n"
               "check opens a secret key; it tries a pair and compares the public key beside it.\n"
               "sign makes a server's signing key: PREFIX.key (secret), PREFIX.pub (public).\n"
               "  --out FOLDER|PREFIX   new: where to put the files\n"
               "  --scheme S            new: pad (default) or paillier, as in the task\n"
               "  --bits N              new, paillier: 2048, 3072 (default) or 4096\n"
               "  --memory MIB          new: what unlocking takes, 64 to 512 (default 256)\n"
               "  --force               new: replace existing files; the old key is lost\n"
               "  --pub FILE            check: the public key to compare (default: beside\n"
               "                        SECRET)\n"
               "  --json                one JSON object\n"
               "What locks the secret key; without either the terminal is asked for a\n"
               "passphrase:\n"
               "  --passphrase-file F   one line of at least 12 characters\n"
               "  --key-file F          at least 32 random bytes",
    .example = "head -c 32 /dev/urandom > csp.lock\n"
               "  sefl key new --out csp --key-file csp.lock\n"
               "  sefl key show csp.key && sefl key check csp.key --key-file csp.lock",
    .words = "new show check sign",
    .run = run,
};
