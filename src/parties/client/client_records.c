/* The records of the text as a task sees them: their names, places and turns. */
#include "roles/client/client_inside.h"

#include "base/ct.h"

#include <string.h>

/* The name of a record is a keyed hash of its words. */
static void name_record(void *ctx, const uint8_t key[RECORD_KEY], size_t i,
                        uint8_t out[RECORD_NAME])
{
    const corpus *text = ctx;
    const size_t from = text->line[text->doc[i]], to = text->line[text->doc[i + 1]];
    uint8_t hash[SHA256_BYTES], word[4];
    sha256 h;
    sha256_init(&h);
    sha256_add(&h, span_of_str("sefl record 1"));
    sha256_add(&h, span_of(key, RECORD_KEY));
    for (size_t w = from; w < to; w++) {
        store_u32(word, text->token[w]);
        sha256_add(&h, span_of(word, sizeof word));
    }
    sha256_end(&h, hash);
    memcpy(out, hash, RECORD_NAME);
    sefl_wipe(word, sizeof word);
}

/* Tells the owner if the text does not fit the task's turns. */
static void look_at_turns(const client *c, uint64_t n)
{
    const dp_record_turns turns = task_record_turns(&c->t);
    const uint64_t unused = dp_record_unused(&turns, n), empty = dp_record_empty(&turns, n);
    if (unused > 0)
        log_warn(c->o.log, "the task has too few rounds for this text: it never uses some records",
                 lf_u64("records", n), lf_u64("unused", unused),
                 lf_u64("records_max", c->t.records_max), lf_u64("rounds", c->t.rounds));
    if (empty > 0)
        log_warn(c->o.log,
                 "this text has too few records for the task: some rounds use none of them, and "
                 "are charged all the same",
                 lf_u64("records", n), lf_u64("rounds_without", empty),
                 lf_u64("record_turns", c->t.record_turns), lf_u64("rounds", c->t.rounds));
    if (c->list.later > 0)
        log_warn(c->o.log,
                 "some records came to the text after this client began its first update for the "
                 "task: the task does not use them",
                 lf_u64("records", c->list.later));
}

/* Tells the owner which records the task shortens. */
static void look_at_lengths(const client *c)
{
    const corpus *text = &c->text;
    uint64_t longer = 0;
    for (size_t i = 0; i < text->docs; i++)
        longer += text->line[text->doc[i + 1]] - text->line[text->doc[i]] > c->t.record_words;
    if (longer > 0)
        log_warn(c->o.log, "some records are longer than the task allows: it uses their beginnings",
                 lf_u64("records", longer), lf_u64("record_words", c->t.record_words));
}

/* Drops an update that was made under another list, whose records may have had other places: it
 * would give some of them a turn too many. */
static sefl_status look_at_update(client *c)
{
    const client_mark *mark = client_store_mark(c->store);
    if (mark->phase != CLIENT_FINISHED || memcmp(mark->list, c->list.hash, sizeof mark->list) == 0)
        return SEFL_OK;
    log_warn(c->o.log,
             "dropped a finished update: it was made under another list of the task's records",
             lf_u64("round", mark->round));
    return client_store_drop(c->store);
}

sefl_status client_open_records(client *c)
{
    if (c->t.unit != TASK_UNIT_RECORD)
        return SEFL_OK;
    if (task_limits_records(&c->t)) {
        SEFL_PASS(record_list_open(
            &c->list, c->book, c->cfg->ledger, c->t.id,
            &(record_names){ .n = c->text.docs, .ctx = &c->text, .name = name_record }));
        memcpy(c->terms.list, c->list.hash, sizeof c->terms.list);
        SEFL_PASS(look_at_update(c));
    }
    look_at_lengths(c);
    look_at_turns(c, task_limits_records(&c->t) ? c->list.n : c->text.docs);
    return SEFL_OK;
}
