#include "base/hex.h"
#include "cli/full/unlock.h"
#include "cli/options.h"
#include "cli/print.h"

#include "base/clock.h"
#include "base/file.h"
#include "crypto/ahe/params.h"
#include "crypto/keyfile.h"
#include "crypto/secmem.h"
#include "crypto/sign.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct wish {
    const char *out, *pub, *file, *scheme;
    uint32_t bits, mib; /* bits 0: not given */
    bool force, json;
    cli_unlock unlock;
    /* What the action works on; finish releases it. */
    char secret_path[PATH_MAX], public_path[PATH_MAX]; /* "": not used */
    sefl_buf sec_file, pub_file;
    keyfile_info info;
    const char *verdict; /* NULL, or the result of a check */
    uint8_t *root;
    paillier_sec *sec;
    paillier_pub *public;
    sign_key *sign;
} wish;

static void cmd_key_finish(void *options)
{
    wish *s = options;
    secmem_free(s->root);
    paillier_sec_free(s->sec);
    paillier_pub_free(s->public);
    sign_key_free(s->sign);
    cli_unlock_clear(&s->unlock);
    buf_clear(&s->sec_file);
    buf_clear(&s->pub_file);
}

/* ---- output ---------------------------------------------------------------------------------- */

static sefl_status print_report(const wish *s)
{
    const keyfile_info *i = &s->info;
    const bool root = i->kind == KEYFILE_ROOT;
    const char *by = i->by == SEALED_BY_PASSPHRASE ? "passphrase" : "key file";
    char hex[HEX_CHARS(PAILLIER_FINGERPRINT_BYTES)];
    if (s->json)
        return print_fields(lf_str("kind", i->secret ? "secret" : "public"),
                            lf_if(*s->secret_path, lf_str("secret_key", s->secret_path)),
                            lf_if(*s->public_path, lf_str("public_key", s->public_path)),
                            lf_str("scheme", root ? "pad" : "paillier"), lf_u64("bits", i->bits),
                            lf_key("fingerprint", i->fingerprint),
                            lf_if(i->secret, lf_str("locked_by", by)),
                            lf_if(i->secret, lf_str("kdf", "argon2id")),
                            lf_if(i->secret, lf_u64("kdf_passes", i->cost.passes)),
                            lf_if(i->secret, lf_u64("kdf_kib", i->cost.kib)),
                            lf_if(i->secret, lf_bool("verified", s->verdict != NULL)));
    if (*s->secret_path)
        printf("secret key   %s\n", s->secret_path);
    if (*s->public_path)
        printf("public key   %s\n", s->public_path);
    if (root)
        printf("scheme       pad: the root of CSP's round keys, %u bits\n", i->bits);
    else
        printf("scheme       paillier, %u bits (%s-bit security)\n", i->bits,
               i->bits == 2048   ? "112"
               : i->bits == 3072 ? "128"
                                 : "about 150");
    hex_write(hex, i->fingerprint, sizeof i->fingerprint);
    printf("fingerprint  "); /* in groups of eight, to read aloud */
    for (int k = 0; k < 64; k += 8)
        printf("%.8s%s", hex + k, k < 56 ? " " : "\n");
    if (i->secret)
        printf("locked by    %s, Argon2id with %u passes over %u MiB\n", by, i->cost.passes,
               i->cost.kib / 1024);
    if (s->verdict)
        printf("check        %s\n", s->verdict);
    return SEFL_OK;
}

static void warn_unlocked(bool locked)
{
    if (!locked)
        fprintf(stderr, "sefl: warning: the key cannot be locked in memory (ulimit -l)\n");
}

static sefl_status new_root_memory(wish *s)
{
    bool locked = true;
    SEFL_PASS(secmem_new(&s->root, KEYFILE_ROOT_BYTES, &locked));
    warn_unlocked(locked);
    return SEFL_OK;
}

/* ---- new ------------------------------------------------------------------------------------- */

/* Sets the paths to PREFIX.key and PREFIX.pub, or to csp.key and csp.pub in a folder. */
static sefl_status set_paths(wish *s)
{
    struct stat sb;
    const size_t n = strlen(s->out);
    const bool slash = n > 0 && s->out[n - 1] == '/';
    const bool folder = slash || (stat(s->out, &sb) == 0 && S_ISDIR(sb.st_mode));
    const char *middle = !folder ? "" : slash ? "csp" : "/csp";
    if (file_path(s->secret_path, "%s%s.key", s->out, middle) != SEFL_OK ||
        file_path(s->public_path, "%s%s.pub", s->out, middle) != SEFL_OK || n == 0)
        return sefl_fail(SEFL_EINVAL, "--out must be a folder or the prefix of a file name");
    return SEFL_OK;
}

typedef struct dots {
    bool terminal;
    uint64_t shown;
} dots;

static bool show_progress(void *self, uint64_t done, uint64_t total)
{
    dots *d = self;
    (void)total; /* the time to find primes is unpredictable */
    if (d->terminal && done >= d->shown + 8) {
        fputc('.', stderr);
        d->shown = done;
    }
    return true;
}

static sefl_status write_file(const wish *s, const char *path, const sefl_buf *file, mode_t mode)
{
    return s->force ? file_write_atomic(path, buf_span(file), mode)
                    : file_write_new(path, buf_span(file), mode);
}

/* Writes both files or none. The secret key, which cannot be regenerated, is replaced last; if that
 * fails, the old public key is restored. A crash in between leaves the old secret key with the new
 * public key, which 'key check' detects. */
static sefl_status write_pair(const wish *s)
{
    sefl_status st = SEFL_OK, back = SEFL_OK;
    sefl_buf old = { 0 }, now = { 0 };
    const char *public = s->public_path;
    const bool had = file_exists(public);
    char why[512];
    if (had)
        SEFL_TRY(file_read(&old, public, KEYFILE_BYTES_MAX));
    SEFL_TRY(write_file(s, public, &s->pub_file, 0644));
    st = write_file(s, s->secret_path, &s->sec_file, 0600);
    if (st == SEFL_OK)
        goto done;
    snprintf(why, sizeof why, "%s", sefl_last_error());
    const bool written = file_read(&now, s->secret_path, KEYFILE_BYTES_MAX) == SEFL_OK &&
                         now.n == s->sec_file.n && memcmp(now.p, s->sec_file.p, now.n) == 0;
    if (!written && had) /* written: only the last sync failed, the new pair is in place */
        back = file_write_atomic(public, buf_span(&old), 0644);
    else if (!written)
        (void)unlink(public);
    st = sefl_fail(st, "%s%s%s", why, back == SEFL_OK ? "" : "; the public key is the new one: ",
                   back == SEFL_OK ? "" : public);
done:
    buf_clear(&old);
    buf_clear(&now);
    return st;
}

static sefl_status new_root(wish *s, const sealed_cost *cost, const sefl_rng *rng)
{
    SEFL_NEED(s->bits == 0, SEFL_EINVAL, "--bits requires --scheme paillier");
    SEFL_PASS(cli_unlock_get(&s->unlock, SEALED_BY_PASSPHRASE));
    SEFL_PASS(new_root_memory(s));
    SEFL_PASS(rng_fill(rng, s->root, KEYFILE_ROOT_BYTES));
    SEFL_PASS(keyfile_root_write(&s->sec_file, s->root, &s->unlock.lock, cost, rng));
    SEFL_PASS(keyfile_root_read(s->root, buf_span(&s->sec_file), &s->unlock.lock));
    s->verdict = "opens";
    s->public_path[0] = 0;
    return SEFL_OK;
}

static sefl_status new_pair(wish *s, const sealed_cost *cost, const sefl_rng *rng)
{
    bool locked = true;
    dots d = { .terminal = isatty(2) };
    sefl_progress progress = { .report = show_progress, .self = &d };
    const unsigned bits = s->bits ? s->bits : PAILLIER_BITS_DEFAULT;
    SEFL_PASS(cli_unlock_get(&s->unlock, SEALED_BY_PASSPHRASE));

    sefl_clock clock = clock_monotonic();
    uint64_t begin = clock_ms(&clock);
    fprintf(stderr, "sefl key: generating a %u-bit key ", bits);
    sefl_status st = paillier_keygen_vartime(&s->sec, bits, rng, &progress);
    fprintf(stderr, " %s %.1f s\n", st == SEFL_OK ? "done," : "failed after",
            (double)(clock_ms(&clock) - begin) / 1000);
    SEFL_PASS(st);
    sefl_span memory = paillier_sec_memory(s->sec);
    SEFL_PASS(secmem_lock(memory.p, memory.n, &locked));
    warn_unlocked(locked);
    SEFL_PASS(keyfile_check(s->sec, rng));
    SEFL_PASS(keyfile_sec_write(&s->sec_file, s->sec, &s->unlock.lock, cost, rng));
    SEFL_PASS(keyfile_pub_write(&s->pub_file, paillier_sec_pub(s->sec)));
    s->verdict = "decrypts what it encrypts";
    return SEFL_OK;
}

static sefl_status new_key(void *options)
{
    wish *s = options;
    const sefl_rng rng = rng_system();
    const sealed_cost cost = { .passes = sealed_cost_default.passes, .kib = s->mib * 1024 };
    const bool paillier = strcmp(s->scheme, "paillier") == 0;
    SEFL_PASS(set_paths(s));
    const char *files[] = { s->secret_path, s->public_path };
    for (int i = 0; i < (paillier ? 2 : 1); i++)
        SEFL_NEED(s->force || !file_exists(files[i]), SEFL_EEXIST,
                  "%s exists: --force replaces it, and the old key is lost", files[i]);
    s->unlock.creating = true;
    SEFL_PASS(paillier ? new_pair(s, &cost, &rng) : new_root(s, &cost, &rng));
    SEFL_PASS(keyfile_info_read(&s->info, buf_span(&s->sec_file)));
    SEFL_PASS(paillier ? write_pair(s) : write_file(s, s->secret_path, &s->sec_file, 0600));
    return print_report(s);
}

/* ---- show and check -------------------------------------------------------------------------- */

static sefl_status read_key_file(sefl_buf *b, const char *path)
{
    sefl_status st = file_read(b, path, KEYFILE_BYTES_MAX);
    return st == SEFL_ERANGE ? sefl_fail(SEFL_EPROTO, "%s: too large for a sefl key file", path)
                             : st;
}

/* Reads the file of the argument and its description of itself. */
static sefl_status read_argument(wish *s)
{
    SEFL_PASS(read_key_file(&s->sec_file, s->file));
    SEFL_PASS(sefl_at(keyfile_info_read(&s->info, buf_span(&s->sec_file)), "%s", s->file));
    return file_path(s->info.secret ? s->secret_path : s->public_path, "%s", s->file);
}

static sefl_status show_key(void *options)
{
    wish *s = options;
    SEFL_PASS(read_argument(s));
    if (!s->info.secret) /* all checks that a client makes */
        SEFL_PASS(sefl_at(keyfile_pub_read(&s->public, buf_span(&s->sec_file)), "%s", s->file));
    SEFL_PASS(print_report(s));
    if (s->info.secret)
        fprintf(stderr, "sefl key: read without unlocking it; verify it with 'sefl key check %s'\n",
                s->file);
    return SEFL_OK;
}

/* Finds the public key to compare with: --pub, or X.pub next to X.key if it exists. */
static sefl_status find_public(wish *s)
{
    const size_t n = strlen(s->file);
    if (s->pub)
        return file_path(s->public_path, "%s", s->pub);
    if (n < 4 || strcmp(s->file + n - 4, ".key") != 0)
        return SEFL_OK;
    SEFL_PASS(file_path(s->public_path, "%.*s.pub", (int)(n - 4), s->file));
    if (!file_exists(s->public_path))
        s->public_path[0] = 0;
    return SEFL_OK;
}

/* Unlocks the pair, tries it, and compares it with the public key file. */
static sefl_status check_pair(wish *s)
{
    const sefl_rng rng = rng_system();
    bool locked = true;
    SEFL_PASS(sefl_at(keyfile_sec_read(&s->sec, buf_span(&s->sec_file), &s->unlock.lock, &locked),
                      "%s", s->file));
    warn_unlocked(locked);
    SEFL_PASS(keyfile_check(s->sec, &rng));
    SEFL_PASS(find_public(s));
    s->verdict = "unlocked; it decrypts what it encrypts; there is no public key file to compare";
    if (!*s->public_path)
        return SEFL_OK;
    SEFL_PASS(read_key_file(&s->pub_file, s->public_path));
    SEFL_PASS(sefl_at(keyfile_pub_read(&s->public, buf_span(&s->pub_file)), "%s", s->public_path));
    SEFL_NEED(paillier_pub_equal(s->public, paillier_sec_pub(s->sec)), SEFL_ECRYPTO,
              "%s is not the public half of %s", s->public_path, s->file);
    s->verdict = "unlocked; it decrypts what it encrypts, and the public key matches";
    return SEFL_OK;
}

static sefl_status check_root(wish *s)
{
    SEFL_NEED(!s->pub, SEFL_EINVAL, "%s is a root key: it has no public half to compare with",
              s->file);
    SEFL_PASS(new_root_memory(s));
    s->verdict = "opens";
    return sefl_at(keyfile_root_read(s->root, buf_span(&s->sec_file), &s->unlock.lock), "%s",
                   s->file);
}

static sefl_status check_key(void *options)
{
    wish *s = options;
    SEFL_PASS(read_argument(s));
    SEFL_NEED(s->info.secret, SEFL_EINVAL,
              "%s is a public key: 'sefl key show' checks it, 'check' needs the secret key",
              s->file);
    SEFL_PASS(cli_unlock_get(&s->unlock, s->info.by));
    SEFL_PASS(s->info.kind == KEYFILE_ROOT ? check_root(s) : check_pair(s));
    return print_report(s);
}

/* ---- command line ---------------------------------------------------------------------------- */

/* Creates the Ed25519 key that a server signs tasks, headers and receipts with. */
static sefl_status new_sign_key(void *options)
{
    wish *s = options;
    const sefl_rng rng = rng_system();
    char hex[HEX_CHARS(SIGN_PUB_BYTES)];
    SEFL_PASS(file_path(s->secret_path, "%s.key", s->out));
    SEFL_PASS(file_path(s->public_path, "%s.pub", s->out));
    SEFL_NEED(!file_exists(s->public_path), SEFL_EEXIST, "%s already exists: choose another --out",
              s->public_path);
    SEFL_PASS(sign_key_new(&s->sign, &rng));
    SEFL_PASS(sign_key_write(s->sign, s->secret_path));
    SEFL_PASS(sign_pub_write(sign_key_pub(s->sign), s->public_path));
    printf("%s (secret), %s:\n%s\n", s->secret_path, s->public_path,
           hex_write(hex, sign_key_pub(s->sign), SIGN_PUB_BYTES));
    return SEFL_OK;
}

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "out", SETTING_PATH, "", TO(out), .arg = "PREFIX",
      .help =
          "Write PREFIX.key and, for a key pair, PREFIX.pub; for a folder, PREFIX is FOLDER/csp" },
    { "scheme", SETTING_WORD, "pad", AHE_SCHEMES, TO(scheme), .help = "Scheme of the task" },
    { "bits", SETTING_U64, "0", PAILLIER_SIZES, TO(bits), .min = 1, .arg = "N",
      .help = "Size of a Paillier key; default 3072" },
    { "memory", SETTING_U64, "256", TO(mib), .min = 64, .max = SEALED_KIB_MAX / 1024, .arg = "MIB",
      .help = "Memory in MiB that unlocking the key takes" },
    { "pub", SETTING_PATH, "", TO(pub),
      .help = "Public key to compare with; by default, the .pub file beside SECRET" },
    { "passphrase-file", SETTING_PATH, "", TO(unlock.passphrase_file),
      .help = "Lock or unlock with the passphrase in FILE, one line of at least 12 characters" },
    { "key-file", SETTING_PATH, "", TO(unlock.key_file),
      .help = "Lock or unlock with FILE, which contains at least 32 random bytes" },
    { "force", SETTING_FLAG, TO(force), .help = "Replace existing files; the old key is lost" },
    OPTION_JSON(wish),
    { 0 },
};

#define AT offsetof(wish, file)
static const cli_action actions[] = {
    { "new", NULL, NULL,
      "Creates CSP's secret key and locks it. For the scheme pad, it is the root from which CSP "
      "derives a key for each round; if it is lost, the current round fails. For the scheme "
      "paillier, it is a key pair for one task; CSP refuses a pair that has served another task. "
      "Do not back up a pair: losing it ends the task, but a stolen copy can decrypt every upload.",
      "out", "scheme bits memory passphrase-file key-file force json", 0, new_key },
    { "show", "FILE", "a key file", "Describes a public or secret key file without unlocking it.",
      NULL, "json", AT, show_key },
    { "check", "SECRET", "a secret key file",
      "Unlocks a secret key, tests it, and compares a Paillier key with its public key.", NULL,
      "pub passphrase-file key-file json", AT, check_key },
    { "sign", NULL, NULL,
      "Creates a server's signing key: PREFIX.key is secret, PREFIX.pub is public.", "out", "", 0,
      new_sign_key },
    { 0 },
};

const cli_command cmd_key = {
    .name = "key",
    .notes = "Without --passphrase-file or --key-file, the command asks for a passphrase on the "
             "terminal.",
    .example = "head -c 32 /dev/urandom > csp.lock\n"
               "  sefl key new --out csp --key-file csp.lock\n"
               "  sefl key show csp.key && sefl key check csp.key --key-file csp.lock",
    CLI_OPTIONS(wish),
    .actions = actions,
    .finish = cmd_key_finish,
    .handles_keys = true,
};
