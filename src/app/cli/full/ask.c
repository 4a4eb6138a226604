#include "cli/full/ask.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* Reads one line without blanks around it. */
static sefl_status read_line(char out[ASK_BYTES])
{
    fflush(stdout);
    SEFL_NEED(fgets(out, ASK_BYTES, stdin), SEFL_ECANCELLED, "stopped: no answer");
    const size_t n = strlen(out), lead = strspn(out, " \t");
    SEFL_NEED(n > 0 && out[n - 1] == '\n', SEFL_EINVAL, "the answer is longer than %d bytes",
              ASK_BYTES - 2);
    size_t end = n;
    while (end > lead && strchr(" \t\r\n", out[end - 1]))
        end--;
    memmove(out, out + lead, end - lead);
    out[end - lead] = 0;
    return SEFL_OK;
}

sefl_status ask_option(ask *a, const char **value, const setting_def *option, const char *fallback,
                       sefl_status (*check)(const char *answer))
{
    char *answer = a->answer[a->n];
    if (*value)
        return check ? sefl_at(check(*value), "--%s", option->key) : SEFL_OK;
    if (!has_terminal()) {
        SEFL_NEED(fallback, SEFL_EINVAL, "--%s is missing, and there is no terminal to ask on",
                  option->key);
        *value = *fallback ? fallback : NULL;
        return SEFL_OK;
    }
    assert(a->n < ASK_ANSWERS);
    for (;;) {
        fprintf(stderr, "\n%s.\n%s%s%s%s: ", option->help, option->key,
                fallback && *fallback ? " [" : "", fallback ? fallback : "",
                fallback && *fallback ? "]" : "");
        SEFL_PASS(read_line(answer));
        if (!*answer && fallback)
            snprintf(answer, ASK_BYTES, "%s", fallback);
        if (!*answer && !fallback)
            continue;
        if (!*answer || !check || check(answer) == SEFL_OK)
            break;
        fprintf(stderr, "%s\n", sefl_last_error());
    }
    a->n++;
    *value = *answer ? answer : NULL;
    return SEFL_OK;
}

sefl_status ask_yes(const char *question, const char *instead)
{
    char answer[ASK_BYTES];
    SEFL_NEED(has_terminal(), SEFL_EINVAL, "there is no terminal to ask on: pass %s", instead);
    fprintf(stderr, "%s Type yes or no: ", question);
    SEFL_PASS(read_line(answer));
    SEFL_NEED(strcmp(answer, "yes") == 0, SEFL_ECANCELLED, "the answer was not yes");
    return SEFL_OK;
}
