#include "store/record_list.h"

#include "base/alloc.h"
#include "base/ct.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/random.h"
#include "base/sha256.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "SEFLREC1"

enum { MAGIC_BYTES = 8, HEAD = MAGIC_BYTES + LEDGER_TASK_BYTES + RECORD_KEY + 8 };
#define FILE_MAX ((size_t)1 << 30)

#define NO_PART  "so this client takes no part in the task"

/* A name, and its place in the list or its number in the text. */
typedef struct entry {
    uint8_t name[RECORD_NAME];
    size_t at;
} entry;

static int by_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = memcmp(x->name, y->name, RECORD_NAME);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static sefl_status list_path(char out[PATH_MAX], const char *ledger_path,
                             const uint8_t task[LEDGER_TASK_BYTES])
{
    char id[17];
    hex_write(id, task, 8);
    return file_path(out, "%s.records-%s", ledger_path, id);
}

static sefl_status name_all(entry **out, const record_names *names, const uint8_t key[RECORD_KEY])
{
    SEFL_PASS(sefl_new(out, names->n + 1, sizeof **out));
    for (size_t i = 0; i < names->n; i++) {
        names->name(names->ctx, key, i, (*out)[i].name);
        (*out)[i].at = i;
    }
    return SEFL_OK;
}

/* Appends the bytes of a new list. */
static sefl_status write_list(sefl_buf *out, const uint8_t task[LEDGER_TASK_BYTES],
                              const record_names *names)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    uint8_t key[RECORD_KEY], hash[SHA256_BYTES];
    entry *all = NULL;
    SEFL_TRY(rng_fill(&rng, key, sizeof key));
    SEFL_TRY(name_all(&all, names, key));
    SEFL_TRY(wr_raw(out, MAGIC, MAGIC_BYTES));
    SEFL_TRY(wr_raw(out, task, LEDGER_TASK_BYTES));
    SEFL_TRY(wr_raw(out, key, sizeof key));
    SEFL_TRY(wr_u64(out, names->n));
    for (size_t i = 0; i < names->n; i++)
        SEFL_TRY(wr_raw(out, all[i].name, RECORD_NAME));
    sha256_of(hash, buf_span(out));
    SEFL_TRY(wr_raw(out, hash, sizeof hash));
    SEFL_CHECK(out->n <= FILE_MAX, SEFL_ERANGE, "the text has %zu records: too many for a list",
               names->n);
done:
    sefl_wipe(key, sizeof key);
    sefl_free_secret(all, all ? (names->n + 1) * sizeof *all : 0);
    return st;
}

/* Checks the file's bytes; *names_at are its names. */
static sefl_status parse(sefl_span file, const uint8_t task[LEDGER_TASK_BYTES],
                         uint8_t key[RECORD_KEY], record_list *out, sefl_span *names_at)
{
    uint8_t hash[SHA256_BYTES];
    uint64_t n;
    rd r = rd_over(file);
    SEFL_NEED(file.n >= HEAD + SHA256_BYTES, SEFL_EPROTO, "it is too short");
    sha256_of(hash, span_of(file.p, file.n - SHA256_BYTES));
    SEFL_NEED(memcmp(hash, file.p + file.n - SHA256_BYTES, SHA256_BYTES) == 0, SEFL_EPROTO,
              "it was changed");
    SEFL_PASS(rd_expect(&r, MAGIC, MAGIC_BYTES, "list of records"));
    SEFL_PASS(rd_expect(&r, task, LEDGER_TASK_BYTES, "task"));
    SEFL_PASS(rd_raw(&r, key, RECORD_KEY));
    SEFL_PASS(rd_u64(&r, &n));
    SEFL_NEED(n >= 1 && n == (rd_left(&r) - SHA256_BYTES) / RECORD_NAME, SEFL_EPROTO,
              "it has another number of names than it says");
    SEFL_PASS(rd_view(&r, names_at, (size_t)n * RECORD_NAME));
    memcpy(out->hash, hash, sizeof out->hash);
    out->n = (size_t)n;
    SEFL_PASS(rd_raw(&r, hash, sizeof hash));
    return rd_end(&r);
}

/* Finds each name of the list in the text. Equal names are matched in order. */
static sefl_status match(record_list *out, const char *path, sefl_span names_at, entry *text,
                         size_t text_n)
{
    sefl_status st = SEFL_OK;
    entry *list = NULL;
    size_t missing = 0, t = 0;
    SEFL_TRY(sefl_new(&list, out->n, sizeof *list));
    SEFL_TRY(sefl_new(&out->record, out->n, sizeof *out->record));
    for (size_t p = 0; p < out->n; p++) {
        memcpy(list[p].name, names_at.p + p * RECORD_NAME, RECORD_NAME);
        list[p].at = p;
    }
    qsort(list, out->n, sizeof *list, by_name);
    qsort(text, text_n, sizeof *text, by_name);
    for (size_t p = 0; p < out->n; p++) {
        while (t < text_n && memcmp(text[t].name, list[p].name, RECORD_NAME) < 0)
            t++;
        if (t < text_n && memcmp(text[t].name, list[p].name, RECORD_NAME) == 0)
            out->record[list[p].at] = text[t++].at;
        else
            missing++;
    }
    SEFL_CHECK(missing == 0, SEFL_EINVAL,
               "%zu of the %zu records that take turns in this task (%s) are not in the text any "
               "more, " NO_PART ": they keep their turns for the whole task. Put the text, and the "
               "settings that choose from it (eval: own holds records back), back as they were "
               "when this client began its first update for the task",
               missing, out->n, path);
    out->later = text_n - out->n;
done:
    sefl_free_secret(list, list ? out->n * sizeof *list : 0);
    return st;
}

/* The list that the ledger's charges of this task name; NULL: there is no charge. */
static const uint8_t *charged_list(const ledger *l, const uint8_t task[LEDGER_TASK_BYTES])
{
    uint64_t rounds;
    const ledger_terms *t;
    for (size_t i = 0; (t = ledger_task(l, i, &rounds)); i++)
        if (memcmp(t->task, task, LEDGER_TASK_BYTES) == 0)
            return t->list;
    return NULL;
}

sefl_status record_list_open(record_list *out, const ledger *l, const char *path,
                             const uint8_t task[LEDGER_TASK_BYTES], const record_names *names)
{
    sefl_status st = SEFL_OK;
    char file[PATH_MAX];
    uint8_t key[RECORD_KEY];
    sefl_buf b = { 0 };
    sefl_span names_at;
    entry *text = NULL;
    bool fresh = false;
    const uint8_t *charged = charged_list(l, task);
    *out = (record_list){ 0 };
    SEFL_TRY(list_path(file, path, task));
    if (!file_exists(file)) {
        SEFL_CHECK(!charged, SEFL_EINVAL,
                   "the list of this task's records, %s, is missing although the ledger has "
                   "charges for the task, " NO_PART ": put the file back",
                   file);
        SEFL_TRY(write_list(&b, task, names));
        fresh = true;
    } else {
        SEFL_TRY(file_read_plain(&b, file, FILE_MAX));
    }
    st = parse(buf_span(&b), task, key, out, &names_at);
    if (st != SEFL_OK) {
        st = sefl_fail_at(SEFL_EINVAL, "the list of this task's records, %s, " NO_PART, file);
        goto done;
    }
    SEFL_CHECK(!charged || memcmp(charged, out->hash, sizeof out->hash) == 0, SEFL_EINVAL,
               "%s is not the list of records that the ledger's charges of this task name, " NO_PART
               ": put the right file back",
               file);
    SEFL_TRY(name_all(&text, names, key));
    SEFL_TRY(match(out, file, names_at, text, names->n));
    SEFL_TRY(sefl_strdup(&out->path, file));
    if (fresh)
        out->fresh = b, b = (sefl_buf){ 0 };
done:
    sefl_wipe(key, sizeof key);
    sefl_free_secret(text, text ? (names->n + 1) * sizeof *text : 0);
    buf_clear(&b);
    if (st != SEFL_OK)
        record_list_clear(out);
    return st;
}

sefl_status record_list_keep(record_list *list)
{
    if (list->fresh.n > 0)
        SEFL_PASS(file_write_new(list->path, buf_span(&list->fresh), 0600));
    buf_clear(&list->fresh);
    return SEFL_OK;
}

void record_list_clear(record_list *list)
{
    sefl_free(list->path);
    buf_clear(&list->fresh);
    sefl_free(list->record);
    *list = (record_list){ 0 };
}
