/* sefl audit: what the record of an audited noise session shows. */
#include "base/hex.h"
#include "cli/cli.h"
#include "cli/print.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "mpc/noise/shares.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { O_CSP = 256, O_SAMPLE, O_JSON, SAMPLE_VALUES = 2000 };

static const struct option longopts[] = {
    { "csp", required_argument, NULL, O_CSP },
    { "sample", no_argument, NULL, O_SAMPLE },
    { "json", no_argument, NULL, O_JSON },
    { 0 },
};

static const char *const verdicts[] = {
    [AUDIT_SHOWS_NOTHING] = "nothing", [AUDIT_HONEST] = "honest", [AUDIT_CHEATED] = "cheated"
};

/* ---- a session to try the command with: both servers in this process ---- */

typedef struct sample_side {
    channel ch;
    shares_params p;
    shares_result r;
    bool garbles;
    sefl_status st;
} sample_side;

static void *sample_run(void *arg)
{
    sample_side *s = arg;
    sefl_rng rng = rng_system();
    uint64_t *x = NULL;
    s->st = sefl_new(&x, s->p.count, sizeof *x);
    if (s->st == SEFL_OK)
        s->st = (s->garbles ? shares_garble : shares_evaluate)(&s->r, x, &s->ch, &s->p, &rng);
    sefl_free_secret(x, x ? s->p.count * sizeof *x : 0);
    channel_pair_close(&s->ch);
    return NULL;
}

static sefl_status sample(const char *file)
{
    sefl_status st = SEFL_OK;
    sefl_rng rng = rng_system();
    sign_key *key = NULL;
    sample_side csp = { .garbles = true, .p.count = SAMPLE_VALUES };
    sample_side as = { .p = { .count = SAMPLE_VALUES, .audit = 1 } };
    uint8_t bytes[AUDIT_RECORD];
    pthread_t thread;
    SEFL_TRY(sign_key_new(&key, &rng));
    csp.p.sign = key, as.p.csp = sign_key_pub(key);
    SEFL_TRY(channel_pair_new(&csp.ch, &as.ch, 60000));
    if (pthread_create(&thread, NULL, sample_run, &csp) != 0) {
        channel_pair_close(&csp.ch);
        channel_pair_close(&as.ch);
        SEFL_CHECK(false, SEFL_EIO, "no second thread");
    }
    sample_run(&as);
    pthread_join(thread, NULL);
    SEFL_TRY(as.st);
    audit_record_write(bytes, &as.r.record);
    SEFL_TRY(file_write_new(file, span_of(bytes, sizeof bytes), 0600));
done:
    sign_key_free(key);
    return st;
}

/* ---- */

static sefl_status look(audit_finding *found, const char *file, const char *csp, bool as_json)
{
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 }, words = { 0 };
    audit_record r;
    shares_params p = { 0 };
    uint8_t id[AUDIT_ID], pub[SIGN_PUB_BYTES];
    char id_hex[2 * AUDIT_ID + 1], key_hex[2 * SIGN_PUB_BYTES + 1];
    SEFL_TRY(file_read(&b, file, 1 << 20));
    SEFL_TRY(audit_record_read(&r, buf_span(&b)));
    SEFL_TRY(shares_replay(found, &r));
    if (csp) {
        SEFL_TRY(sign_pub_read(pub, csp));
        if (memcmp(pub, r.csp, sizeof pub) != 0)
            *found = (audit_finding){ AUDIT_SHOWS_NOTHING, "the record names another CSP's key" };
    }
    audit_id(id, r.hello[0], r.hello[1]);
    hex_write(id_hex, id, sizeof id);
    hex_write(key_hex, r.csp, sizeof r.csp);
    if (shares_recorded(&p, &r) != SEFL_OK)
        p.count = 0; /* the verdict says why */
    if (as_json) {
        json j = json_into(&words);
        json_open(&j, '{');
        json_key(&j, "verdict"), json_str(&j, verdicts[found->verdict]);
        json_key(&j, "why"), json_str(&j, found->why);
        json_key(&j, "session"), json_str(&j, id_hex);
        json_key(&j, "values"), json_u64(&j, p.count);
        json_key(&j, "csp_key"), json_str(&j, key_hex);
        json_close(&j, '}');
        SEFL_TRY(print_json(&j));
        goto done;
    }
    printf("session     %s\n", id_hex);
    printf("values      %llu\n", (unsigned long long)p.count);
    printf("CSP's key   %s%s\n", key_hex, csp ? "" : " (compare it, or give --csp)");
    printf("verdict     %s: %s\n", verdicts[found->verdict], found->why);
done:
    buf_clear(&b);
    buf_clear(&words);
    return st;
}

static int run(int argc, char **argv)
{
    const char *csp = NULL;
    bool as_json = false, make = false;
    audit_finding found = { 0 };
    opterr = 0, optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":", longopts, NULL)) != -1;) {
        if (c == O_CSP)
            csp = optarg;
        else if (c == O_SAMPLE)
            make = true;
        else if (c == O_JSON)
            as_json = true;
        else
            return cli_bad_option(&cmd_audit, argc, argv, c, longopts);
    }
    if (optind == argc)
        return cli_misuse(&cmd_audit,
                          "which record? give a file such as audit-0123456789abcdef.bin");
    if (optind + 1 < argc)
        return cli_misuse(&cmd_audit, "one record, not \"%.64s\" too", argv[optind + 1]);
    if (make && (csp || as_json))
        return cli_misuse(&cmd_audit, "--sample takes no other option");
    sefl_status st = make ? sample(argv[optind]) : look(&found, argv[optind], csp, as_json);
    if (st != SEFL_OK) {
        cli_failed(&cmd_audit, st);
        return CLI_FAILED;
    }
    return make || found.verdict == AUDIT_HONEST ? CLI_DONE : CLI_FAILED;
}

const cli_command cmd_audit = {
    .name = "audit",
    .summary = "replay the record of an audited noise session",
    .usage = "FILE [--csp FILE] [--json] | FILE --sample",
    .details = "The aggregator opens one noise session in 8 (its setting `audit`) and keeps a\n"
               "record of each. This runs both sides of the session again and compares:\n"
               "  honest    CSP garbled the noise as it had to\n"
               "  cheated   CSP signed a session that its own seed does not give\n"
               "  nothing   the file was changed, or AS shows a seed that it did not use\n"
               "Exits 0 for honest, 1 otherwise. A CSP that leaves noise out of a session is\n"
               "caught with odds of 1 in 8; an audit promises no more.\n"
               "  --csp FILE      CSP's public signing key, to compare with the record's\n"
               "  --json          one JSON object\n"
               "  --sample        writes FILE: the record of a session made for this purpose",
    .example = "sefl audit sample.bin --sample\n"
               "  sefl audit sample.bin",
    .run = run,
};
