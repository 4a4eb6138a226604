/* Leaks on purpose: a comparison that stops early. The check must detect it. */
#include "base/ct.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    uint8_t secret[16];
    volatile int equal = 1;
    memset(secret, 7, sizeof secret);
    CT_SECRET(secret, sizeof secret);
    for (int i = 0; i < 16 && equal; i++)
        if (((volatile uint8_t *)secret)[i] != 7)
            equal = 0;
    printf("%d\n", equal);
    return 0;
}
