#include "sum/csp_store.h"

#include "base/alloc.h"

#include <inttypes.h>

const char *csp_state_name(unsigned state)
{
    static const char *const names[] = { [CSP_NEW] = "new",
                                         [CSP_SIGNED] = "signed",
                                         [CSP_REVEALED] = "revealed",
                                         [CSP_SKIPPED] = "skipped" };
    return state < sizeof names / sizeof *names ? names[state] : "?";
}

sefl_status csp_round_must_be(const csp_round *r, csp_round_state want)
{
    return r->state == want ? SEFL_OK
                            : sefl_fail(SEFL_ESTATE, "round %" PRIu64 " is %s, not %s", r->round,
                                        csp_state_name(r->state), csp_state_name(want));
}

const char *csp_skip_text(unsigned reason)
{
    switch (reason) {
    case CSP_SKIP_OLD_STATE:
        return "CSP's ledger has charged it, and CSP's store, an old copy, does not know whether "
               "it was revealed";
    case CSP_SKIP_EXPIRED:
        return "AS neither revealed nor skipped it within a day of its last possible deadline, so "
               "its key is wiped";
    case CSP_SKIP_FEW:
        return "fewer heads of its set than the threshold were good";
    default:
        return NULL;
    }
}

void csp_set_clear(csp_set *s)
{
    sefl_free(s->kept);
    sefl_free(s->refused);
    *s = (csp_set){ 0 };
}
