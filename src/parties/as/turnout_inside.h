/* turnout_inside: the state that turnout.c (events and records), turnout_grid.c (the grid) and
 * turnout_missing.c (whom a round waits for) share. */
#ifndef ROLES_AGGREGATOR_TURNOUT_INSIDE_H
#define ROLES_AGGREGATOR_TURNOUT_INSIDE_H

#include "roles/aggregator/turnout.h"

#include "store/journal/attendance.h"
#include "sum/client_table.h"

enum { NAME_MAX_BYTES = 64, WHY_MAX = 120, NONE = -1 };

typedef struct someone {
    uint8_t key[32];
    char name[NAME_MAX_BYTES + 1];
    uint64_t group;  /* task_group */
    uint32_t missed; /* rounds of its turn without an update of it, since its last one */
    uint32_t idle;   /* the latest of them for which it had asked, in this run */
    uint32_t spent;  /* released rounds with an update of it */
    uint64_t told;   /* the latest round that it has learned is open, in this run */
} someone;

typedef struct reason {
    uint32_t client;
    char text[WHY_MAX + 1];
} reason;

typedef struct turnout_round {
    uint64_t round; /* 0: none */
    char *cells;
    size_t n, room;
    reason *why;
    size_t why_n, why_room;
    turnout_end end;
    bool changed; /* since it was written */
} turnout_round;

struct turnout {
    pthread_mutex_t lock;
    journal *j;
    const task *of;
    sefl_log *log;
    someone *who;
    size_t n, room;
    size_t written;       /* clients in the journal */
    client_table numbers; /* of each key, in `who` */
    turnout_round now, before;
    uint64_t last;   /* the latest round */
    uint64_t closed; /* the latest one that is over; 0: none */
    uint64_t full;   /* rounds that are over and were not cut short */
};

/* All of these: under the lock. */
/* Returns the client's number, or NONE if it is unknown. */
int64_t turnout_find(const turnout *t, const uint8_t key[32]);
/* True if it is this client's turn in the round (task_is_turn). */
bool turnout_is_turn(const turnout *t, const someone *s, uint64_t round);
/* Returns the round in memory; NULL if it is neither. */
turnout_round *turnout_round_of(turnout *t, uint64_t round);
/* The round as the journal has it, or will. */
attendance turnout_row(const turnout_round *r);
turnout_counts turnout_count(sefl_span cells);

#endif
