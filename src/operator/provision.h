/* provision: a whole federation in one folder, for trials on one machine and for tests.
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
 * AS's CA issues the certificates of AS and the clients, CSP's CA that of CSP. Each role trusts
 * the CA of its peers and no other. Clients enrol with tokens of both servers (provision_ids.h).
 *
 * Public files come from public data only: the word list from the text generator, the validation
 * text or a given list; the initial model from a public seed.
 *
 * **For trials.** The keys of all parties lie in one place: anyone who can read the folder can read
 * every update. Real operators make their own keys, each on its own machine.
 *
 * The steps build the folder beside FOLDER and rename it at the end, so a failure leaves nothing.
 * Threads: one call per folder.   Secrets: every key; files have mode 0600, folders 0700. */
#ifndef ROLES_PROVISION_H
#define ROLES_PROVISION_H

#include "base/progress.h"
#include "config/settings.h"
#include "protocol/task.h"

enum { PROVISION_CLIENTS_MAX = 1000, PROVISION_WORDS = 2000 };

typedef struct provision_config {
    const char *folder; /* not there, or empty */
    uint32_t clients;   /* 0: 8 */
    unsigned key_bits;  /* scheme paillier; 0: 3072 */
    const char *data;   /* folder or file of text to share out; NULL: generated */
    const char *vocab;  /* public word list; NULL: see above */
    uint64_t words;     /* generated text: training tokens per client; 0: PROVISION_WORDS */
    uint64_t seed;      /* public: of generated text, shares and initial values */
    uint16_t port_base; /* AS listens on it, CSP on the next; 0: the system chooses (ready files) */
    const settings *task; /* over task_schema: the caller's own terms */
} provision_config;

typedef struct provision_report {
    uint8_t task[TASK_ID];
    size_t values;         /* in an update */
    uint64_t update_bytes; /* as uploaded */
    uint32_t words;        /* of the vocabulary */
    uint32_t clients;
    uint64_t tokens_least, tokens_most; /* of the clients' text */
    double best_perplexity; /* generated text: of its source on the validation text; else 0 */
} provision_report;

/* SEFL_EEXIST if the folder is not empty. progress counts steps. */
sefl_status provision_make(provision_report *out, const provision_config *c,
                           const sefl_progress *progress) SEFL_MUST_CHECK;

#endif
