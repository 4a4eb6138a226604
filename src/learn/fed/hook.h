/* hook: trains with the owner's command (setting `trainer`), once per round.
 *
 *     hook h = { .command = "python3 train.py", .folder = "state", .who = "client-01" };
 *     SEFL_TRY(hook_open(&h));                           // deletes what a killed process left
 *     train_port port = hook_port(&h);                   // train_job.h
 *
 * For each round the hook creates a folder below `folder`, writes the global model there and runs
 * `sh -c COMMAND` (base/child.h: no descriptors, its own process group, time limit). The command
 * has these variables and no others:
 *
 *     PATH HOME LANG               of this process
 *     SEFL_ROUND SEFL_ROUNDS       the round, from 1, and the number of rounds of the task
 *     SEFL_TASK SEFL_CLIENT        names of the task and of the client
 *     SEFL_TEXT                    file or folder with the owner's data, if the client has one
 *     SEFL_VOCAB                   the task's word list, if it has one
 *     SEFL_MODEL                   safetensors file with the global model
 *     SEFL_OUT                     file that the command creates: safetensors, the trained values
 *
 * model/file/exchange.h describes both files. Then the hook reads SEFL_OUT and deletes the folder.
 * The command's output goes to FOLDER/trainer.log; each round begins with a line that says so. At
 * HOOK_LOG bytes the file becomes trainer.log.1, which replaces an older one.
 *
 * A command that fails, is too slow or returns a file that exchange_read refuses, or none, makes no
 * update in this round: SEFL_ERANGE, and the message names the tensor or quotes the command's last
 * line of output, which goes to the client's log. SEFL_EIO if the hook cannot write its files.
 *
 * Threads: a hook has one owner; several hooks may share a folder after hook_open.
 * Secrets: the command sees the model and the owner's data, but gets no key. */
#ifndef FED_HOOK_H
#define FED_HOOK_H

#include "fed/trainer.h"

enum { HOOK_LOG = 8 << 20 };
#define HOOK_DEVICE "the owner's command" /* what trains, in logs */

/* The settings that clients and experiments share (SETTING_ROW in config/settings.h). */
#define HOOK_SETTINGS(S)                                                                        \
    S("trainer", TEXT, trainer, "", 0, 0, NULL,                                                 \
      "shell command that trains instead of the built-in training (docs/LIBRARY.md)",           \
      .arg = "COMMAND", .runs_in = "trainer_folder")                                            \
    S("trainer_folder", PATH, trainer_folder, "", 0, 0, NULL,                                   \
      "folder in which the trainer runs; if empty, the folder of this file", .arg = "FOLDER")   \
    S("trainer_timeout", U64, trainer_timeout, "0", 0, 31536000, NULL,                          \
      "maximum time of the trainer in a round, in seconds; 0 means until the round's deadline") \
    S("trainer_memory", U64, trainer_memory, "0", 0, 1 << 30, NULL,                             \
      "maximum memory of each process of the trainer, in MiB of address space; 0 means no limit")

typedef struct hook {
    const char *command;
    const char *runs_in; /* the command's working folder; NULL: that of this process */
    const char *folder;  /* exists */
    char who[128];       /* the client's name */
    const char *text;    /* NULL or "": none */
    uint64_t timeout_s;  /* 0: no limit but the round's deadline */
    uint64_t memory_mib; /* address space of each process; 0: no limit */
    dense_trainer dense; /* set by hook_port */
} hook;

sefl_status hook_open(const hook *h) SEFL_MUST_CHECK;

/* h must outlive the port. */
train_port hook_port(hook *h);

#endif
