#include "base/hex.h"
#include "cli/full/ask.h"
#include "cli/full/ca_print.h"
#include "cli/options.h"

#include "operator/organisation.h"
#include "protocol/task_make.h"
#include "protocol/task_profile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct wish {
    const char *folder, *role, *name, *host, *population, *sites, *lock, *peer, *digits;
    const char *text, *epsilon, *rounds, *task_file;
    bool yes;
    settings task;
    ask asked;
} wish;

/* On a terminal, the help texts are the questions. */
#define TO(member) SETTING_TO(wish, member)
static const setting_def options[] = {
    { "role", SETTING_WORD, "", "aggregator csp", TO(role),
      .help = "Server that this organisation runs: the aggregation server, or CSP, which holds the "
              "keys. The other organisation runs the other one" },
    { "name", SETTING_TEXT, "", TO(name), .help = "Name of this organisation" },
    { "host", SETTING_TEXT, "", TO(host), .arg = "HOST[:PORT]",
      .help = "Name or address under which the others reach the server; the default port is 7000 "
              "for the aggregation server and 7001 for CSP" },
    { "population", SETTING_TEXT, "", TO(population),
      .help = "Name of the people whose privacy the ledger records; the same at both operators "
              "(default sites)" },
    { "lock", SETTING_PATH, "", TO(lock),
      .help = "CSP only: where to put the lock of its key file, as an absolute path; a medium "
              "apart from the key is best (default FOLDER/key.lock)" },
    { "sites", SETTING_TEXT, "", TO(sites), .arg = "S1,S2",
      .help = "Sites that may join: each gets a token, valid once for 48 hours. More follow with "
              "'sefl ca token'" },
    { "peer", SETTING_PATH, "", TO(peer), .arg = "CARD",
      .help = "The other operator's card, if it is already here" },
    { "digits", SETTING_TEXT, "", TO(digits), .arg = "HEX",
      .help = "The 64 digits of that card, as its operator read them to you; without this option, "
              "the command shows the digits and asks" },
    { "text", SETTING_PATH, "", TO(text),
      .help = "Public text: its words become the vocabulary, and the aggregation server validates "
              "each model on it" },
    { "rounds", SETTING_TEXT, "", TO(rounds), .arg = "N", .help = "Number of rounds (default 10)" },
    { "epsilon", SETTING_TEXT, "", TO(epsilon), .arg = "X",
      .help = "Privacy claim over all rounds, at delta 1e-6; the command computes the noise. New "
              "sites accept at most 3; 0 claims nothing, for rehearsals (default 3)" },
    { "task", SETTING_PATH, "", TO(task_file), .help = "Task that the other operator signed" },
    { "yes", SETTING_FLAG, TO(yes), .help = "Sign without a question" },
    OPTION_SET,
    { 0 },
};

/* Asks for an option that was not given. */
static sefl_status want(wish *w, const char **value, const char *key, const char *fallback,
                        sefl_status (*check)(const char *))
{
    return ask_option(&w->asked, value, setting_find(options, key), fallback, check);
}

/* Prints 64 digits in groups of eight, to read aloud. */
static void print_digits(FILE *to, const uint8_t digits[SHA256_BYTES])
{
    char hex[HEX_CHARS(SHA256_BYTES)];
    hex_write(hex, digits, SHA256_BYTES);
    for (int k = 0; k < 64; k += 8)
        fprintf(to, "%.8s%s", hex + k, k < 56 ? " " : "\n");
}

/* ---- the other operator's card --------------------------------------------------------------- */

/* Reads 64 hex digits, with blanks anywhere. */
static sefl_status read_digits(uint8_t out[SHA256_BYTES], const char *text)
{
    char bare[HEX_CHARS(SHA256_BYTES)];
    size_t n = 0;
    for (const char *p = text; *p; p++)
        if (*p != ' ' && n < sizeof bare)
            bare[n++] = *p;
    SEFL_NEED(n == sizeof bare - 1 && hex_read_any(out, SHA256_BYTES, span_of(bare, n)),
              SEFL_EINVAL, "--digits must be 64 hex digits");
    return SEFL_OK;
}

/* Shows the card's digits and asks whether people have compared them. */
static sefl_status confirm(const card *c, const uint8_t digits[SHA256_BYTES])
{
    char name[80];
    fprintf(stderr, "\n\"%s\", the %s at %s:%u, has the digits\n  ",
            cli_plain(name, sizeof name, c->name), trust_role_name(c->role), c->at.host,
            c->at.port);
    print_digits(stderr, digits);
    return ask_yes("Its operator must read these digits to you, by voice or in person: not in the\n"
                   "message that brought the card. Do they agree?",
                   "--digits with the 64 digits that the other operator read to you");
}

/* Trusts the operator of --peer; without --peer, does nothing. */
static sefl_status trust_peer(const wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf bytes = { 0 };
    card c;
    uint8_t digits[SHA256_BYTES];
    SEFL_CHECK(w->peer || !w->digits, SEFL_EINVAL, "--digits requires --peer");
    if (!w->peer)
        goto done;
    SEFL_TRY(org_card(&c, &bytes, digits, w->peer));
    if (w->digits)
        SEFL_TRY(read_digits(digits, w->digits));
    else
        SEFL_TRY(confirm(&c, digits));
    SEFL_TRY(org_trust(w->folder, w->peer, digits));
    printf("%s trusts the %s \"%s\"\n", w->folder, trust_role_name(c.role), c.name);
done:
    buf_clear(&bytes);
    return st;
}

static sefl_status do_trust(void *options_)
{
    return trust_peer(options_);
}

/* ---- init ------------------------------------------------------------------------------------ */

static sefl_status check_role(const char *word)
{
    const trust_role r = trust_role_of(word);
    SEFL_NEED(r == TRUST_AGGREGATOR || r == TRUST_CSP, SEFL_EINVAL,
              "the role must be aggregator or csp, not \"%.64s\"", word);
    return SEFL_OK;
}

/* Reads --host, with the role's usual port if it has none. */
static sefl_status read_host(host_port *out, const char *text, trust_role role)
{
    return address_read_host(out, span_of_str(text), role == TRUST_CSP ? 7001 : 7000);
}

static sefl_status check_host(const char *text)
{
    host_port at;
    return read_host(&at, text, TRUST_CSP);
}

static sefl_status check_card(const char *path)
{
    sefl_buf bytes = { 0 };
    card c;
    uint8_t digits[SHA256_BYTES];
    sefl_status st = org_card(&c, &bytes, digits, path);
    buf_clear(&bytes);
    return st;
}

/* Asks the questions of docs/OPERATING.md, sections 1, 2 and 5, in that order. */
static sefl_status ask_init(wish *w, org_config *c)
{
    SEFL_PASS(want(w, &w->role, "role", NULL, check_role));
    c->role = trust_role_of(w->role);
    SEFL_PASS(want(w, &w->name, "name", NULL, NULL));
    SEFL_PASS(want(w, &w->host, "host", NULL, check_host));
    SEFL_PASS(read_host(&c->at, w->host, c->role));
    SEFL_PASS(want(w, &w->population, "population", "sites", NULL));
    if (c->role == TRUST_CSP)
        SEFL_PASS(want(w, &w->lock, "lock", "", NULL));
    SEFL_PASS(want(w, &w->sites, "sites", "", NULL));
    SEFL_PASS(want(w, &w->peer, "peer", "", check_card));
    SEFL_NEED(w->peer || !w->digits, SEFL_EINVAL, "--digits requires --peer");
    c->folder = w->folder;
    c->name = w->name;
    c->population = w->population;
    c->sites = w->sites;
    c->lock = w->lock;
    return SEFL_OK;
}

static void print_init(const org_config *c, const org_report *r)
{
    char date[32], hex[HEX_CHARS(SIGN_PUB_BYTES)];
    const char *f = c->folder, *role = trust_role_name(c->role);
    const bool as = c->role == TRUST_AGGREGATOR;
    printf("%s: \"%s\" runs the %s at %s:%u\n", f, c->name, role, c->at.host, c->at.port);
    printf("card      %s/%s.card, for the other operator; it is public\ndigits    ", f, role);
    print_digits(stdout, r->digits);
    printf("signs as  %s\n", hex_write(hex, r->sign, sizeof r->sign));
    if (r->tokens == 0)
        printf("tokens    none: 'sefl ca token %s/ca --name SITE' makes one for a site\n", f);
    if (r->tokens > 0) {
        ca_date(date, r->token_until);
        printf("tokens    %s/tokens: one for each of %" PRIu32 " sites, until %s UTC\n", f,
               r->tokens, date);
    }
    printf("\nnext\n"
           "  Send the card to the other operator. Then read the digits to each other, by voice or "
           "in\n  person, and write them into the minutes.\n");
    if (r->tokens > 0)
        printf("  Give each site its token yourself, with the digits after 'signs as': never "
               "through the\n  other operator, never in the channel that the other operator "
               "uses.\n");
    if (as)
        printf("  When you have CSP's card:  sefl operator task %s --peer csp.card --text "
               "PUBLIC-TEXT\n",
               f);
    else
        printf("  Move %s/ca/ca.key to a medium in a safe: CSP runs without it.\n"
               "  When you have AS's task:   sefl operator sign %s --task task.half\n",
               f, f);
}

static sefl_status do_init(void *options_)
{
    wish *w = options_;
    org_config c = { 0 };
    org_report r;
    SEFL_PASS(ask_init(w, &c));
    SEFL_PASS(org_init(&c, &r));
    print_init(&c, &r);
    return sefl_at(trust_peer(w),
                   "%s exists, but does not trust the other operator yet ('sefl "
                   "operator trust')",
                   w->folder);
}

/* ---- task ------------------------------------------------------------------------------------ */

static sefl_status set_task(wish *w)
{
    if (w->epsilon)
        SEFL_PASS(settings_setf(&w->task, "--epsilon", "privacy.epsilon=%s", w->epsilon));
    if (w->rounds)
        SEFL_PASS(settings_setf(&w->task, "--rounds", "rounds.count=%s", w->rounds));
    return SEFL_OK;
}

static sefl_status do_task(void *options_)
{
    wish *w = options_;
    org_task_report r;
    char hex[HEX_CHARS(TASK_ID)], made[PATH_MAX];
    SEFL_PASS(trust_peer(w));
    SEFL_PASS(want(w, &w->text, "text", NULL, NULL));
    if (!settings_given(&w->task, "rounds.count"))
        SEFL_PASS(want(w, &w->rounds, "rounds", "10", NULL));
    if (!settings_given(&w->task, "privacy.epsilon"))
        SEFL_PASS(want(w, &w->epsilon, "epsilon", "3", NULL));
    SEFL_PASS(set_task(w));
    SEFL_PASS(
        org_task(&(org_task_config){ .folder = w->folder, .text = w->text, .task = &w->task }, &r));
    snprintf(made, sizeof made, "%s/tasks/%s", w->folder, r.name);
    printf("%s/task.half: task %s\n", made, hex_write(hex, r.id, sizeof r.id));
    printf("rounds    %" PRIu64 ", with %" PRIu32 " to %" PRIu32 " sites\n%s", r.rounds,
           r.threshold, r.enrolled, r.deadline);
    if (r.absent > 0)
        printf("  %" PRIu32 " of the sites %s not enrolled yet: let the task begin when they have, "
               "or give it a longer\n  deadline with --set rounds.deadline_ms=MS (a day has "
               "86400000).\n",
               r.absent, r.absent == 1 ? "has" : "have");
    if (r.claim)
        printf("privacy   epsilon %g for a %s, in all tasks of the population together, noise z "
               "%g\n",
               r.epsilon, r.unit_record ? "record, not for a client" : "client", r.z);
    else
        printf("privacy   NO CLAIM: a rehearsal. After its first round, no task of this population "
               "can ever\n          claim an epsilon again. Sites must set claim_none: true in "
               "policy.yml\n");
    printf("%s", r.mode);
    if (r.threshold < TASK_POLICY_CLIENTS)
        fprintf(stderr,
                "sefl: a new site's policy.yml refuses this task: it wants at least %d sites in a "
                "sum\n      (clients_min). Give more sites a token, or agree with each site on a "
                "smaller clients_min\n",
                TASK_POLICY_CLIENTS);
    if (*r.turns_warning)
        fprintf(stderr, "sefl: warning: %s\n", r.turns_warning);
    if (r.claim && r.noise_over_signal > 1)
        fprintf(stderr,
                "sefl: the noise is %.3g times as large as the updates: for a model that learns, "
                "this\n      epsilon needs about %.0f sites ('sefl privacy plan')\n",
                r.noise_over_signal, ceil(r.noise_over_signal * r.enrolled));
    printf("\nnext\n  Read it: sefl task show --explain %s/task.half\n"
           "  Send task.half to CSP's operator, who signs it: sefl operator sign FOLDER --task "
           "task.half\n"
           "  Copy the answer, task.signed, into %s: the running server then begins\n"
           "  the task. If it does not run yet:  sefl aggregator -c %s/aggregator.yml\n",
           made, made, w->folder);
    return SEFL_OK;
}

/* ---- sign ------------------------------------------------------------------------------------ */

static sefl_status agree(void *ctx, const task *t)
{
    const wish *w = ctx;
    sefl_buf text = { 0 };
    sefl_status st = task_explain(&text, t);
    if (st == SEFL_OK)
        printf("%.*s\n", (int)text.n, (const char *)text.p);
    buf_clear(&text);
    return st != SEFL_OK || w->yes ? st : ask_yes("Sign this task?", "--yes");
}

static sefl_status do_sign(void *options_)
{
    wish *w = options_;
    SEFL_PASS(trust_peer(w));
    char path[PATH_MAX];
    SEFL_PASS(org_sign(w->folder, w->task_file, agree, w, path));
    printf("%s: signed by both servers\n\n"
           "next\n  Send it to AS's operator. A running CSP serves the task. If it does not run "
           "yet:\n  sefl csp -c %s/csp.yml\n",
           path, w->folder);
    return SEFL_OK;
}

/* ---- command line ---------------------------------------------------------------------------- */

#define FOLDER "FOLDER", "a folder"
#define AT     offsetof(wish, folder)
static const cli_action actions[] = {
    { "init", FOLDER,
      "Creates FOLDER with this organisation's CA, its server's keys and settings, its ledger, a "
      "token for each site, and a card for the other operator.",
      NULL, "role name host population lock sites peer digits", AT, do_init },
    { "trust", FOLDER, "Trusts the other operator, after people have compared the digits.", "peer",
      "digits", AT, do_trust },
    { "task", FOLDER,
      "At the aggregation server: makes the vocabulary, the initial model and a task, and signs "
      "it.",
      NULL, "peer digits text rounds epsilon set set-file", AT, do_task },
    { "sign", FOLDER, "At CSP: explains the task, and signs it after a question or with --yes.",
      "task", "peer digits yes", AT, do_sign },
    { 0 },
};

const cli_command cmd_operator = {
    .name = "operator",
    .about =
        "For one of the two organisations that run a federation, on its server's machine. The "
        "private keys are made here and never leave FOLDER. On a terminal, the command asks for "
        "what the options do not say. Two organisations and a site need eight commands to a first "
        "round: 'operator init' at both, 'operator task' and 'operator sign', 'csp', 'aggregator', "
        "then 'enroll' and 'client' at the site. docs/OPERATING.md has each step by itself.",
    .notes = "The operators exchange cards, and compare their digits by voice or in person. Each "
             "gives its tokens to the sites itself. CSP's tokens never pass through the "
             "aggregation server.",
    .example = "sefl operator init north --role aggregator --name North \\\n"
               "      --host as.north.example --sites ward-1,ward-2",
    CLI_OPTIONS(wish),
    .actions = actions,
    .schema = task_schema,
    CLI_SETTINGS(wish, task),
    .handles_keys = true,
};
