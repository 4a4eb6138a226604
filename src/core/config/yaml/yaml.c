/* Walks libyaml's events with a stack of open maps; each entry is the length of the path outside
 * the map. Invariants:
 *   1. The walk fills a private settings object and hands it over at the end: a file with an error
 *      in its last line changes nothing.
 *   2. The walk looks up a key when its value begins, so it rejects an unknown map before it reads
 *      the contents. The schema therefore bounds the memory for keys.
 *   3. Every error about a key begins with the position of that key, whichever event detects it. */
#include "config/yaml/yaml.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { BYTES_MAX = 1 << 20, DEPTH_MAX = 16, PATH_MAX_BYTES = 256, ORIGIN_MAX = 512 };

typedef struct walk {
    yaml_parser_t parser;
    const char *name;
    settings got; /* handed over at the end */

    char path[PATH_MAX_BYTES]; /* the current key: model.block */
    size_t outside[DEPTH_MAX]; /* path length outside of each open map */
    unsigned depth, documents; /* number of open maps; number of documents so far */
    bool has_key;              /* the path ends with a key whose value comes next */
    size_t in_map;             /* path length of the current map */
    char origin[ORIGIN_MAX];   /* position of the current key */
    bool in_list;              /* between the brackets of a sequence */
    bool in_pairs, has_name;   /* inside a map that is one value; a pair's name has been read */
    sefl_buf list;             /* the items or pairs so far, separated by commas */
    size_t items;
    sefl_buf seen; /* full keys read so far, each with its terminator */
} walk;

static void place(walk *w, yaml_mark_t at)
{
    snprintf(w->origin, sizeof w->origin, "%.400s:%zu:%zu", w->name, at.line + 1, at.column + 1);
}

/* ---- the schema, seen from a key ---------------------------------------------------------- */

static const setting_def *yaml_find(const walk *w, const char *key)
{
    return setting_find(w->got.schema, key);
}

/* True if the key is a group: some settings begin with it and a dot. */
static bool is_group(const walk *w, const char *key)
{
    size_t n = strlen(key);
    for (const setting_def *d = w->got.schema; d->key; d++)
        if (strncmp(d->key, key, n) == 0 && d->key[n] == '.')
            return true;
    return false;
}

static sefl_status unknown_group(const walk *w)
{
    char group[SETTINGS_MAX][PATH_MAX_BYTES];
    const char *names[SETTINGS_MAX + 1] = { 0 };
    size_t n = 0, points = 0;
    for (const char *c = w->path; *c; c++)
        points += *c == '.';
    for (const setting_def *d = w->got.schema; d->key; d++) { /* groups of the same depth */
        const char *end = strchr(d->key, '.');
        for (size_t i = 0; end && i < points; i++)
            end = strchr(end + 1, '.');
        if (!end)
            continue;
        snprintf(group[n], sizeof *group, "%.*s", (int)(end - d->key), d->key);
        names[n] = group[n], n++;
    }
    const char *near = suggest_name(w->path, names);
    SEFL_NEED(!near, SEFL_EINVAL, "%s: unknown setting \"%s\"; did you mean \"%s\"?", w->origin,
              w->path, near);
    return sefl_fail(SEFL_EINVAL, "%s: unknown setting \"%s\"", w->origin, w->path);
}

/* ---- events ------------------------------------------------------------------------------- */

static sefl_status plain(walk *w, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    SEFL_NEED(!anchor, SEFL_EINVAL, "%s: anchors (&%.40s) are not supported", w->origin, anchor);
    SEFL_NEED(!tag, SEFL_EINVAL, "%s: tags (%.40s) are not supported", w->origin, tag);
    return SEFL_OK;
}

static sefl_status on_key(walk *w, const yaml_event_t *e)
{
    sefl_span key = span_of(e->data.scalar.value, e->data.scalar.length);
    w->path[w->in_map] = 0;
    SEFL_PASS(plain(w, e->data.scalar.anchor, e->data.scalar.tag));
    SEFL_NEED(key.n > 0, SEFL_EINVAL, "%s: empty key", w->origin);
    for (size_t i = 0; i < key.n; i++)
        SEFL_NEED(key.p[i] > 0x20 && key.p[i] != 0x7f, SEFL_EINVAL,
                  "%s: a key contains white space or a control character", w->origin);
    SEFL_NEED(w->in_map + 1 + key.n < sizeof w->path, SEFL_EINVAL,
              "%s: unknown setting \"%.40s...\"", w->origin, (const char *)key.p);
    size_t n = w->in_map;
    if (n > 0)
        w->path[n++] = '.';
    memcpy(w->path + n, key.p, key.n);
    w->path[n + key.n] = 0;
    w->has_key = true;
    return SEFL_OK;
}

/* SEFL_EINVAL if the file has already set the current key. */
static sefl_status once(walk *w)
{
    for (size_t i = 0; i < w->seen.n; i += strlen((const char *)w->seen.p + i) + 1)
        SEFL_NEED(strcmp((const char *)w->seen.p + i, w->path) != 0, SEFL_EINVAL,
                  "%s: \"%s\" is set twice", w->origin, w->path);
    return wr_raw(&w->seen, w->path, strlen(w->path) + 1);
}

static sefl_status set(walk *w, sefl_span value)
{
    const bool known = yaml_find(w, w->path);
    SEFL_NEED(known || !is_group(w, w->path), SEFL_EINVAL,
              "%s: \"%s\" is a group: write its settings below it, indented", w->origin, w->path);
    if (known)
        SEFL_PASS(once(w));
    SEFL_PASS(settings_set_pair(&w->got, span_of_str(w->path), value, w->origin));
    w->has_key = false;
    return SEFL_OK;
}

static sefl_status on_value(walk *w, const yaml_event_t *e)
{
    sefl_span v = span_of(e->data.scalar.value, e->data.scalar.length);
    SEFL_PASS(plain(w, e->data.scalar.anchor, e->data.scalar.tag));
    SEFL_NEED(v.n > 0 || e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || w->in_list ||
                  !yaml_find(w, w->path),
              SEFL_EINVAL, "%s: \"%s\" has no value (write \"\" for an empty one)", w->origin,
              w->path);
    if (!w->in_list) {
        sefl_status st = set(w, v);
        const bool lines = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                           e->end_mark.line > e->start_mark.line;
        SEFL_NEED(st != SEFL_EINVAL || !lines || !yaml_find(w, w->path), SEFL_EINVAL,
                  "%s: line %zu continues the value of \"%s\", because it is indented more; indent "
                  "all settings of a group alike",
                  w->origin, e->end_mark.line + 1, w->path);
        return st;
    }
    SEFL_NEED(v.n > 0 && !memchr(v.p, ',', v.n), SEFL_EINVAL,
              "%s: an item of \"%s\" is empty or contains a comma", w->origin, w->path);
    return wr_fmt(&w->list, "%s%.*s", w->items++ ? "," : "", (int)v.n, (const char *)v.p);
}

/* Adds the name, or the value, of a pair to a value that is a map. */
static sefl_status on_pair(walk *w, const yaml_event_t *e)
{
    const sefl_span v = span_of(e->data.scalar.value, e->data.scalar.length);
    SEFL_PASS(plain(w, e->data.scalar.anchor, e->data.scalar.tag));
    SEFL_NEED(v.n > 0 && !memchr(v.p, ',', v.n) && !memchr(v.p, '=', v.n), SEFL_EINVAL,
              "%s: a name or value in \"%s\" is empty or contains a comma or =", w->origin,
              w->path);
    SEFL_PASS(wr_fmt(&w->list, "%s", w->has_name ? "=" : w->items++ ? "," : ""));
    w->has_name = !w->has_name;
    return wr_raw(&w->list, v.p, v.n);
}

static sefl_status on_scalar(walk *w, const yaml_event_t *e)
{
    if (w->in_pairs)
        return on_pair(w, e);
    if (w->depth == 0) {
        /* "---" alone: a document without content */
        if (e->data.scalar.length == 0 && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
            return plain(w, e->data.scalar.anchor, e->data.scalar.tag);
        return sefl_fail(SEFL_EINVAL, "%s: a setting must have the form \"key: value\"", w->origin);
    }
    return w->has_key ? on_value(w, e) : on_key(w, e);
}

static sefl_status on_map(walk *w, const yaml_event_t *e)
{
    SEFL_PASS(plain(w, e->data.mapping_start.anchor, e->data.mapping_start.tag));
    SEFL_NEED(!w->in_list && !w->in_pairs, SEFL_EINVAL,
              "%s: an item of \"%s\" is a map: only plain values are allowed", w->origin, w->path);
    SEFL_NEED(w->depth == 0 || w->has_key, SEFL_EINVAL, "%s: a map cannot be a key", w->origin);
    SEFL_NEED(w->depth < DEPTH_MAX, SEFL_EINVAL, "%s: more than %d levels of nested maps",
              w->origin, DEPTH_MAX);
    if (w->has_key) {
        const bool group = is_group(w, w->path);
        const setting_def *d = yaml_find(w, w->path);
        if (d && d->map) {
            w->in_pairs = true;
            w->items = 0;
            buf_reset(&w->list);
            return SEFL_OK;
        }
        SEFL_NEED(group || !d, SEFL_EINVAL, "%s: \"%s\" must be a value, not a map", w->origin,
                  w->path);
        SEFL_PASS(group ? once(w) : unknown_group(w));
    }
    w->outside[w->depth++] = w->in_map;
    w->in_map = strlen(w->path);
    w->has_key = false;
    return SEFL_OK;
}

static sefl_status on_map_end(walk *w)
{
    if (w->in_pairs) {
        w->in_pairs = false;
        return set(w, buf_span(&w->list));
    }
    w->in_map = w->outside[--w->depth];
    w->path[w->in_map] = 0;
    w->has_key = false;
    return SEFL_OK;
}

static sefl_status on_list(walk *w, const yaml_event_t *e)
{
    SEFL_PASS(plain(w, e->data.sequence_start.anchor, e->data.sequence_start.tag));
    SEFL_NEED(w->depth > 0, SEFL_EINVAL, "%s: a setting must have the form \"key: value\"",
              w->origin);
    SEFL_NEED(w->has_key, SEFL_EINVAL, "%s: a list cannot be a key", w->origin);
    SEFL_NEED(!w->in_list && !w->in_pairs, SEFL_EINVAL, "%s: the list \"%s\" contains a list",
              w->origin, w->path);
    const setting_def *d = yaml_find(w, w->path);
    SEFL_NEED(!d || d->type == SETTING_TEXT, SEFL_EINVAL,
              "%s: \"%s\" must be one value, not a list", w->origin, w->path);
    w->in_list = true;
    w->items = 0;
    buf_reset(&w->list);
    return SEFL_OK;
}

static sefl_status on_list_end(walk *w)
{
    w->in_list = false;
    return set(w, buf_span(&w->list));
}

static sefl_status on_document(walk *w, const yaml_event_t *e)
{
    SEFL_NEED(w->documents++ == 0, SEFL_EINVAL, "%s: more than one document in the file",
              w->origin);
    SEFL_NEED(e->data.document_start.tag_directives.start ==
                  e->data.document_start.tag_directives.end,
              SEFL_EINVAL, "%s: tags (%%TAG) are not supported", w->origin);
    return SEFL_OK;
}

static sefl_status on_event(walk *w, const yaml_event_t *e)
{
    if (w->depth == 0 || !w->has_key) /* an error about a value names the position of its key */
        place(w, e->start_mark);
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return on_document(w, e);
    case YAML_ALIAS_EVENT:
        return sefl_fail(SEFL_EINVAL, "%s: aliases (*%.40s) are not supported", w->origin,
                         (const char *)e->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        return on_scalar(w, e);
    case YAML_MAPPING_START_EVENT:
        return on_map(w, e);
    case YAML_MAPPING_END_EVENT:
        return on_map_end(w);
    case YAML_SEQUENCE_START_EVENT:
        return on_list(w, e);
    case YAML_SEQUENCE_END_EVENT:
        return on_list_end(w);
    default:
        return SEFL_OK; /* begin and end of stream and document */
    }
}

/* ---- the walk ----------------------------------------------------------------------------- */

static bool is_tab(sefl_span b, yaml_mark_t at)
{
    size_t i = 0;
    for (size_t line = 0; line < at.line && i < b.n; i++)
        line += b.p[i] == '\n';
    for (size_t column = 0; column < at.column && i < b.n; i++)
        column += i + 1 == b.n || (b.p[i + 1] & 0xc0) != 0x80;
    return i < b.n && b.p[i] == '\t';
}

/* Reports libyaml's error with its position. */
static sefl_status syntax_error(walk *w, sefl_span bytes)
{
    const yaml_parser_t *p = &w->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return sefl_fail(SEFL_ENOMEM, "%.400s: out of memory", w->name);
    yaml_mark_t at = p->problem_mark;
    if (p->error == YAML_READER_ERROR) { /* no mark, an offset: not UTF-8, or a control character */
        at = (yaml_mark_t){ 0 };
        for (size_t i = 0; i < p->problem_offset && i < bytes.n; i++) {
            at.column = bytes.p[i] == '\n' ? 0 : at.column + ((bytes.p[i] & 0xc0) != 0x80);
            at.line += bytes.p[i] == '\n';
        }
    }
    place(w, at);
    const char *problem = p->problem ? p->problem : "not YAML";
    if (p->error == YAML_SCANNER_ERROR && is_tab(bytes, at))
        return sefl_fail(SEFL_EINVAL, "%s: tab character: indent YAML with spaces", w->origin);
    if (strstr(problem, "mapping values are not allowed"))
        problem = "a colon inside a value: use quotes, or indent all settings of a group alike";
    if (p->context)
        return sefl_fail(SEFL_EINVAL, "%s: %s (%s)", w->origin, problem, p->context);
    return sefl_fail(SEFL_EINVAL, "%s: %s", w->origin, problem);
}

static sefl_status yaml_run(walk *w, sefl_span bytes)
{
    sefl_status st = SEFL_OK;
    for (bool end = false; !end && st == SEFL_OK;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&w->parser, &e))
            return syntax_error(w, bytes);
        st = on_event(w, &e);
        end = e.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    return st;
}

/* folder: base of the file's relative paths. */
static sefl_status read_from(settings *s, sefl_span bytes, const char *name, const char *folder)
{
    sefl_status st = SEFL_OK;
    walk *w = NULL;
    bool made = false;

    SEFL_CHECK(bytes.n <= BYTES_MAX, SEFL_ERANGE, "%.400s: %zu bytes of settings, at most %d", name,
               bytes.n, BYTES_MAX);
    /* libyaml counts a byte order mark as a column, so the first key would look indented */
    if (bytes.n >= 3 && memcmp(bytes.p, "\xef\xbb\xbf", 3) == 0)
        bytes = span_of(bytes.p + 3, bytes.n - 3);
    SEFL_TRY(sefl_new(&w, 1, sizeof *w));
    w->name = name;
    settings_init(&w->got, s->schema);
    made = yaml_parser_initialize(&w->parser) != 0;
    SEFL_CHECK(made, SEFL_ENOMEM, "%.400s: out of memory", name);
    yaml_parser_set_encoding(&w->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&w->parser, bytes.n ? bytes.p : (const uint8_t *)"", bytes.n);
    SEFL_TRY(yaml_run(w, bytes));
    SEFL_TRY(settings_resolve(&w->got, folder));
    for (size_t i = 0; i < s->count; i++)
        if (w->got.value[i]) {
            sefl_free(s->value[i]);
            sefl_free(s->origin[i]);
            s->value[i] = w->got.value[i], s->origin[i] = w->got.origin[i];
            w->got.value[i] = w->got.origin[i] = NULL;
        }
done:
    if (made)
        yaml_parser_delete(&w->parser);
    if (w) {
        settings_clear(&w->got);
        buf_clear(&w->list);
        buf_clear(&w->seen);
    }
    sefl_free(w);
    return st;
}

sefl_status yaml_read_over(settings *s, sefl_span bytes, const char *name)
{
    return read_from(s, bytes, name, NULL);
}

sefl_status yaml_read(settings *s, const char *path)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    const char *slash = strrchr(path, '/');
    char *folder = NULL;
    SEFL_TRY(sefl_strdup(&folder, slash == path ? "/." : path));
    if (slash != path)
        folder[slash ? slash - path : 0] = 0;
    SEFL_TRY(file_read(&b, path, BYTES_MAX));
    SEFL_TRY(read_from(s, buf_span(&b), path, folder));
done:
    buf_clear(&b);
    sefl_free(folder);
    return st;
}
