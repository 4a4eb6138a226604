/* small_federation: an experiment of a few settings and its federation, for tests. */
#ifndef TESTS_SIMULATE_SMALL_FEDERATION_H
#define TESTS_SIMULATE_SMALL_FEDERATION_H

#include "support/check.h"

#include "simulate/federation.h"

#include <string.h>

typedef struct small_federation {
    settings set;
    experiment e;
    federation *s;
} small_federation;

static federation_key small_key;

static inline void small_federation_make(small_federation *out, const char *more)
{
    char text[1024], *save = NULL;
    settings_init(&out->set, experiment_schema());
    snprintf(text, sizeof text,
             "crypto.key_bits=2048 data.words=100 model.embed=8 model.hidden=8 model.batch=3 "
             "model.steps=10 %s",
             more);
    for (char *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        CHECK_OK(settings_set(&out->set, one, "test"));
    CHECK_OK(experiment_make(&out->e, &out->set));
    CHECK_OK(federation_new(
        &out->s,
        &(federation_config){ .experiment = &out->e, .settings = &out->set, .key = &small_key }));
}

static inline void small_federation_clear(small_federation *s)
{
    federation_free(s->s);
    settings_clear(&s->set);
}

#endif
