/* ct_ot.c with a branch on a label: Delta's mark must have reached it through the whole OT. */
#define LEAK 1
#include "ct_ot.c"
