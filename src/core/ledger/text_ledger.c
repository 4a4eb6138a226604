#include "store/text_ledger.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/random.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 16, NAME_CHARS = 5 + 2 * NAME_BYTES, MARK_MAX = 4096 };

static const char start[] = "text-";

/* "text-" and 32 hex digits at the start of p. */
static bool is_name(const char *p)
{
    return strncmp(p, start, 5) == 0 && hex_length(p + 5) == NAME_CHARS - 5;
}

static sefl_status mark_path(char out[PATH_MAX], const char *text)
{
    char full[PATH_MAX];
    struct stat sb;
    SEFL_NEED(realpath(text, full) && stat(full, &sb) == 0,
              errno == ENOENT ? SEFL_ENOTFOUND : SEFL_EIO, "cannot open %s: %s", text,
              strerror(errno));
    return file_path(out, "%s%s.sefl-ledger", full, S_ISDIR(sb.st_mode) ? "/" : "");
}

/* Does the file beside the text name this ledger? */
static sefl_status compare(const char *mark, const char *name, const char *path, const char *text)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    SEFL_TRY(file_read(&b, mark, MARK_MAX));
    SEFL_TRY(wr_u8(&b, 0));
    SEFL_CHECK(is_name((const char *)b.p), SEFL_EPROTO,
               "%s does not begin with the name of a ledger (text- and %d hex digits): put it "
               "back; 'sefl privacy spent LEDGER' shows the name",
               mark, 2 * NAME_BYTES);
    SEFL_CHECK(strncmp((const char *)b.p, name, NAME_CHARS) == 0, SEFL_ESTATE,
               "%s is charged to the ledger %.*s (named in %s), but %s is %s: one text has one "
               "ledger for all populations; set `ledger` to that ledger",
               text, NAME_CHARS, (const char *)b.p, mark, path, name);
done:
    buf_clear(&b);
    return st;
}

/* Makes the ledger of this name the text's, if it is not yet. */
static sefl_status bind(const char *name, const char *path, const char *text)
{
    sefl_status st = SEFL_OK;
    char mark[PATH_MAX];
    sefl_buf b = { 0 };
    SEFL_TRY(mark_path(mark, text));
    if (!file_exists(mark)) {
        SEFL_TRY(wr_fmt(&b,
                        "%s\n"
                        "# The name of the only ledger that records the privacy of this text. Keep "
                        "this file\n"
                        "# (docs/PRIVACY.md).\n",
                        name));
        st = file_write_new(mark, buf_span(&b), 0644);
        if (st != SEFL_OK && st != SEFL_EEXIST) {
            st = sefl_fail_at(st,
                              "%s has no file that names its ledger: let this user write it once, "
                              "or write the line %s there",
                              text, name);
            goto done;
        }
    }
    SEFL_TRY(compare(mark, name, path, text));
done:
    buf_clear(&b);
    return st;
}

sefl_status text_ledger_create(const char *path, const char *text)
{
    sefl_rng rng = rng_system();
    uint8_t raw[NAME_BYTES];
    char name[NAME_CHARS + 1];
    SEFL_PASS(rng_fill(&rng, raw, sizeof raw));
    memcpy(name, start, sizeof start);
    hex_write(name + 5, raw, sizeof raw);
    SEFL_PASS(ledger_create(path, name));
    sefl_status st = bind(name, path, text);
    if (st != SEFL_OK)
        (void)unlink(path);
    return st;
}

static sefl_status of_a_text(const ledger *l, const char *path)
{
    const char *name = ledger_population(l);
    if (strlen(name) == NAME_CHARS && is_name(name))
        return SEFL_OK;
    return sefl_fail(SEFL_ESTATE,
                     "ledger %s is that of the population \"%s\", not of a text: a server's, or a "
                     "client's of an earlier version. Move it away, make one with 'sefl privacy "
                     "new LEDGER --text TEXT', and lower epsilon_total of the policy by what the "
                     "text has spent ('sefl privacy spent' of the old one)",
                     path, name);
}

sefl_status text_ledger_open(ledger **out, const char *path, const char *text)
{
    sefl_status st = SEFL_OK;
    ledger *l = NULL;
    *out = NULL;
    SEFL_TRY(ledger_open(&l, path, NULL, NULL));
    SEFL_TRY(of_a_text(l, path));
    SEFL_TRY(bind(ledger_population(l), path, text));
    SEFL_HAND_OVER(out, l, ledger_close);
}

sefl_status text_ledger_check(const char *path, const char *text)
{
    sefl_status st = SEFL_OK;
    ledger *l = NULL;
    char mark[PATH_MAX];
    SEFL_TRY(ledger_open_read(&l, path));
    SEFL_TRY(of_a_text(l, path));
    SEFL_TRY(mark_path(mark, text));
    if (file_exists(mark))
        SEFL_TRY(compare(mark, ledger_population(l), path, text));
done:
    ledger_close(l);
    return st;
}
