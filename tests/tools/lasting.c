/* lasting: creates a token whose text says that it is valid for a day, but whose entry in the
 * operator's list expires in SECONDS: the case of a site whose clock is wrong.
 *
 *     lasting FOLDER NAME SECONDS */
#include "roles/ca.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
    sefl_status st = SEFL_OK;
    trust_edit e = { .lock = -1 };
    token t = { 0 };
    sefl_buf text = { 0 };
    sefl_rng rng = rng_system();
    int64_t now = (int64_t)time(NULL);
    if (argc != 4)
        return 2;
    SEFL_TRY(ca_edit(&e, argv[1]));
    SEFL_TRY(token_new(&t, &e.t->self, argv[2], now + strtol(argv[3], NULL, 10), &rng));
    SEFL_TRY(token_list(e.t, &t, now));
    t.expires = now + 86400;
    SEFL_TRY(token_print(&text, &t));
    SEFL_TRY(trust_edit_commit(&e));
    printf("%.*s\n", (int)text.n, (const char *)text.p);
done:
    if (st != SEFL_OK)
        fprintf(stderr, "lasting: %s\n", sefl_last_error());
    trust_edit_end(&e);
    buf_clear(&text);
    return st != SEFL_OK;
}
