/* No number computed from a client's text leaves it in the clear.
 *
 * Every field of every message that a party of a federation can send is listed here with the reason
 * why it cannot carry one. The lists in the code (task_fields.h, round.h, participant.h, http.h,
 * link.h) are walked and compared both ways: an added field without a review here fails, and so
 * does a review of a field that no longer exists. Names that suggest such a number are refused
 * unless the review allows them explicitly. Only the encrypted units of an update depend on a
 * client's text, and their length is a constant of the task. */
#include "unit/core/protocol/task_sample.h"

#include "protocol/enrol.h"
#include "protocol/head.h"
#include "protocol/http.h"
#include "protocol/link.h"
#include "protocol/participant.h"
#include "protocol/round.h"
#include "protocol/task_fields.h"
#include "protocol/voucher.h"

#include <regex.h>
#include <stdlib.h>

/* The origin of a value. Deliberately, there is no entry for "from a client's text". */
typedef enum origin {
    AGREED,   /* set by people before any client takes part */
    PUBLIC,   /* a hash or key of public things */
    SERVER,   /* counted or drawn by a server that sees no text */
    CIPHER,   /* of ciphertext bytes: independent of the text given its coins, or a constant */
    IDENTITY, /* who, not what */
    WORDS,    /* a fixed word or sentence of the program */
} origin;

typedef struct review {
    const char *field;
    origin from;
    bool smells; /* its name contains a suspicious word, and was reviewed */
} review;

/* Words that the name of such a number would contain. */
static const char *const bad_words[] = { "loss",   "perplex", "norm",   "count",  "token", "word",
                                         "vocab",  "grad",    "record", "sample", "line",  "text",
                                         "weight", "scale",   "time",   "speed",  "size",  "stat",
                                         "metric", "accura",  "length", "epoch",  "steps" };

static bool smells(const char *name)
{
    for (size_t i = 0; i < sizeof bad_words / sizeof bad_words[0]; i++)
        if (strstr(name, bad_words[i]))
            return true;
    return false;
}

typedef struct walk {
    const char *what;
    const review *reviews;
    size_t n;
    bool seen[128];
} walk;

static void meet(walk *w, const char *field)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->reviews[i].field, field) == 0) {
            assert_false(w->seen[i]);
            w->seen[i] = true;
            if (smells(field) != w->reviews[i].smells)
                fail_msg("%s: %s: the review says %d about its name", w->what, field,
                         w->reviews[i].smells);
            return;
        }
    fail_msg("%s: the field %s was not reviewed: can it carry a number computed from a client's "
             "text? (docs/PROTOCOL.md, 'News of a round')",
             w->what, field);
}

static void leave(const walk *w)
{
    assert_true(w->n <= sizeof w->seen);
    for (size_t i = 0; i < w->n; i++)
        if (!w->seen[i])
            fail_msg("%s: %s is reviewed but does not exist", w->what, w->reviews[i].field);
}

#define WALK(name, list) \
    walk name = { .what = #list, .reviews = list, .n = sizeof list / sizeof list[0] }

/* ---- the task: written before the first round, read by everybody ------------------------------ */

static const review task_reviews[] = {
    { "sefl_task", AGREED, false },
    { "name", AGREED, false },
    { "population", AGREED, false },
    { "model.body", AGREED, false },
    { "model.tensors", AGREED, false }, /* names and shapes */
    { "model.vocab", PUBLIC, true },    /* words of the public list, by hash */
    { "model.embed", AGREED, false },
    { "model.hidden", AGREED, false },
    { "model.layers", AGREED, false },
    { "model.heads", AGREED, false },
    { "model.block", AGREED, false },
    { "model.block_embed", AGREED, false },
    { "model.block_decoder", AGREED, false },
    { "model.tied", AGREED, false },
    { "model.batch", AGREED, false },
    { "model.steps", AGREED, true }, /* sequence length of a batch */
    { "vocab.kind", AGREED, true },
    { "vocab.order", AGREED, true },
    { "vocab.sha256", PUBLIC, true }, /* of the public list */
    { "init.sha256", PUBLIC, false },
    { "valid.sha256", PUBLIC, false },
    { "training.only", AGREED, false }, /* names */
    { "training.optimiser", AGREED, false },
    { "training.lr", AGREED, false },
    { "training.schedule", AGREED, false },
    { "training.lr_last", AGREED, false },
    { "training.warmup", AGREED, false },
    { "training.momentum", AGREED, false },
    { "training.beta1", AGREED, false },
    { "training.beta2", AGREED, false },
    { "training.epsilon", AGREED, false },
    { "training.weight_decay", AGREED, true },  /* a coefficient */
    { "training.gradient_clip", AGREED, true }, /* a bound, not a gradient */
    { "training.dropout", AGREED, false },
    { "training.epochs", AGREED, true }, /* what clients shall do */
    { "training.steps", AGREED, true },
    { "privacy.clip", AGREED, false },
    { "privacy.clip_quantile", AGREED, false },
    { "privacy.noise", AGREED, false },
    { "privacy.z", AGREED, false },
    { "privacy.claim", AGREED, false },
    { "privacy.epsilon", AGREED, false },
    { "privacy.delta", AGREED, false },
    { "privacy.filter", AGREED, false },
    { "privacy.unit", AGREED, false },
    { "privacy.records_max", AGREED, true },  /* a bound */
    { "privacy.record_turns", AGREED, true }, /* a bound, for every client's records alike */
    { "privacy.record_words", AGREED, true }, /* a bound */
    { "privacy.sampling", AGREED, false },
    { "privacy.rate", AGREED, false },
    { "privacy.weights", AGREED, true },    /* equal or capped: a mode */
    { "privacy.weight_cap", AGREED, true }, /* a bound */
    { "rounds.count", AGREED, true },       /* rounds to do */
    { "rounds.enrolled", AGREED, false },
    { "rounds.clients_max", AGREED, false },
    { "rounds.threshold", AGREED, false },
    { "rounds.enough", AGREED, false },
    { "rounds.deadline_ms", AGREED, true }, /* dead-line */
    { "rounds.extend_ms", AGREED, false },
    { "rounds.extensions", AGREED, false },
    { "rounds.max_per_client", AGREED, false },
    { "rounds.separation", AGREED, false },
    { "rounds.patience", AGREED, false },
    { "server.step", AGREED, false },
    { "server.lr", AGREED, false },
    { "server.momentum", AGREED, false },
    { "server.beta1", AGREED, false },
    { "server.beta2", AGREED, false },
    { "server.epsilon", AGREED, false },
    { "crypto.scheme", AGREED, false },
    { "crypto.seal", AGREED, false },
    { "crypto.key", PUBLIC, false },
    { "servers.aggregator", PUBLIC, false },
    { "servers.csp", PUBLIC, false },
};

static void test_task(void **state)
{
    (void)state;
    WALK(w, task_reviews);
    for (size_t i = 0; i < task_field_count; i++)
        meet(&w, task_fields[i].path);
    leave(&w);
}

/* ---- what is signed in a round ---------------------------------------------------------------- */

#define MEET(type, name) meet(&w, #name);

static const review header_reviews[] = {
    { "task", PUBLIC, false },      { "round", SERVER, false },
    { "model", PUBLIC, false }, /* hash of a released model: charged for */
    { "step_nano", AGREED, false }, { "suite", AGREED, false },
    { "key_bytes", AGREED, false }, /* and CSP's round key: public */
};

static const review receipt_reviews[] = {
    { "task", PUBLIC, false },     { "round", SERVER, false },
    { "client", IDENTITY, false }, /* hash of its certificate's key */
    { "body", CIPHER, false },     /* hash of the ciphertext */
    { "bytes", CIPHER, false },    /* a constant of the task */
};

static const review statement_reviews[] = {
    { "task", PUBLIC, false },    { "round", SERVER, false },
    { "attempt", SERVER, false }, { "clients", SERVER, false }, /* AS counts bodies, not texts */
    { "set", CIPHER, false },
};

static const review end_reviews[] = {
    { "task", PUBLIC, false },
    { "round", SERVER, false },
    { "model", PUBLIC, false }, /* hash of a released model: charged for */
};

static void test_round(void **state)
{
    (void)state;
    {
        WALK(w, header_reviews);
        ROUND_HEADER_FIELDS(MEET)
        leave(&w);
    }
    {
        WALK(w, receipt_reviews);
        ROUND_RECEIPT_FIELDS(MEET)
        leave(&w);
    }
    {
        WALK(w, end_reviews);
        ROUND_END_FIELDS(MEET)
        leave(&w);
    }
    {
        WALK(w, statement_reviews);
        ROUND_STATEMENT_FIELDS(MEET)
        leave(&w);
    }
}

/* ---- between a client and AS ------------------------------------------------------------------ */

static const review news_reviews[] = {
    { "state", SERVER, true }, /* of the round: one of four words */
    { "round", SERVER, false },  { "left_ms", SERVER, false },
    { "header", SERVER, false }, { "why", WORDS, false },
};

static const review http_reviews[] = {
    { "after", SERVER, false },       /* a round that AS announced */
    { "wait", AGREED, false },        /* a constant of the client program */
    { "Sefl-Offset", CIPHER, false }, /* of the ciphertext */
    { "Sefl-Total", CIPHER, false },  /* a constant of the task */
    { "Sefl-Version", WORDS, false }, /* a constant of the program */
};

static const review call_reviews[] = {
    { "GET /healthz", WORDS, false },
    { "GET /v1/task", AGREED, false },
    { "GET /v1/round", SERVER, false },
    { "GET /v1/round/N/model", SERVER, false },
    { "GET /v1/model", SERVER, false },
    { "GET /v1/vocab", PUBLIC, true }, /* the public list, downwards */
    { "GET /v1/init", PUBLIC, false },
    { "HEAD /v1/round/N/update/HASH", CIPHER, false },
    { "PUT /v1/round/N/update/HASH", CIPHER, false },
    { "GET /v1/round/N/counted", SERVER, true }, /* of clients, by CSP: downwards */
    { "POST /v1/voucher", IDENTITY, false },
    { "GET /v1/certificate", IDENTITY, false },
    { "POST /v1/enroll", IDENTITY, false },
};

/* ---- no path and no field past the lists -------------------------------------------------------- */

/* Turns C text into its code alone: comments become blanks. */
static void blank_comments(char *p)
{
    for (; *p; p++) {
        if (*p == '"' || (*p == '\'' && p[-1] != '\'')) {
            char quote = *p++;
            for (; *p && *p != quote && *p != '\n'; p++)
                p += *p == '\\';
        } else if (p[0] == '/' && (p[1] == '/' || p[1] == '*')) {
            const char *stop = strstr(p + 2, p[1] == '/' ? "\n" : "*/");
            while (*p && p < stop)
                *p++ = ' ';
        }
    }
}

/* Code that may name a field: field() gets its names from the list, AS's answers have fields of
 * HTTP itself, and in the benchmark of uploads every update is from another client. */
static const struct {
    const char *file, *code;
} exempt[] = {
    { "/parties/as/as_http.c", "? https_query(r, name) : https_header(r, name);\n}" },
    { "/parties/as/as_http.c", "\"ETag: \\\"%s\\\"\\n\"" },
    { "/parties/as/as_http.c", "\"Retry-After: " },
    { "/parties/as/", "\"Cache-Control: no-store\\n\"" },
    { "/bench/round/ingest_plan.h", "\"Sefl-Bench-Client\"" },
    { "/bench/round/ingest.c", "https_header(r, NUMBER)" },
};
/* Messages begin with these words, which are no fields. */
static const char words[] =
    " CSP LSTM MPI Next OpenSSL QUICK TMPDIR Transformer WARNING fork pipe policy sefl ";

static bool matches(const char *pattern, const char *code)
{
    regex_t r;
    assert_int_equal(regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool found = regexec(&r, code, 0, NULL, 0) == 0;
    regfree(&r);
    return found;
}

static size_t times(const char *code, const char *word)
{
    size_t n = 0;
    for (; (code = strstr(code, word)) != NULL; code++)
        n++;
    return n;
}

/* Returns the first text in the code that is one of our paths or fields, or may be a new one: a
 * literal line "Name: ..."; where the file uses HTTP, also in lower case, a query "?name=" or
 * "&name=", a path "/..." or an addition to one, "%s/..."; NULL if there is none. A name that is
 * built at run time is in no text: every client must send only headers of the list (may_send).
 * Overwrites what is exempt; met[i] counts the uses of exempt[i]. */
static const char *past_the_list(const char *file, char *code, size_t *met)
{
    static const char *const ours[] = { "\"/v1", "/v1/",          "\"/healthz",
                                        "Sefl-", "https_header(", "https_query(" };
    static char name[80];
    blank_comments(code);
    /* the page speaks to browsers: its fields are HTTP's own */
    const bool net = strstr(file, "/src/host/net/") || strstr(file, "/src/host/page/");
    const bool http = strstr(code, "https_") != NULL;
    regmatch_t at[3];
    regex_t line;
    for (size_t i = 0; i < sizeof exempt / sizeof exempt[0]; i++)
        for (char *p; strstr(file, exempt[i].file) && (p = strstr(code, exempt[i].code)); met[i]++)
            memset(p, ' ', strlen(exempt[i].code));
    for (size_t i = 0; i < (net ? 4 : sizeof ours / sizeof ours[0]); i++)
        if (strstr(code, ours[i]))
            return ours[i];
    if (http && !net && strstr(file, "/src/") &&
        times(code, "https_client_new(") > times(code, ".may_send = http_is_header"))
        return "a client that may send any header";
    if (http && !net && strstr(file, "/src/") && strstr(code, "\"/"))
        return "a path";
    if (http && !net && matches("[?&][A-Za-z_-]+=[%0-9\"]", code))
        return "a query field";
    if (strstr(file, "/src/") && strstr(code, "http_path(") && matches("\"%s/[a-z]", code))
        return "an addition to a path";
    assert_int_equal(regcomp(&line, "(\"|\\\\n)([A-Z][A-Za-z0-9-]*):[ %]",
                             REG_EXTENDED | (http ? REG_ICASE : 0)),
                     0);
    name[0] = 0;
    for (; !net && regexec(&line, code, 3, at, 0) == 0; code += at[0].rm_eo) {
        snprintf(name, sizeof name, " %.*s ", (int)(at[2].rm_eo - at[2].rm_so), code + at[2].rm_so);
        if (!strstr(words, name))
            break;
        name[0] = 0;
    }
    regfree(&line);
    return name[0] ? name : NULL;
}

static void test_nothing_past_the_list(void **state)
{
    (void)state;
    char command[1024], file[512];
    size_t files = 0, met[sizeof exempt / sizeof exempt[0]] = { 0 };
    snprintf(command, sizeof command, "find '%s/src' '%s/bench' '%s/include' -name '*.[ch]'",
             SEFL_SOURCE_DIR, SEFL_SOURCE_DIR, SEFL_SOURCE_DIR);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(file, sizeof file, f)) {
        sefl_buf b = { 0 };
        file[strcspn(file, "\n")] = 0;
        if (strstr(file, "/src/core/protocol/http.h"))
            continue;
        CHECK_OK(file_read(&b, file, 1 << 22));
        CHECK_OK(wr_u8(&b, 0));
        const char *what = past_the_list(file, (char *)b.p, met);
        if (what)
            fail_msg("%s: %s is not from the lists of protocol/http.h", file, what);
        buf_clear(&b);
        files++;
    }
    pclose(f);
    assert_true(files > 100);
    for (size_t i = 0; i < sizeof met / sizeof met[0]; i++)
        if (met[i] == 0)
            fail_msg("%s: nothing needs the exemption of %s", exempt[i].file, exempt[i].code);
            /* the search can fail */
#define BAD(file, code)  assert_non_null(past_the_list(file, (char[]){ code }, met))
#define FINE(file, code) assert_null(past_the_list(file, (char[]){ code }, met))
    BAD("x.c", "get(\"/v1/loss\"); /* \"/v1/task\" */");
    FINE("x.c", "a(\"b\"); /* GET /v1/task, Sefl-Total */ // \"/v1\"\n");
    BAD("/src/parties/common/x.c", "https_header(r, \"Loss\")");
    BAD("/src/parties/as/as_http.c", "https_header(r, \"Loss\")");
    BAD("/src/parties/client/net.c", "f(h, \"X-Loss: %f\\n\", loss)");
    BAD("/src/parties/client/net.c", "https_head(n, p, \"a b\\nloss: 3\")");
    BAD("/src/parties/client/net.c", "https_get(n, \"/loss\")");
    BAD("/src/parties/client/net.c", "https_get(n, f(\"%s?loss=%f\", p, loss))");
    BAD("/src/parties/client/net.c", "https_get(n, f(\"%s&loss=3\", p))");
    BAD("/src/parties/client/net.c", "http_path(p, t); f(\"%s/loss\", p)");
    FINE("/src/parties/client/net.c", "https_get(n, p); f(\"%s: %d\", name)");
    BAD("/src/parties/common/x.c", "https_client_new(&c, &(https_client_config){ .host = h })");
    BAD("/src/parties/common/x.c",
        "https_client_new(&c, &(https_client_config){ .may_send = any })");
    FINE("/src/parties/common/x.c", "https_client_new(&c, &(x){ .may_send = http_is_header })");
}

static void test_http(void **state)
{
    (void)state;
    {
        WALK(w, news_reviews);
#define NEWS(name) meet(&w, #name);
        ROUND_NEWS_FIELDS(NEWS)
        leave(&w);
    }
    {
        WALK(w, http_reviews);
#define FIELD(name, where, field) meet(&w, field);
        HTTP_FIELDS(FIELD)
        leave(&w);
    }
    {
        WALK(w, call_reviews);
#define CALL(name, method, path, answer) meet(&w, method " " path);
        HTTP_CALLS(CALL)
        leave(&w);
    }
}

/* ---- between AS and CSP ----------------------------------------------------------------------- */

/* Messages of protocol/link.h. Neither server has a client's text; what one tells the other is
 * rounds, signed things, ciphertext, and what the computations of mpc/ send. */
static const review link_reviews[] = {
    { "LINK_HELLO", SERVER, false },
    { "LINK_WELCOME", SERVER, false },
    { "LINK_TASK", AGREED, false },
    { "LINK_YES", WORDS, false },
    { "LINK_HEADER", SERVER, false },
    { "LINK_REVEAL", SERVER, false },
    { "LINK_GO", WORDS, false },
    { "LINK_KEPT", SERVER, false },
    { "LINK_SUM", CIPHER, false },
    { "LINK_PLAIN", SERVER, false }, /* the masked sum, with noise none: documented prominently */
    { "LINK_SKIP", SERVER, false },
    { "LINK_PING", WORDS, false },
    { "LINK_PONG", WORDS, false },
    { "LINK_BYE", WORDS, false },
    { "LINK_NO", WORDS, false },
    { "LINK_ENROL", IDENTITY, false },
    { "LINK_APPROVED", IDENTITY, false },
    { "LINK_LANE", WORDS, false },
    { "LINK_REPLY", SERVER, false }, /* noisy and masked */
    { "LINK_FILL", SERVER, false },
    { "LINK_KEY", SERVER, false },
    { "LINK_VOUCH", IDENTITY, false },
    { "LINK_EARLY", IDENTITY, false }, /* heads */
    { "LINK_SET", SERVER, false },
    { "LINK_HEADS", IDENTITY, false },
    { "LINK_VERDICT", IDENTITY, false }, /* who took part, to AS */
    { "LINK_COUNTED", IDENTITY, false }, /* a root over who took part */
    { "LINK_DIGEST", SERVER, false },    /* of the noisy, masked output */
    { "LINK_ACK", SERVER, false },
    { "LINK_SEED", SERVER, false }, /* of a session that no round uses */
};

/* Messages of protocol/enrol.h: keys, names, signatures. */
static const review enrol_reviews[] = {
    { "claim key", IDENTITY, false },          { "claim servers.as", PUBLIC, false },
    { "claim servers.csp", PUBLIC, false },    { "claim name", IDENTITY, false },
    { "proof pub", IDENTITY, false },          { "proof sig", IDENTITY, false },
    { "request claim", IDENTITY, false },      { "request as", IDENTITY, false }, /* two proofs */
    { "request csp", IDENTITY, false },        { "request csr", IDENTITY, false },
    { "answer csp", IDENTITY, false }, /* two signatures */
    { "answer as", IDENTITY, false },          { "answer population", AGREED, false },
    { "answer certificate", IDENTITY, false }, { "answer ca", PUBLIC, false },
};

/* The head of a sealed update: fresh coins, and a hash of ciphertext. */
static const review head_reviews[] = {
    { "suite", AGREED, false }, { "client", IDENTITY, false },    { "units", CIPHER, false },
    { "enc", CIPHER, false },   { "sealed_seed", CIPHER, false }, { "signature", CIPHER, false },
};

static const review voucher_reviews[] = {
    { "client", IDENTITY, false },   { "key", IDENTITY, false },
    { "servers.as", PUBLIC, false }, { "servers.csp", PUBLIC, false },
    { "serial", WORDS, false }, /* when the key was made */
    { "spki", IDENTITY, false },     { "signature", IDENTITY, false },
    { "chain", IDENTITY, false },
};

static void test_head_and_voucher(void **state)
{
    (void)state;
    WALK(h, head_reviews);
    WALK(v, voucher_reviews);
#define OF_HEAD(field, bytes) meet(&h, #field);
    HEAD_FIELDS(OF_HEAD)
#define OF_VOUCHER(type, field, max) meet(&v, #field);
    VOUCHER_SIGNED_FIELDS(OF_VOUCHER)
    VOUCHER_MORE_FIELDS(OF_VOUCHER)
    leave(&h);
    leave(&v);
}

static void test_enrolment(void **state)
{
    (void)state;
    WALK(w, enrol_reviews);
#define OF_CLAIM(type, field, max) meet(&w, "claim " #field);
    ENROL_CLAIM_FIELDS(OF_CLAIM)
#define OF_PROOF(type, field, max) meet(&w, "proof " #field);
    ENROL_PROOF_FIELDS(OF_PROOF)
#define OF_REQUEST(type, field, max) meet(&w, "request " #field);
    ENROL_REQUEST_FIELDS(OF_REQUEST)
#define OF_ANSWER(type, field, max) meet(&w, "answer " #field);
    ENROL_ANSWER_FIELDS(OF_ANSWER)
    leave(&w);
}

static void test_link(void **state)
{
    (void)state;
    WALK(w, link_reviews);
#define OF_LINK(name) meet(&w, "LINK_" #name);
    LINK_KIND_LIST(OF_LINK)
    leave(&w);
}

/* ---- what does carry it ------------------------------------------------------------------------ */

/* The length of an update is a constant of the task: the same for any text and any number of words. */
static void test_length_of_an_update(void **state)
{
    (void)state;
    task a, b;
    sample_begin();
    CHECK_OK(sample_task(&a, NULL));
    CHECK_OK(sample_task(&b, "privacy.weights=capped", "privacy.weight_cap=1000", NULL));
    assert_true(ahe_body_bytes(&a.ahe) == a.ahe.units * a.ahe.unit_bytes);
    /* the weight rides inside the sum, as one more value */
    assert_int_equal(b.values, b.params + 1);
    assert_int_equal(b.ahe.values, b.values);
    task_clear(&a);
    task_clear(&b);
    sample_end();
}

/* The comparison can fail: it detects an unreviewed field, whatever its name. */
static void test_the_words(void **state)
{
    (void)state;
    assert_true(smells("local_loss") && smells("token_count") && smells("grad_norm") &&
                smells("words") && smells("train_time"));
    assert_false(smells("round") || smells("left_ms"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task),
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_http),
        cmocka_unit_test(test_nothing_past_the_list),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_enrolment),
        cmocka_unit_test(test_head_and_voucher),
        cmocka_unit_test(test_length_of_an_update),
        cmocka_unit_test(test_the_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
