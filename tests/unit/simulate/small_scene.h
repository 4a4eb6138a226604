/* small_scene: an experiment of a few settings and its scene, for tests. */
#ifndef TESTS_SIMULATE_SMALL_SCENE_H
#define TESTS_SIMULATE_SMALL_SCENE_H

#include "support/check.h"

#include "simulate/scene.h"

#include <string.h>

typedef struct small_scene {
    settings set;
    experiment e;
    scene *s;
} small_scene;

static scene_key small_key;

static inline void small_scene_make(small_scene *out, const char *more)
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
    CHECK_OK(scene_new(
        &out->s,
        &(scene_config){ .experiment = &out->e, .settings = &out->set, .key = &small_key }));
}

static inline void small_scene_clear(small_scene *s)
{
    scene_free(s->s);
    settings_clear(&s->set);
}

#endif
