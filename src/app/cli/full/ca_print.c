#include "cli/full/ca_print.h"
#include "base/hex.h"
#include "cli/print.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void ca_date(char out[32], int64_t when)
{
    time_t t = (time_t)when;
    struct tm tm;
    if (when == 0 || !gmtime_r(&t, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M", &tm) == 0)
        strcpy(out, "-");
}

static const char *state_text(trust_state s)
{
    return s == TRUST_ACTIVE ? "active" : "revoked";
}

static const char *token_text(const trust_token *k, int64_t now)
{
    return k->state == TRUST_USED        ? "used"
           : k->state == TRUST_CANCELLED ? "cancelled"
           : now >= k->expires           ? "expired"
                                         : "open";
}

sefl_status ca_print_json(const trust *t, int64_t now)
{
    sefl_buf b = { 0 };
    json j = json_into(&b);
    json_open(&j, '{');
    json_fields(&j, lf_u64("change", t->change), lf_str("role", trust_role_name(t->self.role)),
                lf_key("signs_as", t->self.sign), lf_key("tls_key", t->self.tls),
                lf_u64("clients", trust_count(t, TRUST_CLIENT)));
    json_key(&j, "issuers"), json_open(&j, '[');
    for (const trust_issuer *s = t->issuer; s < t->issuer + t->issuers; s++)
        json_object(&j, NULL, lf_key("key", s->key), lf_str("role", trust_role_name(s->role)),
                    lf_str("state", state_text(s->state)), lf_str("name", s->name),
                    lf_str("unit", s->unit), lf_bool("listed", s->listed));
    json_close(&j, ']');
    json_key(&j, "members"), json_open(&j, '[');
    for (const trust_member *m = t->member; m < t->member + t->members; m++)
        json_object(&j, NULL, lf_key("key", m->key), lf_str("name", m->name),
                    lf_str("role", trust_role_name(m->role)), lf_str("state", state_text(m->state)),
                    lf_i64("since", m->since), lf_i64("until", m->until));
    json_close(&j, ']');
    json_key(&j, "tokens"), json_open(&j, '[');
    for (const trust_token *k = t->token; k < t->token + t->tokens; k++)
        json_object(&j, NULL, lf_key("id", k->id), lf_str("name", k->name),
                    lf_str("state", token_text(k, now)), lf_i64("expires", k->expires));
    json_close(&j, ']');
    json_close(&j, '}');
    return print_json(&j);
}

/* The columns that all entries have. */
static void print_entry(const char *what, const uint8_t key[TRUST_KEY], const char *state,
                        trust_role role)
{
    char hex[HEX_CHARS(TRUST_KEY)];
    printf("%-6s  %.16s  %-9s  %-10s  ", what, hex_write(hex, key, TRUST_KEY), state,
           role ? trust_role_name(role) : "");
}

static void print_until(const char *name, int64_t until)
{
    char date[32];
    ca_date(date, until);
    printf("%-24s  until %s\n", *name ? name : "-", date);
}

sefl_status ca_print_list(const trust *t, int64_t now)
{
    char hex[HEX_CHARS(TRUST_KEY)];
    if (t->self.role)
        printf("%s \"%s\", signs as %.16s...; %zu clients, change %" PRIu64 "\n",
               trust_role_name(t->self.role), t->self.name, hex_write(hex, t->self.sign, TRUST_KEY),
               trust_count(t, TRUST_CLIENT), t->change);
    for (const trust_issuer *s = t->issuer; s < t->issuer + t->issuers; s++) {
        print_entry("issuer", s->key, state_text(s->state), s->role);
        printf("\"%s\"%s%s%s\n", s->name, s->listed ? "  members only" : "",
               s->unit[0] ? "  unit " : "", s->unit);
    }
    for (const trust_member *m = t->member; m < t->member + t->members; m++) {
        print_entry("member", m->key, state_text(m->state), m->role);
        print_until(m->name, m->until);
    }
    for (const trust_token *k = t->token; k < t->token + t->tokens; k++) {
        print_entry("token", k->id, token_text(k, now), 0);
        print_until(k->name, k->expires);
    }
    return SEFL_OK;
}
