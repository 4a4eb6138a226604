#include "base/hex.h"
#include "cli/full/ca_print.h"
#include "cli/options.h"

#include "base/file.h"
#include "operator/site.h"

#include <stdio.h>
#include <string.h>

typedef struct wish {
    site_config c;
    const char *as_token, *csp_token, *name;
    bool csr_only, renew;
} wish;

/* Reads a token, or a file given as "@file": other users of a machine can see command lines. */
static sefl_status token_text(sefl_buf *out, const char *arg)
{
    return arg[0] == '@' ? file_read(out, arg + 1, TOKEN_TEXT_MAX) : wr_raw(out, arg, strlen(arg));
}

static void print_key(const char *who, const uint8_t pub[SIGN_PUB_BYTES])
{
    char hex[HEX_CHARS(SIGN_PUB_BYTES)];
    printf("%-3s signs as  %s\n", who, hex_write(hex, pub, SIGN_PUB_BYTES));
}

static void print_report(const wish *w, const site_report *r)
{
    char date[32];
    ca_date(date, r->until);
    printf("%s: enrolled as \"%s\", certificate until %.10s\n", w->c.folder, r->name, date);
    print_key("AS", r->as);
    print_key("CSP", r->csp);
    if (r->kept_settings[0])
        fprintf(stderr, "sefl: %s\n", r->kept_settings);
    if (r->kept_ledger[0])
        fprintf(stderr, "sefl: %s\n", r->kept_ledger);
    printf("Next: put text into %s/text, review %s/policy.yml, then\n"
           "  sefl client -c %s/client.yml\n",
           w->c.folder, w->c.folder, w->c.folder);
}

static sefl_status enrol(wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf as = { 0 }, csp = { 0 };
    site_report r;
    SEFL_TRY(token_text(&as, w->as_token));
    SEFL_TRY(token_text(&csp, w->csp_token));
    w->c.as_token = buf_span(&as), w->c.csp_token = buf_span(&csp);
    SEFL_TRY(site_enrol(&w->c, &r));
    print_report(w, &r);
done:
    buf_clear(&as);
    buf_clear(&csp);
    return st;
}

static sefl_status request(wish *w)
{
    SEFL_PASS(site_request(w->c.folder, w->name));
    printf("%s/csr.pem: send it to both operators ('sefl ca sign'); key.pem stays here\n",
           w->c.folder);
    return SEFL_OK;
}

static sefl_status install(wish *w)
{
    site_report r;
    SEFL_PASS(site_install(&w->c, &r));
    print_report(w, &r);
    return SEFL_OK;
}

static sefl_status renew(wish *w)
{
    bool fresh;
    SEFL_PASS(site_renew(&w->c, &fresh));
    printf("%s\n", fresh ? "installed a newer certificate (send SIGHUP to a running client)"
                         : "there is no newer certificate");
    return SEFL_OK;
}

/* Which options go together: those that select a way to enrol, and those it needs and accepts. */
static const struct way {
    const char *chosen_by, *needs, *takes;
    sefl_status (*run)(wish *w);
} ways[] = {
    { "csr-only", "name", "", request },
    { "renew cert", "", "", renew },
    { "renew", "server", "proxy", renew },
    { "cert", "peers aggregator-key csp-key server", "", install },
    { "", "server aggregator-token csp-token", "proxy", enrol },
};

#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "server", SETTING_ADDRESS, "", TO(c.server), .min = 1,
      .help = "Server that enrols the site" },
    { "aggregator-token", SETTING_TEXT, "", TO(as_token), .arg = "TOKEN",
      .help = "Token of the aggregation server's operator; @FILE reads the token from FILE" },
    { "csp-token", SETTING_TEXT, "", TO(csp_token), .arg = "TOKEN",
      .help = "Token of CSP's operator; @FILE reads the token from FILE" },
    { "proxy", SETTING_TEXT, "", TO(c.proxy), .arg = "URL",
      .help = "HTTP CONNECT proxy, or none; default: the value of the environment variable "
              "https_proxy" },
    { "csr-only", SETTING_FLAG, TO(csr_only), .help = "Create only a key and a request, csr.pem" },
    { "name", SETTING_TEXT, "", TO(name), .help = "Name of the site in the certificate request" },
    { "cert", SETTING_PATH, "", TO(c.cert),
      .help = "Certificate from 'sefl ca sign' or 'sefl ca renew'" },
    { "peers", SETTING_PATH, "", TO(c.peers),
      .help = "Certificate of the aggregation server's CA" },
    { "aggregator-key", SETTING_PATH, "", TO(c.as_key),
      .help = "Public signing key of the aggregation server" },
    { "csp-key", SETTING_PATH, "", TO(c.csp_key), .help = "Public signing key of CSP" },
    { "renew", SETTING_FLAG, TO(renew), .help = "Renew the certificate of an enrolled site" },
    { 0 },
};

static bool is_given(const wish *w, const setting_def *d)
{
    const char *field = (const char *)w + d->at, *text;
    if (d->type == SETTING_FLAG || d->type == SETTING_ADDRESS)
        return *field != 0;
    memcpy(&text, field, sizeof text);
    return text != NULL;
}

/* True if all options in `words` are given; otherwise *missing is the first that is not. */
static bool all_given(const wish *w, const char *words, const char **missing)
{
    for (const setting_def *d = options; d->key; d++)
        if (options_listed(words, d->key) && !is_given(w, d)) {
            *missing = d->key;
            return false;
        }
    return true;
}

static int cmd_enroll_run(void *args)
{
    wish *w = args;
    const struct way *y = ways;
    const char *missing = "";
    while (!all_given(w, y->chosen_by, &missing))
        y++;
    if (!all_given(w, y->needs, &missing))
        return cli_misuse(&cmd_enroll, "--%s is missing", missing);
    for (const setting_def *d = options; d->key; d++)
        if (is_given(w, d) && !options_listed(y->chosen_by, d->key) &&
            !options_listed(y->needs, d->key) && !options_listed(y->takes, d->key))
            return cli_misuse(&cmd_enroll, "--%s cannot be used with the other options", d->key);
    if (w->c.proxy && strcmp(w->c.proxy, "none") == 0)
        w->c.proxy = "";
    sefl_status st = y->run(w);
    return st == SEFL_OK ? CLI_DONE : cli_failed(&cmd_enroll, st);
}

const cli_command cmd_enroll = {
    .name = "enroll",
    .about =
        "Creates FOLDER with a private key that never leaves this folder, requests a "
        "certificate from the aggregation server, and writes client.yml and a cautious "
        "policy.yml. Each operator makes a token with 'sefl ca token' and gives it to the site "
        "directly. CSP's token carries CSP's public keys. It must never pass through the "
        "aggregation server, which could replace those keys and read the updates. The "
        "command prints both servers' signing keys; compare them with the digits that the "
        "operators gave you. If a server does not answer, run the command again within the "
        "hour; the key stays the same.",
    .notes = "To enrol with files instead of tokens:\n"
             "  enroll FOLDER --csr-only --name SITE\n"
             "  (both operators run 'sefl ca sign')\n"
             "  enroll FOLDER --cert FILE --peers FILE --aggregator-key FILE --csp-key FILE "
             "--server HOST:PORT\n"
             "After 'sefl ca renew':\n"
             "  enroll FOLDER --renew --server HOST:PORT   fetches the newer certificate\n"
             "  enroll FOLDER --renew --cert FILE          installs it from a file, even if the "
             "old one has expired",
    .example = "sefl enroll site --server as.example:7000 \\\n"
               "      --aggregator-token @as.token --csp-token @csp.token",
    CLI_OPTIONS(wish),
    .actions = (const cli_action[]){ { "", "FOLDER", "a folder", .arg_at = offsetof(wish, c.folder),
                                       .run = cmd_enroll_run },
                                     { 0 } },
    .handles_keys = true,
};
