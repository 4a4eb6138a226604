/* A task in plain words, for people who are responsible for the data. Every sentence is either true
 * of all tasks (docs/THREATS.md has the same table) or chosen by a member of this one. Epsilons are
 * rounded up. */
#include "base/hex.h"
#include "crypto/ahe/ahe.h"
#include "crypto/ahe/paillier.h"
#include "privacy/combinations.h"
#include "protocol/modes/mode.h"
#include "protocol/task_budget.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct story {
    const task *t;
    uint64_t rounds;    /* that the target allows, at most the task's */
    dp_claim server[2]; /* zero-out, replacement: against an observer who sees who takes part */
    dp_claim others[2];
} story;

/* A decimal with three places, never below v. */
static double up(double v)
{
    double r = ceil(v * 1000) / 1000;
    return r < v ? r + 0.001 : r;
}

static sefl_status epsilon_of(dp_claim *out, const task *t, uint64_t rounds, bool server,
                              dp_neighbours n)
{
    dp_event ev = server ? task_event_server(t, rounds) : task_event(t, rounds);
    return dp_epsilon(out, &ev, 1, &(dp_question){ .delta = t->delta, .neighbours = n });
}

static sefl_status count_rounds(story *s)
{
    SEFL_PASS(task_budget_rounds(&s->rounds, s->t));
    for (int i = 0; i < 2; i++) {
        dp_neighbours n = i ? DP_REPLACE : DP_ZERO_OUT;
        SEFL_PASS(epsilon_of(&s->server[i], s->t, s->rounds, true, n));
        SEFL_PASS(epsilon_of(&s->others[i], s->t, s->rounds, false, n));
        if (s->server[i].epsilon < s->others[i].epsilon) /* others see no more than a server */
            s->others[i] = s->server[i];
    }
    return SEFL_OK;
}

static sefl_status hex_line(sefl_buf *out, const char *what, const uint8_t hash[32])
{
    SEFL_PASS(wr_fmt(out, "  %-22s", what));
    SEFL_PASS(wr_hex(out, hash, 32));
    return wr_fmt(out, "\n");
}

/* ---- sections -------------------------------------------------------------------------------- */

/* What is trained, and by whom. */
static sefl_status what_is_trained(sefl_buf *out, const task *t)
{
    const layout *l = &t->layout;
    size_t tensors = 0;
    for (size_t i = 0; i < l->n; i++)
        tensors += l->tensor[i].trainable;
    SEFL_PASS(wr_fmt(out, "TASK \"%s\" for the population \"%s\"\n\nWhat happens\n", t->name,
                     t->population));
    if (t->external)
        SEFL_PASS(
            wr_fmt(out,
                   "  A model of %zu tensor%s (%zu values) is trained in up to %llu rounds. The "
                   "data stays with its owners.\n"
                   "  The task does not say what the model is: each client's own program "
                   "trains it, on data that\n"
                   "  its owner chooses.\n",
                   l->n, l->n == 1 ? "" : "s", t->params, (unsigned long long)t->rounds));
    else
        SEFL_PASS(wr_fmt(out,
                         "  A language model (%s, %zu values) is trained in up to %llu rounds. The "
                         "text stays with its owners.\n",
                         t->model.body, t->params, (unsigned long long)t->rounds));
    if (l->trained < l->count)
        SEFL_PASS(wr_fmt(
            out,
            "  Only these tensors are trained (%zu of %zu, %zu values); the others stay as in "
            "the initial model:\n"
            "    %s\n",
            tensors, l->n, l->trained, t->only));
    return SEFL_OK;
}

static sefl_status what_is_not_sent(sefl_buf *out, const task *t)
{
    const bool capped = t->weights == TASK_CAPPED;
    const char *items = t->external ? "number of examples" : "word count";
    if (capped)
        SEFL_PASS(wr_fmt(out,
                         "  The encrypted update contains the client's %s, counted up to %llu. AS "
                         "learns only the\n  total of all clients%s.\n",
                         items, (unsigned long long)t->weight_cap,
                         task_mode(t)->noisy ? ", with noise" : ""));
    if (t->clip_quantile > 0)
        SEFL_PASS(wr_fmt(
            out, "  The encrypted update contains one bit: whether its norm was within the clip. "
                 "AS learns only the\n  total of all clients, with noise, and chooses the "
                 "clip of the next round from it.\n"));
    return wr_fmt(out, "  A client sends no loss, %s%s%s or gradient norm%s.\n\n",
                  capped ? "" : items, capped ? "" : ", ", t->external ? "accuracy" : "vocabulary",
                  t->external ? "" : " of its text");
}

static sefl_status what_happens(sefl_buf *out, const task *t)
{
    SEFL_PASS(what_is_trained(out, t));
    SEFL_PASS(wr_fmt(
        out,
        "  In each round a client trains on its own %s, encrypts the change of the model and "
        "sends only\n"
        "  this update to the aggregation server (AS). %s\n"
        "  AS adds the encrypted updates of at least %u and at most %u clients; it has no key to "
        "decrypt them.\n"
        "  CSP, which has the key, receives only the sum, hidden by a mask that AS drew.\n",
        t->external ? "data" : "text",
        task_is_sealed(t) ? "The client seals the key to the\n"
                            "  cryptography service provider (CSP) and signs it."
                          : "The public key belongs to the\n  cryptography service provider (CSP).",
        t->threshold, t->clients_max));
    if (task_is_sealed(t))
        SEFL_PASS(wr_fmt(out,
                         "  CSP decrypts a sum only if at least %u clients that its operator "
                         "approved have signed their keys.\n",
                         t->threshold));
    SEFL_PASS(wr_fmt(out, "  %s\n", task_mode(t)->happens));
    SEFL_PASS(task_explain_deadline(out, t));
    SEFL_PASS(wr_fmt(
        out, "%s",
        t->external ? "  The initial model is a public file, listed below with its hash.\n"
                    : "  The vocabulary, the initial model and the text on which AS validates each "
                      "model are public files,\n"
                      "  listed below with their hashes.\n"));
    SEFL_PASS(what_is_not_sent(out, t));
    SEFL_PASS(hex_line(out, "this task", t->id));
    if (!t->external)
        SEFL_PASS(
            hex_line(out, t->kind == VOCAB_BPE ? "BPE vocabulary" : "word list", t->vocab_hash));
    SEFL_PASS(hex_line(out, "initial model", t->init_hash));
    if (t->has_valid)
        SEFL_PASS(hex_line(out, "validation text", t->valid_hash));
    if (t->pub) {
        uint8_t key[PAILLIER_FINGERPRINT_BYTES];
        paillier_pub_fingerprint(t->pub, key);
        SEFL_PASS(hex_line(out, "key of CSP", key));
    }
    SEFL_PASS(hex_line(out, "AS signs with", t->servers.as));
    return hex_line(out, "CSP signs with", t->servers.csp);
}

typedef struct lasting {
    char text[32];
} lasting;

static lasting lasts(uint64_t ms)
{
    lasting l;
    const double s = (double)ms / 1000;
    if (s < 120)
        snprintf(l.text, sizeof l.text, "%.4g s", s);
    else if (s < 7200)
        snprintf(l.text, sizeof l.text, "%.4g min", s / 60);
    else
        snprintf(l.text, sizeof l.text, "%.4g h", s / 3600);
    return l;
}

sefl_status task_explain_deadline(sefl_buf *out, const task *t)
{
    const lasting deadline = lasts(t->deadline_ms);
    if (t->enough == 0)
        SEFL_PASS(wr_fmt(out, "  Every round closes at its deadline, after %s.\n", deadline.text));
    else if (t->enough < t->enrolled)
        SEFL_PASS(wr_fmt(out,
                         "  A round closes as soon as it has %u updates, or at its deadline, after "
                         "%s.\n",
                         t->enough, deadline.text));
    else
        SEFL_PASS(wr_fmt(
            out,
            "  A round closes as soon as all sites%s have sent their updates, or at its deadline, "
            "after %s.\n"
            "  So a site that is missing costs %s in each of two rounds. After that no round waits "
            "for it until it\n"
            "  asks for news again. If it asks and sends no update, it costs %s again after 4, "
            "8, 16 ... such rounds.\n"
            "  A round never waits for a site that AS's operator has revoked. If AS is several "
            "processes, every round\n"
            "  waits for all sites.\n",
            t->separation > 1 ? " whose turn it is" : "", deadline.text, deadline.text,
            deadline.text));
    if (t->extensions > 0)
        SEFL_PASS(wr_fmt(
            out,
            "  A round with fewer than %u updates at its deadline goes on for up to %s more%s, "
            "and\n  closes%s; without them it is skipped.\n",
            t->threshold, lasts(t->extensions * t->extend_ms).text,
            t->extensions > 1 ? " in all" : "",
            t->amplified ? " then" : " as soon as it has them"));
    else
        SEFL_PASS(wr_fmt(out, "  A round with fewer than %u updates at its deadline is skipped.\n",
                         t->threshold));
    return wr_fmt(out, "  Ten skipped rounds in a row end the task.\n");
}

sefl_status task_explain_mode(sefl_buf *out, const task *t)
{
    const task_choice c = task_compare_modes(t);
    const double own = c.ratio[TASK_NOISE_OWN], joint = c.ratio[TASK_NOISE_JOINT];
    char text[RELEASE_MODE_TEXT];
    release_mode_text(text, task_mode(t), task_is_sealed(t));
    SEFL_PASS(wr_fmt(out, "  Mode %s.\n", text));
    if (!task_mode(t)->noisy || !task_is_sealed(t))
        return SEFL_OK;
    return wr_fmt(
        out, "  Noise over signal%s: %.3g under own, %.3g under joint. SEFL proposes %s%s.\n",
        t->records_max > 1 ? " (if each site has records_max records)" : "", own, joint,
        release_modes[c.proposed]->name,
        c.proposed == TASK_NOISE_OWN
            ? joint > TASK_RATIO_DROWNS ? ": under joint too, noise drowns the updates" : ""
        : own > TASK_RATIO_DROWNS ? ": under own, noise drowns the updates"
                                  : ": under own, learning is slow");
}

static sefl_status cheating_as(sefl_buf *out, const task *t)
{
    if (!task_is_sealed(t))
        return wr_fmt(
            out,
            "  an AS that cheats  MAY LEARN ONE CLIENT'S UPDATE, undetected: with %s, every claim "
            "on this\n"
            "                     page requires an AS that follows the protocol\n",
            t->ahe.scheme->name);
    if (!task_mode(t)->noisy)
        return wr_fmt(out,
                      "  an AS that cheats  learns the exact sum of %u or more clients of its "
                      "choice, including its own\n",
                      t->threshold);
    return wr_fmt(
        out, "  an AS that cheats  may spoil the result; %s, as long as CSP follows the protocol\n",
        t->claim ? "the guarantee against a server, below, holds against it too"
                 : "learns no exact sum");
}

static sefl_status cheating_csp(sefl_buf *out, const task *t)
{
    if (!task_is_sealed(t))
        return wr_fmt(out, "  a CSP that cheats  is not covered either: every claim requires a CSP "
                           "that follows the protocol\n");
    if (!task_mode(t)->noisy)
        return wr_fmt(out, "  a CSP that cheats  may spoil the result or drop clients\n");
    if (task_mode(t)->shares)
        return wr_fmt(out,
                      "  a CSP that cheats  MAY LEAVE OUT THE NOISE: AS and those who see the "
                      "models then learn more\n"
                      "                     than %s. AS audits some of its noise\n",
                      t->claim ? "the guarantee allows" : "they should");
    return wr_fmt(out,
                  "  a CSP that cheats  may spoil the result or drop clients; %s, as long as AS "
                  "follows the protocol\n",
                  t->claim ? "the guarantee holds against it too" : "learns no exact sum");
}

static sefl_status who_learns_what(sefl_buf *out, const task *t)
{
    const release_mode *mode = task_mode(t);
    const char *limit = !mode->noisy ? "this may reveal what one client has: see below"
                        : !t->claim  ? "what this reveals about one client is not bounded"
                        : t->unit == TASK_UNIT_RECORD
                            ? "this reveals about one record at most what the guarantee allows"
                            : "this reveals about one client at most what the guarantee allows";
    SEFL_PASS(wr_fmt(out,
                     "\nWho can learn what\n"
                     "  another client     the model after each round; %s\n"
                     "                     never: another client's update\n",
                     limit));
    SEFL_PASS(
        wr_fmt(out,
               "  AS                 who takes part, when, and the %s average of each round;\n"
               "                     %s\n"
               "                     never: one client's update%s\n",
               mode->noisy ? "noisy" : "exact", limit, mode->as_never));
    SEFL_PASS(wr_fmt(out,
                     "  CSP                %s; the model, if it owns a client\n"
                     "                     never: one client's update, the sum%s\n",
                     task_is_sealed(t) ? "who takes part in each round"
                                       : "the number of clients that AS states",
                     mode->csp_never));
    SEFL_PASS(wr_fmt(
        out, "  an eavesdropper    who takes part, and the sizes (equal for all clients) and times "
             "of messages\n"
             "  AS and CSP together, or one with the other's disk, backup or TLS key\n"
             "                     EVERY UPDATE. The protection requires that the two servers do "
             "not collude\n"
             "  a hostile client   may spoil the result; learns no key and no other update\n"));
    SEFL_PASS(cheating_as(out, t));
    SEFL_PASS(cheating_csp(out, t));
    if (!mode->noisy)
        SEFL_PASS(wr_fmt(out,
                         "\n"
                         "  NO NOISE: AS and every client learn the exact average. In a sum of %u "
                         "clients, a party that knows\n"
                         "  all updates but one can compute the last one.\n",
                         t->threshold));
    return SEFL_OK;
}

/* Writes e^epsilon, rounded up: "2981", "102 million", "10^78". */
static void factor_write(char out[32], double epsilon)
{
    static const char *const names[] = { " million", " billion", " trillion" };
    double v = exp(epsilon);
    int i = -1;
    if (epsilon > log(1e15)) {
        snprintf(out, 32, "10^%.0f", ceil(epsilon / log(10)));
        return;
    }
    for (; i < 2 && v >= (i < 0 ? 1e6 : 1e3); i++)
        v /= i < 0 ? 1e6 : 1e3;
    v = dp_four_digits(v, true);
    snprintf(out, 32, "%.*f%s",
             v >= 1000  ? 0
             : v >= 100 ? 1
             : v >= 10  ? 2
                        : 3,
             v, i < 0 ? "" : names[i]);
}

static sefl_status one_claim(sefl_buf *out, const char *who, const dp_claim c[2])
{
    char factor[32];
    if (!c[0].claimed)
        return wr_fmt(out, "    %-44s no differential privacy claimed\n", who);
    factor_write(factor, c[0].epsilon);
    SEFL_PASS(wr_fmt(out, "    %-44s %.3f (a factor of %s);\n", who, up(c[0].epsilon), factor));
    if (!c[1].claimed)
        return wr_fmt(out, "    %44s no claim if other data replaced it\n", "");
    factor_write(factor, c[1].epsilon);
    return wr_fmt(out, "    %44s %.3f (a factor of %s) if other data replaced it\n", "",
                  up(c[1].epsilon), factor);
}

/* k units add up to k times the sensitivity: the noise is z / k. */
static sefl_status several(sefl_buf *out, const story *s)
{
    static const unsigned counts[] = { 2, 5, 10 };
    const task *t = s->t;
    const bool record = t->unit == TASK_UNIT_RECORD;
    SEFL_PASS(wr_fmt(out, "  A person %s is protected less. Against a server, epsilon is",
                     record ? "with several records" : "whose data several clients have"));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        dp_claim c = { 0 };
        dp_event ev = task_event_server(t, s->rounds);
        ev.z /= counts[i];
        if (ev.z >= dp_law_of(ev.noise)->z_min)
            SEFL_PASS(dp_epsilon(&c, &ev, 1, &(dp_question){ .delta = t->delta }));
        SEFL_PASS(wr_fmt(out, "%s ", i ? "," : ""));
        SEFL_PASS(c.claimed ? wr_fmt(out, "%.4g", dp_four_digits(c.epsilon, true))
                            : wr_fmt(out, "no claim"));
        SEFL_PASS(wr_fmt(out, " for %u", counts[i]));
    }
    return wr_fmt(out, "%s.\n",
                  record ? "\n  of them. Make one record per person, as one JSONL object" : "");
}

static sefl_status no_guarantee(sefl_buf *out, const task *t)
{
    return wr_fmt(
        out,
        "  NONE: no differential privacy claimed. Both servers sign this statement with "
        "the task.\n"
        "%s  After such a task, no epsilon can be stated for this population any more.\n",
        task_mode(t)->noisy
            ? "  The sum carries noise, but nothing is claimed about what the noise hides.\n"
            : "");
}

static sefl_status record_claim(sefl_buf *out, const task *t)
{
    SEFL_PASS(wr_fmt(out,
                     "  Each round uses at most %u records of a client, and everybody can compute "
                     "which: they take turns.\n"
                     "  Of a record longer than %u words it uses the first %u.\n",
                     t->records_max, t->record_words, t->record_words));
    if (!task_limits_records(t))
        return wr_fmt(out, "  Every record is charged as if each round used it.\n");
    return wr_fmt(
        out,
        "  A record is used in at most %llu of the %llu rounds, and is charged for these turns "
        "alone. A client keeps the\n"
        "  list of its records beside its ledger: if one of them is missing from its text, it "
        "takes no part.\n",
        (unsigned long long)t->record_turns, (unsigned long long)t->rounds);
}

static sefl_status sampling_claim(sefl_buf *out, const task *t)
{
    if (t->unit == TASK_UNIT_RECORD)
        return record_claim(out, t);
    if (t->sampling == TASK_ALL)
        return wr_fmt(out, "  %so no amplification by sampling is claimed.\n",
                      t->separation > 1 || t->max_rounds_per_client > 0
                          ? "No round draws its clients by chance, s"
                          : "Every client may take part in every round, s");
    if (t->amplified)
        return wr_fmt(out,
                      "  Each client takes part with probability %g, drawn on its own. AS sees who "
                      "takes part, so the smaller\n"
                      "  number holds only against others, and only while both servers are honest: "
                      "one that cheats may tell\n"
                      "  who takes part. The number of participants is not published.\n",
                      t->rate);
    return wr_fmt(out,
                  "  Each client takes part with probability %g, but a round closes after %u "
                  "uploads, so no amplification\n"
                  "  by sampling is claimed.\n",
                  t->rate, t->enough);
}

/* What the ledgers charge for correlated noise, and why. */
static sefl_status filter_claim(sefl_buf *out, const story *s)
{
    const task *t = s->t;
    const double all = task_filter_s(t, s->rounds);
    if (t->filter.b == 0)
        return SEFL_OK;
    SEFL_PASS(wr_fmt(out, "  The noise is correlated: each round takes back"));
    for (unsigned j = 0; j < t->filter.b; j++)
        SEFL_PASS(
            wr_fmt(out, "%s %.1f %%", j ? "," : "", t->filter.gamma[j] * 100.0 / DP_FILTER_ONE));
    return wr_fmt(
        out,
        " of the noise of the round%s before it,\n"
        "  although no server knows all of it. So an update shows in its own round and, weaker, "
        "in "
        "all later\n"
        "  ones. The ledgers therefore charge all rounds as one release: %llu rounds count as one "
        "with noise\n"
        "  multiplier %s / %.4g = %.4g. A client's own ledger charges each update up to the last "
        "round (%llu),\n"
        "  because the client cannot stop the rounds after its upload.\n",
        t->filter.b > 1 ? "s" : "", (unsigned long long)s->rounds, t->z, dp_four_digits(all, true),
        dp_four_digits(t->grid.z / all, false), (unsigned long long)t->rounds);
}

static sefl_status guarantee(sefl_buf *out, const story *s)
{
    const task *t = s->t;
    char factor[32];
    SEFL_PASS(wr_fmt(out, "\nThe guarantee\n"));
    if (!t->claim)
        return no_guarantee(out, t);
    factor_write(factor, t->epsilon);
    SEFL_PASS(wr_fmt(
        out,
        "  Differential privacy with epsilon at most %g at delta %g, for %s:\n"
        "  if that data were replaced by zeros, the probability of any conclusion from the models "
        "would change\n"
        "  by at most a factor of e^epsilon = %s, plus delta. The ledgers of both servers and of "
        "each client stop\n"
        "  the task at this target, which is for zeros; a new task adds to what the ledger has "
        "already recorded.\n",
        t->epsilon, t->delta,
        t->unit == TASK_UNIT_RECORD ? "one record of a client"
        : t->external               ? "all data of one client"
                                    : "all text of one client",
        factor));
    SEFL_PASS(
        wr_fmt(out,
               "  The target allows %llu of the %llu rounds%s. After these rounds, epsilon for "
               "zeros is\n",
               (unsigned long long)s->rounds, (unsigned long long)t->rounds,
               s->rounds < t->rounds ? ": the task will end there" : ""));
    SEFL_PASS(one_claim(out, "against a server or observer of participants", s->server));
    SEFL_PASS(one_claim(out, "against everybody else", s->others));
    SEFL_PASS(several(out, s));
    if (t->max_rounds_per_client > 0)
        SEFL_PASS(wr_fmt(
            out,
            "  No client takes part in more than %llu rounds; AS and the client enforce that.\n",
            (unsigned long long)t->max_rounds_per_client));
    if (t->separation > 1)
        SEFL_PASS(wr_fmt(out,
                         "  Clients take turns: after an upload, a client waits until %llu rounds "
                         "later. The client, AS and CSP\n"
                         "  enforce that.\n",
                         (unsigned long long)t->separation));
    SEFL_PASS(t->filter.b > 0 ? filter_claim(out, s) : sampling_claim(out, t));
    SEFL_PASS(wr_fmt(out, "  docs/PRIVACY.md contains the proof (sections "));
    SEFL_PASS(combination_sections(out, task_features(t)));
    return wr_fmt(out, "); docs/THREATS.md lists what it does not cover.\n");
}

/* Compares the norm of the noise with the largest possible norm of the sum. */
static sefl_status usefulness(sefl_buf *out, const task *t)
{
    SEFL_PASS(wr_fmt(out, "\nWhat it costs (honest: follows the protocol)\n"));
    SEFL_PASS(task_explain_mode(out, t));
    if (!task_mode(t)->noisy)
        return SEFL_OK;
    const double cohort = task_cohort(t), need = task_noise_clients(t), ratio = need / cohort;
    return wr_fmt(out,
                  "  noise over signal %.3g: the noise is %s than the largest possible sum of %.4g "
                  "clients%s\n"
                  "  (%s x sqrt(values) / clients, for any clip).\n"
                  "  For noise no larger than that sum, a round needs %.0f clients%s\n",
                  ratio, ratio > 1 ? "LARGER" : "smaller", cohort,
                  t->records_max > 1 ? ",\n  if each has privacy.records_max records" : "",
                  t->filter.b > 0 ? "z of independent noise that leaves as much in the last model"
                                  : "z",
                  ceil(need), ratio > 1 ? ": expect little learning." : ".");
}

sefl_status task_explain(sefl_buf *out, const task *t)
{
    sefl_status st = SEFL_OK;
    story s = { .t = t };
    size_t before = out->n;
    char warning[TASK_TURNS_TEXT];
    if (t->claim)
        SEFL_TRY(count_rounds(&s));
    SEFL_TRY(what_happens(out, t));
    SEFL_TRY(who_learns_what(out, t));
    SEFL_TRY(guarantee(out, &s));
    SEFL_TRY(usefulness(out, t));
    if (task_turns_warning(warning, t))
        SEFL_TRY(wr_fmt(out, "\nWARNING: %s\n", warning));
    if (!t->claim)
        SEFL_TRY(wr_fmt(out, "\nno differential privacy claimed\n"));
done:
    if (st != SEFL_OK)
        out->n = before;
    return st;
}
