/* task_make: creates a task document from settings.
 *
 *     settings_init(&s, task_schema);
 *     SEFL_TRY(settings_set(&s, "privacy.z=1.1", "--set"));
 *     SEFL_TRY(task_make(&document, &s, NULL, &servers));
 *
 * Threads: any.   Secrets: none. */
#ifndef PROTOCOL_TASK_MAKE_H
#define PROTOCOL_TASK_MAKE_H

#include "base/buf.h"
#include "config/settings.h"
#include "protocol/task.h"

/* The settings of a new task (config/settings.h): the schema of `sefl task new`. */
extern const setting_def task_schema[];

/* Fills *out from the settings of a task or an experiment; the vocabulary has `words` words. */
void task_settings_model(lm_config *out, const settings *s, uint32_t words);

/* True if model.body is external. Then settings about words, text and local training do not apply:
 * task_make refuses them. */
bool task_settings_external(const settings *s);
bool task_setting_applies(const char *key, bool external);

/* External: sets model.tensors, if it is empty, to the tensors of the initial model's file. */
sefl_status task_settings_tensors(settings *s, const char *init) SEFL_MUST_CHECK;

/* Returns the mode in privacy.noise; if that is not given, own for unit record under scheme pad. */
const struct release_mode *task_settings_mode(const settings *s);

/* Returns privacy.classic_epsilon, the epsilon of one round from which task_make sets z by the
 * classic formula z = dp_classic(privacy.delta) / epsilon; 0: not used. It is not a claim: the
 * formula covers one round and is proven only below 1. The document has z, not this setting. */
double task_settings_classic(const settings *s);

/* Returns rounds.separation. If it is 1 and privacy.filter is auto, returns how far apart the
 * rounds of a client with rounds.max_per_client are, so that every round has clients. */
uint64_t task_make_separation(const settings *s);

/* Writes the document from settings, CSP's Paillier key (NULL for scheme pad) and both servers'
 * public signing keys, and checks it with task_read. If the task claims an epsilon and privacy.z is
 * 0 or not given, the document gets the smallest z with which all rounds keep the target
 * (task_budget.h). SEFL_EINVAL, with the numbers, if a given z allows fewer rounds than the task
 * has, unless privacy.early_end is set. */
sefl_status task_make(sefl_buf *document, const settings *s, const ahe_pub *pub,
                      const pinned *servers) SEFL_MUST_CHECK;

#endif
