#include "base/hex.h"
#include "cli/full/unlock.h"
#include "cli/options.h"
#include "cli/print.h"

#include "base/clock.h"
#include "base/file.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "crypto/sign.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct wish {
    const char *out, *pub, *file, *scheme, *passphrase_file, *key_file;
    uint32_t bits, mib; /* bits 0: not given */
    bool force, json;
    cli_unlock unlock;
} wish;

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

static sefl_status print_json_report(const report *r)
{
    const keyfile_info *i = r->info;
    const bool secret = i->secret;
    return print_fields(
        lf_str("kind", secret ? "secret" : "public"),
        lf_if(r->secret_path, lf_str("secret_key", r->secret_path)),
        lf_if(r->public_path, lf_str("public_key", r->public_path)),
        lf_str("scheme", i->kind == KEYFILE_ROOT ? "pad" : "paillier"), lf_u64("bits", i->bits),
        lf_key("fingerprint", i->fingerprint),
        lf_if(secret,
              lf_str("locked_by", i->by == SEALED_BY_PASSPHRASE ? "passphrase" : "key file")),
        lf_if(secret, lf_str("kdf", "argon2id")),
        lf_if(secret, lf_u64("kdf_passes", i->cost.passes)),
        lf_if(secret, lf_u64("kdf_kib", i->cost.kib)),
        lf_if(secret, lf_bool("verified", r->verdict != NULL)));
}

static sefl_status print_report(const report *r, bool as_json)
{
    if (as_json)
        return print_json_report(r);
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
    return SEFL_OK;
}

static void warn_unlocked(bool locked)
{
    if (!locked)
        fprintf(stderr, "sefl: warning: the key cannot be locked in memory (ulimit -l)\n");
}

/* What locks the key, by the options or from the terminal. */
static sefl_status unlock(wish *s, bool creating, sealed_by by)
{
    s->unlock = (cli_unlock){ .passphrase_file = s->passphrase_file,
                              .key_file = s->key_file,
                              .creating = creating };
    return cli_unlock_get(&s->unlock, by);
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
    (void)total; /* the time to find primes is not known */
    if (d->terminal && done >= d->shown + 8) {
        fputc('.', stderr);
        d->shown = done;
    }
    return true;
}

/* Writes both files or none. The secret key, which cannot be made again, is replaced last; if that
 * fails, the old public key is restored. A crash in between leaves the old secret key with the new
 * public key, which 'key check' detects. */
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

static sealed_cost cost_of(const wish *s)
{
    return (sealed_cost){ .passes = sealed_cost_default.passes, .kib = s->mib * 1024 };
}

static sefl_status new_root(wish *s, const char *secret)
{
    sefl_status st = SEFL_OK;
    sefl_buf file = { 0 };
    uint8_t *root = NULL;
    bool locked = true;
    sefl_rng rng = rng_system();
    keyfile_info info;
    sealed_cost cost = cost_of(s);

    SEFL_CHECK(s->bits == 0, SEFL_EINVAL, "--bits goes with --scheme paillier");
    SEFL_TRY(unlock(s, true, SEALED_BY_PASSPHRASE));
    SEFL_TRY(secmem_new(&root, KEYFILE_ROOT_BYTES, &locked));
    warn_unlocked(locked);
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

static sefl_status new_pair(wish *s, const char *secret, const char *public)
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
    unsigned bits = s->bits ? s->bits : PAILLIER_BITS_DEFAULT;

    SEFL_CHECK(bits >= 2048, SEFL_EINVAL,
               "a key of %u bits can be broken: 3072 (the default), 4096, or at least 2048", bits);
    SEFL_CHECK(paillier_bits_ok(bits), SEFL_EINVAL,
               "no key of %u bits: 2048, 3072 (the default) or 4096", bits);
    SEFL_TRY(unlock(s, true, SEALED_BY_PASSPHRASE));

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
    warn_unlocked(locked);
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

static sefl_status new_key(void *options)
{
    sefl_status st = SEFL_OK;
    wish *s = options;
    char secret[PATH_MAX], public[PATH_MAX];

    const bool paillier = strcmp(s->scheme, "paillier") == 0;
    SEFL_TRY(paths(secret, public, s->out));
    const char *files[] = { secret, public };
    for (int i = 0; i < (paillier ? 2 : 1); i++)
        SEFL_CHECK(s->force || !file_exists(files[i]), SEFL_EEXIST,
                   "%s exists: --force replaces it, and the old key is lost", files[i]);
    SEFL_TRY(paillier ? new_pair(s, secret, public) : new_root(s, secret));
done:
    cli_unlock_clear(&s->unlock);
    return st;
}

/* ---- show ------------------------------------------------------------------------------------ */

static sefl_status read_key_file(sefl_buf *b, const char *path)
{
    sefl_status st = file_read(b, path, KEYFILE_BYTES_MAX);
    return st == SEFL_ERANGE ? sefl_fail(SEFL_EPROTO, "%s: too large for a key of sefl", path) : st;
}

static sefl_status show_key(void *options)
{
    sefl_status st = SEFL_OK;
    wish *s = options;
    sefl_buf b = { 0 };
    keyfile_info info;
    paillier_pub *pub = NULL;
    SEFL_TRY(read_key_file(&b, s->file));
    st = keyfile_info_read(&info, buf_span(&b));
    if (st == SEFL_OK && !info.secret)
        st = keyfile_pub_read(&pub, buf_span(&b)); /* all checks that a client makes */
    SEFL_TRY(sefl_at(st, "%s", s->file));
    report r = { .info = &info };
    *(info.secret ? &r.secret_path : &r.public_path) = s->file;
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
static sefl_status check_pair(wish *s, report *r, sefl_span sec_file, char beside[PATH_MAX])
{
    sefl_status st = SEFL_OK;
    sefl_buf pub_file = { 0 };
    paillier_sec *sec = NULL;
    paillier_pub *pub = NULL;
    sefl_rng rng = rng_system();
    bool locked = true;

    SEFL_TRY(sefl_at(keyfile_sec_read(&sec, sec_file, &s->unlock.lock, &locked), "%s", s->file));
    warn_unlocked(locked);
    SEFL_TRY(keyfile_check(sec, &rng));
    r->public_path = s->pub;
    if (!r->public_path && pub_beside(beside, s->file))
        r->public_path = beside;
    r->verdict = "opens, decrypts what it encrypts; no public key beside it";
    if (!r->public_path)
        goto done;
    SEFL_TRY(read_key_file(&pub_file, r->public_path));
    SEFL_TRY(sefl_at(keyfile_pub_read(&pub, buf_span(&pub_file)), "%s", r->public_path));
    SEFL_CHECK(paillier_pub_equal(pub, paillier_sec_pub(sec)), SEFL_ECRYPTO,
               "%s is not the public half of %s", r->public_path, s->file);
    r->verdict = "opens, decrypts what it encrypts, the public key matches";
done:
    paillier_sec_free(sec);
    paillier_pub_free(pub);
    buf_clear(&pub_file);
    return st;
}

static sefl_status check_root(wish *s, report *r, sefl_span file)
{
    sefl_status st = SEFL_OK;
    uint8_t *root = NULL;
    bool locked = true;
    SEFL_CHECK(!s->pub, SEFL_EINVAL, "%s is a root: it has no public half to compare", s->file);
    SEFL_TRY(secmem_new(&root, KEYFILE_ROOT_BYTES, &locked));
    warn_unlocked(locked);
    st = sefl_at(keyfile_root_read(root, file, &s->unlock.lock), "%s", s->file);
    r->verdict = "opens";
done:
    secmem_free(root);
    return st;
}

static sefl_status check_key(void *options)
{
    sefl_status st = SEFL_OK;
    wish *s = options;
    sefl_buf file = { 0 };
    keyfile_info info;
    char beside[PATH_MAX];
    report r = { .secret_path = s->file, .info = &info };

    SEFL_TRY(read_key_file(&file, s->file));
    SEFL_TRY(sefl_at(keyfile_info_read(&info, buf_span(&file)), "%s", s->file));
    SEFL_CHECK(info.secret, SEFL_EINVAL,
               "%s is a public key: 'sefl key show' checks it, 'check' wants the secret one",
               s->file);
    SEFL_TRY(unlock(s, false, info.by));
    SEFL_TRY(info.kind == KEYFILE_ROOT ? check_root(s, &r, buf_span(&file))
                                       : check_pair(s, &r, buf_span(&file), beside));
    SEFL_TRY(print_report(&r, s->json));
done:
    cli_unlock_clear(&s->unlock);
    buf_clear(&file);
    return st;
}

/* ---- command line ---------------------------------------------------------------------------- */

/* The Ed25519 key with which a server signs tasks, headers and receipts. */
static sefl_status new_sign_key(void *options)
{
    sefl_status st = SEFL_OK;
    wish *s = options;
    sefl_rng rng = rng_system();
    sign_key *key = NULL;
    char path[PATH_MAX], pub[PATH_MAX];
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

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "", TO(out), .arg = "PREFIX",
      .help = "Where to put the files: PREFIX.key and PREFIX.pub; for a folder, csp.key in it" },
    { "scheme", SETTING_WORD, "pad", "pad paillier", TO(scheme), .help = "Scheme of the task" },
    { "bits", SETTING_U64, "0", TO(bits), .min = 1,
      .help = "Size of a Paillier key: 2048, 3072 (default) or 4096" },
    { "memory", SETTING_U64, "256", TO(mib), .min = 64, .max = SEALED_KIB_MAX / 1024, .arg = "MIB",
      .help = "Memory that unlocking the key takes" },
    { "pub", SETTING_PATH, "", TO(pub),
      .help = "Public key to compare with; without it the one beside SECRET" },
    { "passphrase-file", SETTING_PATH, "", TO(passphrase_file),
      .help = "Lock or unlock with this file's passphrase: one line of at least 12 characters" },
    { "key-file", SETTING_PATH, "", TO(key_file),
      .help = "Lock or unlock with this file: at least 32 random bytes" },
    { "force", SETTING_FLAG, TO(force), .help = "Replace existing files; the old key is lost" },
    OPTION_JSON(wish),
    { 0 },
};

#define AT offsetof(wish, file)
static const cli_action actions[] = {
    { "new", NULL, NULL,
      "Makes CSP's secret key, locked. For the scheme pad it is the root of the keys that CSP "
      "makes "
      "for each round; losing it costs the current round. For the scheme paillier it is a key pair "
      "for one task, and CSP refuses a pair that served another task. Keep no copy of a pair: "
      "losing "
      "it costs the task, and a thief can decrypt the task's uploads.",
      "out", "scheme bits memory passphrase-file key-file force json", 0, new_key },
    { "show", "FILE", "a key file",
      "Prints what a public or secret key file is, without unlocking it.", NULL, "json", AT,
      show_key },
    { "check", "SECRET", "a secret key file",
      "Unlocks a secret key, tries it, and compares a Paillier key with its public key.", NULL,
      "pub passphrase-file key-file json", AT, check_key },
    { "sign", NULL, NULL,
      "Makes a server's signing key: PREFIX.key is secret, PREFIX.pub is public.", "out", "", 0,
      new_sign_key },
    { 0 },
};

const cli_command cmd_key = {
    .name = "key",
    .summary = "create, show or check CSP's secret key; create a signing key",
    .notes = "Without --passphrase-file and --key-file, the terminal asks for a passphrase.",
    .example = "head -c 32 /dev/urandom > csp.lock\n"
               "  sefl key new --out csp --key-file csp.lock\n"
               "  sefl key show csp.key && sefl key check csp.key --key-file csp.lock",
    CLI_OPTIONS(wish),
    .actions = actions,
    .handles_keys = true,
};
