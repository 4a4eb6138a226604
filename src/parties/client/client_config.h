/* client_config: reads client.yml and the owner's policy file.
 *
 *     settings_init(&s, client_schema);
 *     SEFL_TRY(yaml_read(&s, "client.yml"));               // then options: settings_set
 *     SEFL_TRY(client_config_make(&c, &s));
 *     SEFL_TRY(policy_read(&p, c.policy, &c.servers));
 *
 *     # client.yml                            # policy.yml: what the owner of the text agrees to
 *     server: as.example:7000                 epsilon_per_task: 3      # maximum; 0: no limit
 *     tls: { cert: cert.pem, key: key.pem,    epsilon_total: 8         # over all tasks
 *            peers: peers.pem }               clients_min: 3           # minimum threshold
 *     aggregator_key: aggregator.pub          noise_modes: [joint, own]  # or none
 *     csp_key: csp.pub                        claim_none: false        # allow tasks without claim
 *     policy: policy.yml                      rounds_max: 40           # per task; 0: no limit
 *     text: text
 *     state: state
 *     ledger: ledger
 *
 * The client accepts tasks from the two servers whose signing keys client.yml names. The owner must
 * get CSP's key over a channel that AS does not control. Paths are relative to the file's folder.
 * Threads: read-only after client_config_make.   Secrets: none (only the paths of keys). */
#ifndef ROLES_CLIENT_CLIENT_CONFIG_H
#define ROLES_CLIENT_CLIENT_CONFIG_H

#include "config/address.h"
#include "config/settings.h"
#include "model/corpus/records.h"
#include "protocol/participant.h"

extern const setting_def client_schema[];
extern const setting_def policy_schema[];

/* The policy of a new owner ('sefl init', 'sefl enroll'; config/example.h). */
#define POLICY_ABOUT \
    "a text owner's policy: a client refuses every task that violates it (docs/PRIVACY.md)"
#define POLICY_CAUTIOUS \
    "epsilon_per_task=3 epsilon_total=8 delta_max clients_min=3 noise_modes=joint,own claim_none"

/* Which released models a client keeps for its owner (models.h). */
#define CLIENT_KEEPS "final each none"
typedef enum client_keeps { CLIENT_KEEPS_FINAL, CLIENT_KEEPS_EACH, CLIENT_KEEPS_NONE } client_keeps;

/* The contents of client.yml. The `settings` object that filled this struct owns its strings. */
typedef struct client_config {
    host_port server;
    const char *proxy; /* NULL: from the environment; "": none */
    const char *cert, *key, *peers, *aggregator_key, *csp_key;
    pinned servers; /* read from the two key files */
    const char *policy, *text, *text_field, *state, *ledger;
    corpus_format text_format;
    unsigned threads;
    const char *device, *precision; /* model/engine/engine.h */
    const char *trainer;            /* the owner's command (hook.h); NULL: the built-in training */
    const char *trainer_folder;     /* where it runs; NULL: where the client does */
    uint64_t trainer_timeout;       /* seconds */
    uint64_t trainer_memory;        /* MiB */
    bool stay;                      /* waits for the next task instead of ending */
    const char *models;             /* NULL: `models` in the state folder */
    client_keeps models_keep;
    unsigned eval; /* 1: own */
    double eval_share;
    const char *eval_text; /* NULL: a part of `text` */
} client_config;

/* Fills *out and reads the two public keys; SEFL_EINVAL if a setting is missing or wrong.
 * s must outlive *out. */
sefl_status client_config_make(client_config *out, const settings *s) SEFL_MUST_CHECK;

sefl_status policy_read(policy *out, const char *path, const pinned *servers) SEFL_MUST_CHECK;
sefl_status policy_make(policy *out, const settings *s, const pinned *servers) SEFL_MUST_CHECK;
/* Puts the file and line of a rule before the last error message; only the file if the rule is a
 * default. */
void policy_note_line(const char *path, const char *rule);

#endif
