/* The list of modes, and what it answers. */
#include "protocol/modes/mode.h"

#include "protocol/task.h"

#include <assert.h>
#include <string.h>

#define DECLARE(NAME, name, text) extern const release_mode mode_##name;
RELEASE_MODES(DECLARE)

#define ADDRESS(NAME, name, text) [TASK_NOISE_##NAME] = &mode_##name,
const release_mode *const release_modes[RELEASE_MODE_COUNT] = { RELEASE_MODES(ADDRESS) };

const release_mode *release_mode_named(sefl_span name)
{
    for (size_t i = 0; i < RELEASE_MODE_COUNT; i++)
        if (strlen(release_modes[i]->name) == name.n &&
            memcmp(release_modes[i]->name, name.p, name.n) == 0)
            return release_modes[i];
    return NULL;
}

const release_mode *task_mode(const task *t)
{
    assert((unsigned)t->noise < RELEASE_MODE_COUNT);
    return release_modes[t->noise];
}

double task_value(const task *t, int64_t w)
{
    return task_mode(t)->value(t, w);
}
