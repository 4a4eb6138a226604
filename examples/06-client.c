/* A client with its own training, in a real federation.
 *
 *     cc 06-client.c -o client $(pkg-config --cflags --libs sefl)
 *     ./client clients/client-01/client.yml
 *
 * Here "training" moves every value halfway to a number that only this client knows: the
 * number of its process. Replace train() with your own code. Further arguments override settings
 * of client.yml: server=host:port. */
#include <sefl/client.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void train(float *mine, const sefl_round *round)
{
    const float goal = (float)(getpid() % 100) / 100;
    for (size_t i = 0; i < round->count; i++)
        mine[i] = round->values[i] + (goal - round->values[i]) / 2;
}

static sefl_status take_part(sefl_client *c, const sefl_round *round)
{
    sefl_receipt receipt = { .size = sizeof receipt };
    float *mine = malloc(round->count * sizeof *mine);
    if (!mine)
        return SEFL_ENOMEM;
    train(mine, round);
    sefl_status st = sefl_client_submit(c, mine, round->count, 0, &receipt);
    free(mine);
    if (st == SEFL_OK)
        printf("round %d: %zu values of %zu tensors, uploaded as %d bytes\n", (int)receipt.round,
               round->count, round->tensor_count, (int)receipt.bytes);
    return st == SEFL_ETIMEOUT ? SEFL_OK : st; /* too late for this round: wait for the next */
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s client.yml [setting=value ...]\n", argv[0]);
        return 2;
    }
    sefl_client_options options = { .size = sizeof options, .log_fd = 2 };
    options.settings = (const char *const *)argv + 2;
    sefl_round round = { .size = sizeof round };
    sefl_client *c = NULL;
    sefl_status st = sefl_client_open(&c, argv[1], &options);
    while (st == SEFL_OK && (st = sefl_client_wait(c, &round)) == SEFL_OK && round.number > 0)
        st = take_part(c, &round);
    if (st != SEFL_OK)
        fprintf(stderr, "%s: %s\n", sefl_status_name(st), sefl_last_error());
    else
        printf("the task is over: %s\n", round.why);
    sefl_client_close(c);
    return st != SEFL_OK;
}
