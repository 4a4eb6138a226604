#include "base/hex.h"
#include "cli/options.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "mpc/noise/shares.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLE_VALUES = 2000 };

typedef struct wish {
    const char *file, *csp;
    bool sample, json;
} wish;

static const char *const verdicts[] = {
    [AUDIT_SHOWS_NOTHING] = "nothing", [AUDIT_HONEST] = "honest", [AUDIT_CHEATED] = "cheated"
};

/* ---- a sample session: both servers in this process ------------------------------------------ */

typedef struct sample_side {
    shares_params p;
    shares_result r;
    bool garbles;
} sample_side;

static sefl_status sample_run(void *ctx, channel *ch)
{
    sefl_status st = SEFL_OK;
    sample_side *s = ctx;
    sefl_rng rng = rng_system();
    uint64_t *x = NULL;
    SEFL_TRY(sefl_new(&x, s->p.count, sizeof *x));
    SEFL_TRY((s->garbles ? shares_garble : shares_evaluate)(&s->r, x, ch, &s->p, &rng));
done:
    sefl_free_secret(x, s->p.count * sizeof *x);
    return st;
}

static sefl_status sample(const char *file)
{
    enum { TIMEOUT_MS = 60000, ROOM = 4 << 20 };
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    sign_key *key = NULL;
    sample_side csp = { .garbles = true, .p.count = SAMPLE_VALUES };
    sample_side as = { .p = { .count = SAMPLE_VALUES, .audit = 1 } };
    uint8_t bytes[AUDIT_RECORD];
    SEFL_TRY(sign_key_new(&key, &rng));
    csp.p.sign = as.p.sign = key; /* one key for both */
    csp.p.as = as.p.csp = sign_key_pub(key);
    SEFL_TRY(channel_pair_run((channel_side){ sample_run, &as }, (channel_side){ sample_run, &csp },
                              TIMEOUT_MS, ROOM));
    audit_record_write(bytes, &as.r.record);
    SEFL_TRY(file_write_new(file, span_of(bytes, sizeof bytes), 0600));
done:
    sign_key_free(key);
    return st;
}

/* ---- */

static sefl_status cmd_audit_look(audit_finding *found, const wish *w)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    audit_record r;
    shares_params p = { 0 };
    uint8_t id[AUDIT_ID], pub[SIGN_PUB_BYTES];
    char id_hex[HEX_CHARS(AUDIT_ID)], key_hex[HEX_CHARS(SIGN_PUB_BYTES)];
    SEFL_TRY(file_read(&b, w->file, 1 << 20));
    SEFL_TRY(audit_record_read(&r, buf_span(&b)));
    SEFL_TRY(shares_replay(found, &r));
    if (w->csp) {
        SEFL_TRY(sign_pub_read(pub, w->csp));
        if (memcmp(pub, r.csp, sizeof pub) != 0)
            *found = (audit_finding){ AUDIT_SHOWS_NOTHING,
                                      "the record names another CSP key than --csp" };
    }
    audit_id(id, r.hello[0], r.hello[1]);
    hex_write(id_hex, id, sizeof id);
    hex_write(key_hex, r.csp, sizeof r.csp);
    if (shares_recorded(&p, &r) != SEFL_OK)
        p.count = 0; /* the verdict gives the reason */
    if (w->json) {
        SEFL_TRY(print_fields(lf_str("verdict", verdicts[found->verdict]),
                              lf_str("why", found->why), lf_str("session", id_hex),
                              lf_u64("values", p.count), lf_str("csp_key", key_hex)));
        goto done;
    }
    printf("session     %s\n", id_hex);
    printf("values      %llu\n", (unsigned long long)p.count);
    printf("CSP's key   %s%s\n", key_hex, w->csp ? "" : " (compare it, or pass --csp)");
    printf("verdict     %s: %s\n", verdicts[found->verdict], found->why);
done:
    buf_clear(&b);
    return st;
}

static int cmd_audit_run(void *options)
{
    const wish *w = options;
    audit_finding found = { 0 };
    if (w->sample && (w->csp || w->json))
        return cli_misuse(&cmd_audit, "--sample cannot be combined with --csp or --json");
    sefl_status st = w->sample ? sample(w->file) : cmd_audit_look(&found, w);
    if (st != SEFL_OK)
        cli_failed(&cmd_audit, st);
    return st == SEFL_OK && (w->sample || found.verdict == AUDIT_HONEST) ? CLI_DONE : CLI_FAILED;
}

static const setting_def options[] = {
    { "csp", SETTING_PATH, "",
      .help = "CSP's public signing key; the record must name the same key",
      SETTING_TO(wish, csp) },
    { "sample", SETTING_FLAG,
      .help = "Run a sample session in this process and write its record to FILE",
      SETTING_TO(wish, sample) },
    OPTION_JSON(wish),
    { 0 },
};

const cli_command cmd_audit = {
    .name = "audit",
    .about = "By default, AS audits one noise session in 8 (setting 'audit'): CSP reveals the seed "
             "of the session, and AS keeps a record. This command replays both sides of the "
             "session and prints its verdict:\n"
             "  honest    CSP garbled the noise correctly\n"
             "  cheated   CSP signed a session that its own seed does not produce\n"
             "  nothing   the record proves nothing: the file was changed, or AS recorded a seed\n"
             "            that it did not use\n"
             "It exits with 0 for honest and with 1 otherwise. AS audits 1 session in 8, and "
             "uses no noise while CSP owes it a seed (docs/THREATS.md has the odds). (For the "
             "audit logs of the servers, see 'sefl verify'.)",
    .example = "sefl audit sample.bin --sample\n"
               "  sefl audit sample.bin",
    CLI_OPTIONS(wish),
    CLI_RUN(cmd_audit_run, "FILE", "a record such as audit-0123456789abcdef.bin",
            offsetof(wish, file)),
};
