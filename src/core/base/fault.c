#include "base/fault.h"

#if SEFL_FAULTS
#include <stdatomic.h>

static _Atomic uint64_t armed[FAULT_KINDS]; /* operations left until the failing one; 0: off */
static atomic_bool struck;

void fault_arm(fault_kind kind, uint64_t nth)
{
    fault_disarm();
    atomic_store(&armed[kind], nth);
}

void fault_disarm(void)
{
    for (int i = 0; i < FAULT_KINDS; i++)
        atomic_store(&armed[i], 0);
    atomic_store(&struck, false);
}

bool fault_was_hit(void)
{
    return atomic_load(&struck);
}

bool fault_hit(fault_kind kind)
{
    uint64_t left = atomic_load(&armed[kind]);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&armed[kind], &left, left - 1)) {
            if (left > 1)
                return false;
            atomic_store(&struck, true);
            return true;
        }
    }
    return false;
}
#else
typedef int fault_translation_unit_is_not_empty;
#endif
