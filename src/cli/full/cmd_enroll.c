/* sefl enroll: a site joins a federation with one token of each server. */
#include "base/hex.h"
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/address.h"
#include "operator/site.h"
#include "roles/client/config.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    O_SERVER = 256,
    O_AS_TOKEN,
    O_CSP_TOKEN,
    O_PROXY,
    O_CSR_ONLY,
    O_NAME,
    O_CERT,
    O_PEERS,
    O_AS_KEY,
    O_CSP_KEY,
    O_RENEW,
    O_END,
};

static const struct option longopts[] = {
    { "server", required_argument, NULL, O_SERVER },
    { "aggregator-token", required_argument, NULL, O_AS_TOKEN },
    { "csp-token", required_argument, NULL, O_CSP_TOKEN },
    { "proxy", required_argument, NULL, O_PROXY },
    { "csr-only", no_argument, NULL, O_CSR_ONLY },
    { "name", required_argument, NULL, O_NAME },
    { "cert", required_argument, NULL, O_CERT },
    { "peers", required_argument, NULL, O_PEERS },
    { "aggregator-key", required_argument, NULL, O_AS_KEY },
    { "csp-key", required_argument, NULL, O_CSP_KEY },
    { "renew", no_argument, NULL, O_RENEW },
    { 0 },
};

typedef struct wish {
    const char *folder;
    const char *text[O_END - O_SERVER];
    host_port server;
    const char *proxy;
} wish;

static const char *of(const wish *w, int option)
{
    return w->text[option - O_SERVER];
}

/* A token, or "@file" with one: command lines can be seen by other users of a machine. */
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
    char date[32] = "?";
    time_t t = (time_t)r->until;
    struct tm tm;
    if (gmtime_r(&t, &tm))
        strftime(date, sizeof date, "%Y-%m-%d", &tm);
    printf("%s: enrolled as \"%s\", certificate until %s\n", w->folder, r->name, date);
    print_key("AS", r->as);
    print_key("CSP", r->csp);
    if (r->kept_settings[0])
        fprintf(stderr, "sefl: %s\n", r->kept_settings);
    if (r->kept_ledger[0])
        fprintf(stderr, "sefl: %s\n", r->kept_ledger);
    printf("Next: put text into %s/text, look at %s/policy.yml, then\n"
           "  sefl client -c %s/client.yml\n",
           w->folder, w->folder, w->folder);
}

static sefl_status enrol(const wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf as = { 0 }, csp = { 0 };
    site_report r;
    SEFL_TRY(token_text(&as, of(w, O_AS_TOKEN)));
    SEFL_TRY(token_text(&csp, of(w, O_CSP_TOKEN)));
    SEFL_TRY(site_enrol(&(site_config){ .folder = w->folder,
                                        .host = w->server.host,
                                        .port = w->server.port,
                                        .proxy = w->proxy,
                                        .as_token = buf_span(&as),
                                        .csp_token = buf_span(&csp) },
                        &r));
    print_report(w, &r);
done:
    buf_clear(&as);
    buf_clear(&csp);
    return st;
}

static sefl_status request(const wish *w)
{
    sefl_status st = site_request(w->folder, of(w, O_NAME));
    if (st == SEFL_OK)
        printf("%s/csr.pem: send it to both operators ('sefl ca sign'). key.pem stays here\n",
               w->folder);
    return st;
}

static sefl_status install(const wish *w)
{
    site_report r;
    sefl_status st = site_install(w->folder,
                                  &(site_parts){ .cert = of(w, O_CERT),
                                                 .peers = of(w, O_PEERS),
                                                 .as_key = of(w, O_AS_KEY),
                                                 .csp_key = of(w, O_CSP_KEY),
                                                 .host = w->server.host,
                                                 .port = w->server.port },
                                  &r);
    if (st == SEFL_OK)
        print_report(w, &r);
    return st;
}

static sefl_status renew(const wish *w)
{
    bool fresh;
    int64_t until;
    sefl_status st = of(w, O_CERT) ? site_renew_from(w->folder, of(w, O_CERT), &fresh, &until)
                                   : site_renew(w->folder, w->server.host, w->server.port, w->proxy,
                                                &fresh, &until);
    if (st == SEFL_OK)
        printf("%s\n", fresh ? "a newer certificate is in place (SIGHUP tells a running client)"
                             : "there is no newer certificate");
    return st;
}

static const struct way {
    int mark, with; /* the option that chooses it; and a second one, or 0 */
    sefl_status (*run)(const wish *w);
    int needs[6], takes[2];
} ways[] = {
    { O_CSR_ONLY, 0, request, { O_NAME }, { 0 } },
    { O_RENEW, O_CERT, renew, { 0 }, { 0 } },
    { O_RENEW, 0, renew, { O_SERVER }, { O_PROXY } },
    { O_CERT, 0, install, { O_PEERS, O_AS_KEY, O_CSP_KEY, O_SERVER }, { 0 } },
    { 0, 0, enrol, { O_SERVER, O_AS_TOKEN, O_CSP_TOKEN }, { O_PROXY } },
};

static const char *option_name(int o)
{
    for (const struct option *p = longopts; p->name; p++)
        if (p->val == o)
            return p->name;
    return "?";
}

static int check_options(const wish *w, const struct way *y)
{
    for (size_t i = 0; i < 6 && y->needs[i]; i++)
        if (!of(w, y->needs[i]))
            return cli_misuse(&cmd_enroll, "--%s is missing", option_name(y->needs[i]));
    for (int o = O_SERVER; o < O_END; o++) {
        bool fits = o == y->mark || o == y->with || o == y->takes[0];
        for (size_t i = 0; i < 6; i++)
            fits = fits || o == y->needs[i];
        if (of(w, o) && !fits)
            return cli_misuse(&cmd_enroll, "--%s does not go with the rest", option_name(o));
    }
    return CLI_DONE;
}

static int run(int argc, char **argv)
{
    wish w = { 0 };
    int rc = CLI_DONE;
    opterr = 0, optind = 1;
    for (int o; rc == CLI_DONE && (o = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (o == '?' || o == ':')
            rc = cli_bad_option(&cmd_enroll, argc, argv, o, longopts);
        else
            w.text[o - O_SERVER] = optarg ? optarg : "";
    }
    const struct way *y = ways;
    while (y->mark && !(of(&w, y->mark) && (!y->with || of(&w, y->with))))
        y++;
    if (rc == CLI_DONE && optind >= argc)
        rc = cli_misuse(&cmd_enroll, "which folder?");
    if (rc == CLI_DONE && optind + 1 < argc)
        rc = cli_misuse(&cmd_enroll, "\"%.64s\" is one too many", argv[optind + 1]);
    if (rc == CLI_DONE)
        rc = check_options(&w, y);
    if (rc != CLI_DONE)
        return rc;
    w.folder = argv[optind];
    w.proxy = of(&w, O_PROXY) && strcmp(of(&w, O_PROXY), "none") == 0 ? "" : of(&w, O_PROXY);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 }); /* no key in a core file */
    sefl_status st = SEFL_OK;
    if (of(&w, O_SERVER))
        st = address_read(&w.server, of(&w, O_SERVER), 1);
    if (st != SEFL_OK)
        sefl_note_before("--server");
    if (st == SEFL_OK)
        st = y->run(&w);
    if (st != SEFL_OK)
        rc = cli_failed(&cmd_enroll, st);
    return rc;
}

const cli_command cmd_enroll = {
    .name = "enroll",
    .summary = "join a federation: own key, certificate, both servers' keys",
    .usage = "FOLDER --server H:P --aggregator-token T --csp-token T\n"
             "       [--proxy URL]",
    .details = "Makes FOLDER with a private key that never leaves it, asks the aggregation\n"
               "server for a certificate, and writes client.yml and a cautious policy.yml. It\n"
               "needs a token of each operator ('sefl ca token'), each given to the site by that\n"
               "operator itself: the CSP's key comes with the CSP's token, never through the\n"
               "aggregation server. Both servers' signing keys are printed, to compare. When the\n"
               "servers cannot do it now, run it again within the hour: the key stays the same.\n"
               "  --server HOST:PORT        the aggregation server\n"
               "  --aggregator-token T, --csp-token T\n"
               "                            the tokens; @FILE reads one from a file\n"
               "  --proxy URL               HTTP CONNECT proxy; none; default: from https_proxy\n"
               "By hand, with files instead of tokens:\n"
               "  enroll FOLDER --csr-only --name SITE     key and csr.pem, for 'sefl ca sign'\n"
               "  enroll FOLDER --cert F --peers AGGREGATOR-CA.pem --aggregator-key F\n"
               "         --csp-key F --server H:P\n"
               "                                           puts what came back in place\n"
               "After 'sefl ca renew':\n"
               "  enroll FOLDER --renew --server H:P       fetches the newer certificate\n"
               "  enroll FOLDER --renew --cert F           takes it from a file, also when the\n"
               "                                           old one has expired",
    .example = "sefl enroll site --server as.example:7000 \\\n"
               "      --aggregator-token @as.token --csp-token @csp.token",
    .run = run,
};
