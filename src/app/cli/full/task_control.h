/* task_control: `sefl task pause|resume|close|end`: gives a server its operator's order about the
 * running task (roles/control.h) and waits until the server obeys it.
 * Threads: one.   Secrets: none. */
#ifndef CLI_FULL_TASK_CONTROL_H
#define CLI_FULL_TASK_CONTROL_H

#include "roles/control.h"

/* config: the server's settings file. yes: `end` does not ask. */
sefl_status task_control(const char *config, control_word word, bool now, bool yes) SEFL_MUST_CHECK;

#endif
