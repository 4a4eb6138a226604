#include "privacy/accountant/law.h"

#include <math.h>
#include <stddef.h>

static double joint_z(const dp_event *ev)
{
    return ev->z / sqrt(DP_JOINT_FACTOR);
}

static double discrete_z(const dp_event *ev)
{
    return ev->z * sqrt(1 - 6 / (ev->sigma_steps * ev->sigma_steps));
}

static double same_z(const dp_event *ev)
{
    return ev->z;
}

static const dp_law laws[] = {
    [DP_NOISE_NONE] = { .name = "none", .released = true, .gauss_z = same_z },
    [DP_NOISE_JOINT] = { .name = "joint",
                         .claims = true,
                         .released = true,
                         .uses_dim = true,
                         .z_min = DP_JOINT_Z_MIN,
                         .below =
                             "nothing is proven about the joint noise below z = " DP_JOINT_Z_TEXT,
                         .z_search_min = DP_JOINT_Z_MIN,
                         .order_max = 256,
                         .cut = DP_JOINT_CUT,
                         .gauss_z = joint_z },
    [DP_NOISE_DISCRETE] = { .name = "discrete",
                            .claims = true,
                            .released = true,
                            .uses_sigma_steps = true,
                            .numerical = true,
                            .z_search_min = 0.05,
                            .gauss_z = discrete_z },
    [DP_NOISE_GAUSS] = { .name = "gauss",
                         .claims = true,
                         .numerical = true,
                         .z_search_min = 0.05,
                         .gauss_z = same_z },
};

#define SOURCE(NAME, name, law, noises, text) [DP_SOURCE_##NAME] = { #name, law, noises },
const dp_source dp_sources[DP_SOURCE_COUNT] = { DP_SOURCES(SOURCE) };

const dp_law *dp_law_of(dp_noise noise)
{
    return (unsigned)noise < sizeof laws / sizeof *laws ? &laws[noise] : NULL;
}

const char *dp_noise_name(dp_noise noise)
{
    const dp_law *l = dp_law_of(noise);
    return l ? l->name : "?";
}

bool dp_noise_claims(dp_noise noise)
{
    const dp_law *l = dp_law_of(noise);
    return l && l->claims;
}
