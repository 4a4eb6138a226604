/* noisy: functions that the modes with noise share. They apply the two halves of
 * mpc/noise/online.h to the units of an encrypted sum.
 *
 * A mode passes a server's noise to them as a noise_source. Internal to protocol/modes. */
#ifndef PROTOCOL_MODES_NOISY_H
#define PROTOCOL_MODES_NOISY_H

#include "mpc/noise/online.h"
#include "protocol/modes/mode.h"
#include "protocol/task.h"

sefl_status noisy_reply(uint8_t *reply, const task *t, const mode_csp *in,
                        const noise_source *add) SEFL_MUST_CHECK;
sefl_status noisy_finish(int64_t *w, const task *t, sefl_span reply, const mode_as *in,
                         const noise_source *add) SEFL_MUST_CHECK;

#endif
