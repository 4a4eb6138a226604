/* organisation: one of the two operators of a real federation, in a folder on its own machine. Its
 * keys are made here and never leave.
 *
 *     FOLDER/ca/                   its CA, signing key and trust list (roles/ca.h)
 *            tls/                  cert.pem key.pem of its server
 *            key.key key.lock      CSP: the root of the round keys and its lock (operator/secret.h)
 *            ledger                of the population
 *            ROLE.card             public: for the other operator (operator/card.h)
 *            tokens/SITE           one token per site: for that site only
 *            tasks/                what its server serves (roles/task_queue.h)
 *            csp.yml               CSP: settings; AS's aggregator.yml follows when it trusts CSP
 *
 * org_trust adds the other operator's files: PEER-ca.pem, PEER.pub and, at AS, aggregator.yml.
 * org_task (AS) adds tasks/NAME with valid.txt, vocab.txt, init.safetensors, task.json, and
 * task.half with AS's signature. org_sign (CSP) adds tasks/NAME/task.signed; AS's operator copies
 * that file into its own tasks/NAME. Both servers then serve the task, and a later one too, without
 * a restart.
 *
 *     SEFL_TRY(org_init(&(org_config){ .folder = "north", .role = TRUST_AGGREGATOR, ... }, &r));
 *     SEFL_TRY(org_trust("north", "csp.card", digits));       // people have compared the digits
 *     SEFL_TRY(org_task(&(org_task_config){ .folder = "north", .text = "public.txt" }, &task));
 *     SEFL_TRY(org_sign("south", "task.half", agree, ctx));
 *
 * docs/OPERATING.md does the same with one command per step.
 * Threads: one call per folder.   Secrets: all keys, the tokens. */
#ifndef ROLES_ORGANISATION_H
#define ROLES_ORGANISATION_H

#include "config/settings.h"
#include "operator/card.h"
#include "protocol/task_budget.h"

#include <limits.h>

enum { ORG_SERVER_DAYS = 90 };

typedef struct org_config {
    const char *folder;     /* must be empty or must not exist */
    trust_role role;        /* TRUST_AGGREGATOR or TRUST_CSP */
    const char *name;       /* of the organisation */
    host_port at;           /* where the others reach its server */
    const char *population; /* of the ledger */
    const char *sites;      /* names separated by commas, or NULL: one token for each */
    const char *lock;       /* CSP: absolute path for the lock of its key; NULL: FOLDER/key.lock */
} org_config;

typedef struct org_report {
    uint8_t digits[SHA256_BYTES];
    uint8_t sign[SIGN_PUB_BYTES];
    uint32_t tokens;
    int64_t token_until;
} org_report;

/* Creates the folder; a failure leaves nothing behind. */
sefl_status org_init(const org_config *c, org_report *out) SEFL_MUST_CHECK;

/* Reads a card; bytes keeps what out->ca points to. */
sefl_status org_card(card *out, sefl_buf *bytes, uint8_t digits[SHA256_BYTES],
                     const char *path) SEFL_MUST_CHECK;

/* Trusts the operator of this card. digits: what people compared. SEFL_EAUTH if the card has other
 * digits, SEFL_EINVAL if it is for the same role or another population, SEFL_EEXIST if the folder
 * trusts another operator already. Trusting the same one again changes nothing. */
sefl_status org_trust(const char *folder, const char *path,
                      const uint8_t digits[SHA256_BYTES]) SEFL_MUST_CHECK;

typedef struct org_task_config {
    const char *folder;
    const char *text;     /* public text: its words are the vocabulary, and it validates models */
    const settings *task; /* the caller's settings, over task_schema */
} org_task_config;

enum { ORG_DEADLINE_TEXT = 1024 };
typedef struct org_task_report {
    uint8_t id[TASK_ID];
    char name[TASK_FILE_NAME]; /* of its folder */
    uint32_t enrolled, threshold;
    uint32_t absent; /* sites with a token that have not enrolled yet */
    uint64_t rounds;
    char deadline[ORG_DEADLINE_TEXT]; /* task_explain_deadline */
    char mode[ORG_DEADLINE_TEXT];     /* task_explain_mode */
    bool claim, unit_record;
    double epsilon, z;
    double noise_over_signal;            /* task_noise_clients over task_cohort */
    char turns_warning[TASK_TURNS_TEXT]; /* "": none */
} org_task_report;

/* AS: drafts a task and signs it. Unless the settings say otherwise: a small model, 10
 * rounds, all sites that have a token or are members, epsilon 3 at delta 1e-6 with the noise that
 * it needs; epsilon 0 claims nothing; a round closes when all sites have sent an update, after ten
 * minutes at the latest, and needs half of the sites. SEFL_ESTATE if CSP is not trusted
 * yet, SEFL_EEXIST if there is a task of that name. */
sefl_status org_task(const org_task_config *c, org_task_report *out) SEFL_MUST_CHECK;

/* CSP: checks that the other operator signed the task, asks `agree`, signs, and writes task.signed,
 * whose path signed_path gets. If agree fails, returns its status and signs nothing. */
sefl_status org_sign(const char *folder, const char *path,
                     sefl_status (*agree)(void *ctx, const task *t), void *ctx,
                     char signed_path[PATH_MAX]) SEFL_MUST_CHECK;

#endif
