/* Mode joint: the servers add shares of one noise that they sampled together (mpc/noise/shares.h).
 * The released integers count coarse steps; the noise has mean 61.5 and AS subtracts 62, so an
 * integer w stands for (w + 1/2) h. */
#include "protocol/modes/noisy.h"

static double deviation(const task *t)
{
    return task_noise_gain(t) * DP_G44_SIGMA * t->ahe.pack.h;
}

static unsigned share_bytes(const task *t)
{
    noise_params p = task_noise_params(t, 1, 1);
    return noise_share_bytes(&p);
}

static sefl_status reply(uint8_t *out, const task *t, const mode_csp *in)
{
    noise_taken taken = { in->shares, share_bytes(t) };
    noise_source add = noise_taken_of(&taken);
    return noisy_reply(out, t, in, &add);
}

static sefl_status joint_finish(int64_t *w, const task *t, sefl_span in_reply, const mode_as *in)
{
    noise_taken taken = { in->shares.p, share_bytes(t) };
    noise_source add = noise_taken_of(&taken);
    if (in->shares.n != t->values * taken.bytes)
        return sefl_fail(SEFL_EIO, "the noise shares of an attempt have another length");
    return noisy_finish(w, t, in_reply, in, &add);
}

const release_mode mode_joint = {
    .name = "joint",
    .noisy = true,
    .shares = true,
    .coarse = true,
    .source = &dp_sources[DP_SOURCE_JOINT],
    .shape = &noise_joint,
    .norm_jumps = 20000, /* rare jumps of the noise: sum/release_check.h */
    .value_jumps = 60,
    .deviation = deviation,
    .reply = reply,
    .finish = joint_finish,
    .trust = "CSP must be honest, and AS audits its noise; AS may cheat",
    .price = "before each round the servers exchange about 1.1 kB a value",
    .happens = "Both servers together add noise that neither of them knows, and only then does AS "
               "learn the sum.",
    .as_never = ", the exact sum, the noise",
    .csp_never = ", the noise",
};
