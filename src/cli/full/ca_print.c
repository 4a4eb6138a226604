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
    sefl_status st = SEFL_OK;
    sefl_buf b = { 0 };
    json j = json_into(&b);
    char hex[2 * TRUST_KEY + 1];
    json_open(&j, '{');
    json_key(&j, "change"), json_u64(&j, t->change);
    json_key(&j, "role"), json_str(&j, t->self.role ? trust_role_name(t->self.role) : "");
    ca_hex(hex, t->self.sign);
    json_key(&j, "signs_as"), json_str(&j, t->self.role ? hex : "");
    ca_hex(hex, t->self.tls);
    json_key(&j, "tls_key"), json_str(&j, t->self.role ? hex : "");
    json_key(&j, "clients"), json_u64(&j, trust_count(t, TRUST_CLIENT));
    json_key(&j, "issuers"), json_open(&j, '[');
    for (size_t i = 0; i < t->issuers; i++) {
        const trust_issuer *s = &t->issuer[i];
        ca_hex(hex, s->key);
        json_open(&j, '{');
        json_key(&j, "key"), json_str(&j, hex);
        json_key(&j, "role"), json_str(&j, trust_role_name(s->role));
        json_key(&j, "state"), json_str(&j, ca_state_text(s->state));
        json_key(&j, "name"), json_str(&j, s->name);
        json_key(&j, "unit"), json_str(&j, s->unit);
        json_key(&j, "listed"), json_bool(&j, s->listed);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_key(&j, "members"), json_open(&j, '[');
    for (size_t i = 0; i < t->members; i++) {
        const trust_member *m = &t->member[i];
        ca_hex(hex, m->key);
        json_open(&j, '{');
        json_key(&j, "key"), json_str(&j, hex);
        json_key(&j, "name"), json_str(&j, m->name);
        json_key(&j, "role"), json_str(&j, trust_role_name(m->role));
        json_key(&j, "state"), json_str(&j, ca_state_text(m->state));
        json_key(&j, "since"), json_i64(&j, m->since);
        json_key(&j, "until"), json_i64(&j, m->until);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_key(&j, "tokens"), json_open(&j, '[');
    for (size_t i = 0; i < t->tokens; i++) {
        const trust_token *k = &t->token[i];
        ca_hex(hex, k->id);
        json_open(&j, '{');
        json_key(&j, "id"), json_str(&j, hex);
        json_key(&j, "name"), json_str(&j, k->name);
        json_key(&j, "state"), json_str(&j, token_text(k, now));
        json_key(&j, "expires"), json_i64(&j, k->expires);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    SEFL_TRY(print_json(&j));
done:
    buf_clear(&b);
    return st;
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
