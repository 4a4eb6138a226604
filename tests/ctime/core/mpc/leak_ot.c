/* ct_ot.c with a branch on a label: valgrind must track Delta's mark through the whole OT. */
#define LEAK 1
#include "ct_ot.c"
