#include "cli/full/ca_print.h"
#include "base/hex.h"
#include "cli/print.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void ca_hex(char out[2 * TRUST_KEY + 1], const uint8_t key[TRUST_KEY])
{
    hex_write(out, key, TRUST_KEY);
}

void ca_date(char out[32], int64_t when)
{
    time_t t = (time_t)when;
    struct tm tm;
    if (when == 0 || !gmtime_r(&t, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M", &tm) == 0)
        strcpy(out, "-");
}

static const char *ca_state_text(trust_state s)
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
    const bool named = t->self.role != 0;
    json_open(&j, '{');
    json_fields(&j, lf_u64("change", t->change),
                lf_str("role", named ? trust_role_name(t->self.role) : ""),
                named ? lf_key("signs_as", t->self.sign) : lf_str("signs_as", ""),
                named ? lf_key("tls_key", t->self.tls) : lf_str("tls_key", ""),
                lf_u64("clients", trust_count(t, TRUST_CLIENT)));
    json_key(&j, "issuers"), json_open(&j, '[');
    for (const trust_issuer *s = t->issuer; s < t->issuer + t->issuers; s++) {
        json_object(&j, NULL, lf_key("key", s->key), lf_str("role", trust_role_name(s->role)),
                    lf_str("state", ca_state_text(s->state)), lf_str("name", s->name),
                    lf_str("unit", s->unit), lf_bool("listed", s->listed));
    }
    json_close(&j, ']');
    json_key(&j, "members"), json_open(&j, '[');
    for (const trust_member *m = t->member; m < t->member + t->members; m++) {
        json_object(&j, NULL, lf_key("key", m->key), lf_str("name", m->name),
                    lf_str("role", trust_role_name(m->role)),
                    lf_str("state", ca_state_text(m->state)), lf_i64("since", m->since),
                    lf_i64("until", m->until));
    }
    json_close(&j, ']');
    json_key(&j, "tokens"), json_open(&j, '[');
    for (const trust_token *k = t->token; k < t->token + t->tokens; k++) {
        json_object(&j, NULL, lf_key("id", k->id), lf_str("name", k->name),
                    lf_str("state", token_text(k, now)), lf_i64("expires", k->expires));
    }
    json_close(&j, ']');
    json_close(&j, '}');
    return print_json(&j);
}

void ca_print_list(const trust *t, int64_t now)
{
    char hex[2 * TRUST_KEY + 1], date[32];
    if (t->self.role) {
        ca_hex(hex, t->self.sign);
        printf("%s \"%s\", signs as %.16s...; %zu clients, change %" PRIu64 "\n",
               trust_role_name(t->self.role), t->self.name, hex, trust_count(t, TRUST_CLIENT),
               t->change);
    }
    for (size_t i = 0; i < t->issuers; i++) {
        const trust_issuer *s = &t->issuer[i];
        ca_hex(hex, s->key);
        printf("issuer  %.16s  %-9s  %-10s  \"%s\"%s%s%s\n", hex, ca_state_text(s->state),
               trust_role_name(s->role), s->name, s->listed ? "  members only" : "",
               s->unit[0] ? "  unit " : "", s->unit);
    }
    for (size_t i = 0; i < t->members; i++) {
        const trust_member *m = &t->member[i];
        ca_hex(hex, m->key);
        ca_date(date, m->until);
        printf("member  %.16s  %-9s  %-10s  %-24s  until %s\n", hex, ca_state_text(m->state),
               trust_role_name(m->role), m->name[0] ? m->name : "-", date);
    }
    for (size_t i = 0; i < t->tokens; i++) {
        const trust_token *k = &t->token[i];
        ca_hex(hex, k->id);
        ca_date(date, k->expires);
        printf("token   %.16s  %-9s  %-10s  %-24s  until %s\n", hex, token_text(k, now), "",
               k->name, date);
    }
}
