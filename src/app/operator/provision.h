/* provision: creates a whole federation in one folder, for trials and tests, on one machine or on
 * several.
 *
 *     SEFL_TRY(provision_make(&report, &(provision_config){ .folder = "fed", .task = &s }, NULL));
 *
 *     FOLDER/ca/aggregator/{ca.pem,ca.key,sign.pub,trust,issued/}   ca/csp/...    (roles/ca.h)
 *     FOLDER/public/{vocab.txt,init.safetensors,valid.txt,task.json,task.signed,
 *                    aggregator.pub,csp.pub; key.pub (scheme paillier)}
 *     FOLDER/aggregator/{aggregator.yml,cert.pem,key.pem,peers.pem,csp_peers.pem,sign.key,ledger}
 *     FOLDER/csp/{csp.yml,cert.pem,key.pem,peers.pem,sign.key,key.sealed,key.lock,ledger}
 *     FOLDER/clients/client-01/{client.yml,policy.yml,cert.pem,key.pem,peers.pem,
 *                    aggregator.pub,csp.pub,text/train.txt,ledger}, ...
 *
 *     FOLDER/kits/{aggregator.tar,csp.tar,client-01.tar,...}     (with `hosts`: operator/kits.h)
 *
 * AS's CA issues the certificates of AS and the clients; CSP's CA issues CSP's certificate. Each
 * role trusts only its peers' CA. Clients enrol with tokens from both servers (provision_ids.h).
 *
 * All public files come from public data. The word list comes from the text generator, the
 * validation text or a given list, and the initial model from a public seed or a given file.
 *
 * If the task's model is external, there is no word list and no text, and the clients' folders
 * `text` are empty. The task's tensors are those of the file `init`, unless the settings list them;
 * without `init` they start from zeros.
 *
 * **For trials only.** The keys of all parties are in one folder: anyone who can read it can
 * decrypt every update. Real operators create their own keys, each on its own machine.
 *
 * provision_make builds the federation in a folder next to FOLDER, which it renames at the end, so
 * a failure leaves nothing behind.
 * Threads: one call per folder.   Secrets: every key; files have mode 0600, folders 0700. */
#ifndef ROLES_PROVISION_H
#define ROLES_PROVISION_H

#include "base/progress.h"
#include "config/address.h"
#include "config/settings.h"
#include "protocol/task_budget.h"

enum { PROVISION_CLIENTS_MAX = 1000, PROVISION_WORDS = 2000 };

typedef struct provision_config {
    const char *folder; /* must be empty or must not exist */
    uint32_t clients;   /* 0: 8 */
    unsigned key_bits;  /* scheme paillier; 0: 3072 */
    const char *data;   /* folder or file of text to split among the clients; NULL: generated */
    const char *vocab;  /* public word list; NULL: see above */
    const char *init;   /* public initial model, a safetensors file; NULL: drawn from the seed */
    uint64_t words;     /* training tokens per client in generated text; 0: PROVISION_WORDS */
    uint64_t seed;      /* public seed for generated text, the split and the initial model */
    uint16_t port_base; /* AS's port; CSP uses the next one. 0: the system chooses (ready files) */
    const char *hosts;  /* "AS,CSP": names or addresses of two machines, each with or without :port;
                           provision_make writes kits. NULL: all parties on this machine */
    const settings *task; /* the caller's settings for the task, over task_schema */
} provision_config;

typedef struct provision_report {
    uint8_t task[TASK_ID];
    size_t params;         /* number of values of the model */
    size_t values;         /* number of values in an update */
    uint64_t update_bytes; /* size of an upload */
    uint32_t words;        /* size of the vocabulary; 0: the model is external */
    bool tokens;           /* the vocabulary has sub-word tokens, not words */
    uint32_t clients;
    uint64_t tokens_least, tokens_most;  /* size of the smallest and the largest client text */
    double best_perplexity;              /* of the text generator on valid.txt; 0: none */
    host_port as, csp;                   /* with `hosts`: where the servers will be */
    char turns_warning[TASK_TURNS_TEXT]; /* "": none */
    char mode[512];                      /* task_explain_mode */
} provision_report;

/* Creates the federation. SEFL_EEXIST if the folder is not empty. progress counts steps. */
sefl_status provision_make(provision_report *out, const provision_config *c,
                           const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
