#include "model/corpus/synth.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "seeded/seeded.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- words --------------------------------------------------------------------------------- */

const char *const synth_topic_names[SYNTH_TOPICS] = { "sea",    "farm",     "market",
                                                      "forest", "workshop", "music" };

/* Lists are most frequent first. Pairs are singular and plural: "sailor sailors"; verbs agree:
 * "mends mend". Verbs of kind k take objects of kind k. */
typedef struct topic_words {
    const char *opener, *agent, *trait, *verb[2], *object[2], *look, *place;
} topic_words;

static const topic_words topics[SYNTH_TOPICS] = {
    { "offshore aboard seaward",
      "sailor sailors captain captains diver divers fisherman fishermen pilot pilots mate mates",
      "tired brave sunburnt stubborn careful young",
      { "mends mend dries dry hauls haul stows stow",
        "follows follow counts count feeds feed spots spot" },
      { "net nets rope ropes sail sails flag flags cable cables hook hooks",
        "seal seals crab crabs gull gulls dolphin dolphins turtle turtles whale whales" },
      "wet grey heavy salty",
      "harbour lighthouse pier reef bay sandbank" },
    { "upcountry nearby downhill",
      "farmer farmers shepherd shepherds milker milkers helper helpers neighbour neighbours "
      "beekeeper beekeepers",
      "patient strong cheerful young careful weary",
      { "plants plant waters water gathers gather weighs weigh",
        "feeds feed leads lead washes wash counts count" },
      { "pumpkin pumpkins cabbage cabbages melon melons turnip turnips bean beans pear pears",
        "goat goats pig pigs horse horses hen hens cow cows lamb lambs" },
      "ripe muddy small brown",
      "barn meadow well stable orchard gate" },
    { "downtown today early",
      "trader traders baker bakers buyer buyers porter porters tailor tailors jeweller jewellers",
      "clever loud friendly greedy patient honest",
      { "sells sell wraps wrap weighs weigh offers offer",
        "signs sign reads read copies copy hides hide" },
      { "carpet carpets basket baskets lemon lemons scarf scarves cake cakes ring rings",
        "bill bills letter letters ticket tickets price prices list lists map maps" },
      "cheap bright fresh golden",
      "counter fountain bank square corner bridge" },
    { "uphill yonder northward",
      "ranger rangers hunter hunters hiker hikers woodcutter woodcutters guide guides painter "
      "painters",
      "silent careful lost brave bearded young",
      { "follows follow watches watch draws draw tracks track",
        "chops chop carries carry burns burn stacks stack" },
      { "hare hares fox foxes wolf wolves bear bears squirrel squirrels raven ravens",
        "branch branches log logs pine pines root roots birch birches stump stumps" },
      "dark wild tall mossy",
      "cave river clearing trail cabin ridge" },
    { "indoors downstairs backstage",
      "carpenter carpenters welder welders potter potters joiner joiners glazier glaziers smith "
      "smiths",
      "skilled tired dusty patient clever strong",
      { "cuts cut sands sand paints paint repairs repair",
        "sharpens sharpen borrows borrow cleans clean drops drop" },
      { "chair chairs table tables door doors shelf shelves box boxes frame frames",
        "hammer hammers chisel chisels saw saws file files wrench wrenches drill drills" },
      "wooden rusty broken smooth",
      "bench furnace window wall lathe stove" },
    { "tonight onstage later",
      "singer singers drummer drummers fiddler fiddlers dancer dancers teacher teachers pianist "
      "pianists",
      "gifted nervous famous cheerful loud young",
      { "plays play writes write hums hum practises practise",
        "tunes tune cleans clean lends lend polishes polish" },
      { "song songs waltz waltzes ballad ballads march marches jingle jingles hymn hymns",
        "fiddle fiddles drum drums flute flutes trumpet trumpets bell bells guitar guitars" },
      "sad slow lovely famous",
      "stage curtain balcony piano stairs foyer" },
};

enum { WORDS_MAX = 1024, STATES_MAX = 1024, ARCS_MAX = 1 << 15, WORD_BYTES = 24 };

struct synth {
    char word[WORDS_MAX][WORD_BYTES];
    uint32_t words;
    uint32_t first[STATES_MAX + 1]; /* arcs of state s: first[s] .. first[s + 1] */
    uint32_t states;
    synth_arc arc[ARCS_MAX];
    uint32_t arcs;
    uint8_t topic_of[64];                            /* of the start state's arcs */
    double given[64];                                /* their probability when the topic is given */
    double nats[SYNTH_TOPICS], visits[SYNTH_TOPICS]; /* of a line after its first word */
    double entropy, line_tokens;
};

/* ---- the automaton --------------------------------------------------------------------------
 *
 *   start      opener                      -> comma(t)
 *   comma      ,                           -> subject(t)
 *   subject    the | a every | some many   -> agent(t, open | one | more)
 *   agent      trait 0.35 -> agent2 | noun -> verb-or-phrase(t, n)     n: one or more
 *   agent2     noun                        -> verb-or-phrase(t, n)
 *   phrase?    near from 0.25 -> the -> place -> verb(t, n)
 *              often never 0.15 -> verb(t, n) | a verb of kind k -> object(t, n, k)
 *   verb       a verb of kind k            -> object(t, n, k)
 *   object     the | a | two               -> thing(t, n, k, open | one | more)
 *   thing      look 0.3 -> thing2 | noun   -> after(t, n)
 *   after      and 0.2 -> verb(t, n) | by under 0.3 -> the -> place -> stop(t) | . 0.5 -> end(t)
 *   stop       .                           -> end(t)
 *   end        <eos> 0.65 -> start | then 0.35 -> subject(t)
 *
 * Words of a list have probabilities in proportion to 1 / (rank + 1), rank from 0.              */

enum { ONE, MORE, OPEN };

/* State numbers. Number 0 is the start; the rest are topic * PER_TOPIC + position. */
enum {
    COMMA,
    SUBJECT,
    AGENT,               /* + number: 3 */
    AGENT2 = AGENT + 3,  /* + number: 3 */
    PHRASE = AGENT2 + 3, /* + n: 2 */
    PHRASE_THE = PHRASE + 2,
    PHRASE_PLACE = PHRASE_THE + 2,
    VERB = PHRASE_PLACE + 2,
    OBJECT = VERB + 2,  /* + 2 n + k: 4 */
    THING = OBJECT + 4, /* + 3 (2 n + k) + number: 12 */
    THING2 = THING + 12,
    AFTER = THING2 + 12, /* + n */
    PLACE_THE = AFTER + 2,
    PLACE,
    STOP,
    END,
    PER_TOPIC
};

static uint32_t at(unsigned topic, unsigned position)
{
    return 1 + topic * PER_TOPIC + position;
}

static uint32_t intern(synth *s, const char *text, size_t n)
{
    for (uint32_t i = 0; i < s->words; i++)
        if (strlen(s->word[i]) == n && memcmp(s->word[i], text, n) == 0)
            return i;
    assert(s->words < WORDS_MAX && n < WORD_BYTES);
    memcpy(s->word[s->words], text, n);
    return s->words++;
}

/* The i-th word of a list separated by spaces; false past its end. */
static bool pick(synth *s, const char *list, unsigned i, uint32_t *word)
{
    for (; i > 0; i--) {
        list = strchr(list, ' ');
        if (!list++)
            return false;
    }
    *word = intern(s, list, strcspn(list, " "));
    return true;
}

static void arc(synth *s, const char *word, double p, uint32_t next)
{
    assert(s->arcs < ARCS_MAX);
    s->arc[s->arcs++] = (synth_arc){ intern(s, word, strlen(word)), next, p };
}

/* Words number `from`, from + step, ... of the list share p in proportion to 1 / (rank + 1). */
static void arcs_of(synth *s, const char *list, unsigned from, unsigned step, double p,
                    uint32_t next)
{
    double sum = 0;
    uint32_t word;
    for (unsigned i = 0; pick(s, list, from + i * step, &word); i++)
        sum += 1.0 / (i + 1);
    for (unsigned i = 0; pick(s, list, from + i * step, &word); i++) {
        assert(s->arcs < ARCS_MAX);
        s->arc[s->arcs++] = (synth_arc){ word, next, p / sum / (i + 1) };
    }
}

/* Nouns in the given number; OPEN is either, and the noun tells. */
static void nouns(synth *s, const char *list, unsigned number, double p, uint32_t one,
                  uint32_t more)
{
    if (number != MORE)
        arcs_of(s, list, 0, 2, number == OPEN ? 0.6 * p : p, one);
    if (number != ONE)
        arcs_of(s, list, 1, 2, number == OPEN ? 0.4 * p : p, more);
}

static void verbs(synth *s, unsigned t, unsigned n, double p)
{
    for (unsigned k = 0; k < 2; k++)
        arcs_of(s, topics[t].verb[k], n, 2, 0.5 * p, at(t, OBJECT + 2 * n + k));
}

static void state(synth *s, unsigned t, unsigned position)
{
    const topic_words *w = &topics[t];
    if (position == COMMA) {
        arc(s, ",", 1, at(t, SUBJECT));
    } else if (position == SUBJECT) {
        arc(s, "the", 0.4, at(t, AGENT + OPEN));
        arc(s, "a", 0.2, at(t, AGENT + ONE));
        arc(s, "every", 0.1, at(t, AGENT + ONE));
        arc(s, "some", 0.2, at(t, AGENT + MORE));
        arc(s, "many", 0.1, at(t, AGENT + MORE));
    } else if (position < AGENT2) {
        unsigned number = position - AGENT;
        arcs_of(s, w->trait, 0, 1, 0.35, at(t, AGENT2 + number));
        nouns(s, w->agent, number, 0.65, at(t, PHRASE + ONE), at(t, PHRASE + MORE));
    } else if (position < PHRASE) {
        nouns(s, w->agent, position - AGENT2, 1, at(t, PHRASE + ONE), at(t, PHRASE + MORE));
    } else if (position < PHRASE_THE) {
        unsigned n = position - PHRASE;
        arc(s, "near", 0.15, at(t, PHRASE_THE + n));
        arc(s, "from", 0.1, at(t, PHRASE_THE + n));
        arc(s, "often", 0.1, at(t, VERB + n));
        arc(s, "never", 0.05, at(t, VERB + n));
        verbs(s, t, n, 0.6);
    } else if (position < PHRASE_PLACE) {
        arc(s, "the", 1, at(t, PHRASE_PLACE + position - PHRASE_THE));
    } else if (position < VERB) {
        arcs_of(s, w->place, 0, 1, 1, at(t, VERB + position - PHRASE_PLACE));
    } else if (position < OBJECT) {
        verbs(s, t, position - VERB, 1);
    } else if (position < THING) {
        unsigned nk = position - OBJECT;
        arc(s, "the", 0.4, at(t, THING + 3 * nk + OPEN));
        arc(s, "a", 0.4, at(t, THING + 3 * nk + ONE));
        arc(s, "two", 0.2, at(t, THING + 3 * nk + MORE));
    } else if (position < AFTER) {
        bool plain = position >= THING2; /* a look has been given */
        unsigned i = position - (plain ? THING2 : THING), nk = i / 3;
        uint32_t next = at(t, AFTER + nk / 2);
        if (!plain)
            arcs_of(s, w->look, 0, 1, 0.3, at(t, THING2 + i));
        nouns(s, w->object[nk % 2], i % 3, plain ? 1 : 0.7, next, next);
    } else if (position < PLACE_THE) {
        arc(s, "and", 0.2, at(t, VERB + position - AFTER));
        arc(s, "by", 0.2, at(t, PLACE_THE));
        arc(s, "under", 0.1, at(t, PLACE_THE));
        arc(s, ".", 0.5, at(t, END));
    } else if (position == PLACE_THE) {
        arc(s, "the", 1, at(t, PLACE));
    } else if (position == PLACE) {
        arcs_of(s, w->place, 0, 1, 1, at(t, STOP));
    } else if (position == STOP) {
        arc(s, ".", 1, at(t, END));
    } else {
        arc(s, "<eos>", 0.65, 0);
        arc(s, "then", 0.35, at(t, SUBJECT));
    }
}

static void build(synth *s)
{
    intern(s, "<eos>", 5); /* word 0 */
    for (unsigned t = 0; t < SYNTH_TOPICS; t++) {
        uint32_t before = s->arcs;
        arcs_of(s, topics[t].opener, 0, 1, 1, at(t, COMMA));
        for (uint32_t i = before; i < s->arcs; i++) {
            s->topic_of[i] = (uint8_t)t;
            s->given[i] = s->arc[i].p;
        }
    }
    s->first[++s->states] = s->arcs;
    for (unsigned t = 0; t < SYNTH_TOPICS; t++)
        for (unsigned i = 0; i < PER_TOPIC; i++) {
            state(s, t, i);
            assert(s->states < STATES_MAX);
            s->first[++s->states] = s->arcs;
        }
}

/* ---- entropy ------------------------------------------------------------------------------- */

static double state_entropy(const synth *s, uint32_t k)
{
    double h = 0;
    for (uint32_t i = s->first[k]; i < s->first[k + 1]; i++)
        h -= s->arc[i].p > 0 ? s->arc[i].p * log(s->arc[i].p) : 0;
    return h;
}

/* A topic's line after its first word: the mass of one line pushed through the automaton, step by
 * step, until less than 1e-18 of it has not reached <eos>. Every loop keeps at most 0.35. */
static void solve_topic(synth *s, unsigned t)
{
    double mass[2][STATES_MAX] = { { 0 } }, visits = 0, nats = 0, left = 1;
    mass[0][at(t, COMMA)] = 1;
    for (int step = 0; left > 1e-18; step++) {
        const double *from = mass[step & 1];
        double *to = mass[~step & 1];
        memset(to, 0, sizeof mass[0]);
        left = 0;
        for (uint32_t k = 0; k < s->states; k++) {
            if (from[k] == 0) /* exact: not reached */
                continue;
            visits += from[k];
            nats += from[k] * state_entropy(s, k);
            for (uint32_t i = s->first[k]; i < s->first[k + 1]; i++)
                if (s->arc[i].next != 0) {
                    to[s->arc[i].next] += from[k] * s->arc[i].p;
                    left += from[k] * s->arc[i].p;
                }
        }
    }
    s->nats[t] = nats;
    s->visits[t] = visits;
}

sefl_status synth_mix(synth *s, const double shares[SYNTH_TOPICS])
{
    double sum = 0, nats, visits = 1;
    for (int t = 0; t < SYNTH_TOPICS; t++) {
        SEFL_NEED(shares[t] >= 0, SEFL_EINVAL,
                  "topic %s has a share of %g: it must not be negative", synth_topic_names[t],
                  shares[t]);
        sum += shares[t];
    }
    SEFL_NEED(fabs(sum - 1) < 1e-9, SEFL_EINVAL, "the shares of the topics add up to %g, not to 1",
              sum);
    for (uint32_t i = 0; i < s->first[1]; i++)
        s->arc[i].p = shares[s->topic_of[i]] * s->given[i];
    nats = state_entropy(s, 0);
    for (int t = 0; t < SYNTH_TOPICS; t++) {
        nats += shares[t] * s->nats[t];
        visits += shares[t] * s->visits[t];
    }
    s->entropy = nats / visits;
    s->line_tokens = visits;
    return SEFL_OK;
}

sefl_status synth_new(synth **out)
{
    double shares[SYNTH_TOPICS];
    SEFL_PASS(sefl_new(out, 1, sizeof **out));
    build(*out);
    for (unsigned t = 0; t < SYNTH_TOPICS; t++) {
        solve_topic(*out, t);
        shares[t] = 1.0 / SYNTH_TOPICS;
    }
    return synth_mix(*out, shares);
}

void synth_free(synth *s)
{
    sefl_free(s);
}

double synth_entropy(const synth *s)
{
    return s->entropy;
}

double synth_line_tokens(const synth *s)
{
    return s->line_tokens;
}

uint32_t synth_words(const synth *s)
{
    return s->words;
}

const char *synth_word(const synth *s, uint32_t word)
{
    return s->word[word];
}

uint32_t synth_states(const synth *s)
{
    return s->states;
}

const synth_arc *synth_arcs(const synth *s, uint32_t k, uint32_t *count)
{
    *count = s->first[k + 1] - s->first[k];
    return s->arc + s->first[k];
}

/* ---- text ---------------------------------------------------------------------------------- */

/* The arc that u in [0, 1) falls on; shares replace those of synth_mix in the start state. */
static const synth_arc *choose(const synth *s, uint32_t k, const double *shares, double u)
{
    const synth_arc *found = NULL; /* the last one possible, should rounding pass the end */
    for (uint32_t i = s->first[k]; i < s->first[k + 1]; i++) {
        double p = k == 0 && shares ? shares[s->topic_of[i]] * s->given[i] : s->arc[i].p;
        if (p <= 0)
            continue;
        found = &s->arc[i];
        if (u < p)
            break;
        u -= p;
    }
    assert(found);
    return found;
}

sefl_status synth_line(const synth *s, const double *shares, sefl_buf *out, uint64_t *tokens,
                       seeded *gen)
{
    const synth_arc *a = choose(s, 0, shares, seeded_unit(gen));
    for (bool first = true; ++*tokens, a->next != 0; first = false) {
        const char *w = s->word[a->word];
        if (!first)
            SEFL_PASS(wr_u8(out, ' '));
        SEFL_PASS(wr_raw(out, w, strlen(w)));
        a = choose(s, a->next, shares, seeded_unit(gen));
    }
    return wr_u8(out, '\n');
}

/* Follows one word; false if the state has no such arc. */
static bool follow(const synth *s, uint32_t *k, sefl_span word, double *nats)
{
    for (uint32_t i = s->first[*k]; i < s->first[*k + 1]; i++) {
        const char *w = s->word[s->arc[i].word];
        if (s->arc[i].p > 0 && strlen(w) == word.n && memcmp(w, word.p, word.n) == 0) {
            *nats -= log(s->arc[i].p);
            *k = s->arc[i].next;
            return true;
        }
    }
    return false;
}

sefl_status synth_score(const synth *s, sefl_span line, double *nats, uint64_t *tokens)
{
    sefl_span word;
    uint32_t k = 0;
    double sum = 0;
    uint64_t n = 0;
    while (utf8_word(&line, &word)) {
        n++;
        SEFL_NEED(follow(s, &k, word, &sum) && k != 0, SEFL_EPROTO,
                  "the source cannot produce word %llu here", (unsigned long long)n);
    }
    SEFL_NEED(follow(s, &k, span_of_str("<eos>"), &sum), SEFL_EPROTO,
              "the source cannot end the line here");
    *nats += sum;
    *tokens += n + 1;
    return SEFL_OK;
}
