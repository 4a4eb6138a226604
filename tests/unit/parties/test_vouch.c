/* vouch: vouchers from another implementation verify (tests/vectors/core/protocol/make_sealed.py);
 * changed bytes, other servers and weak keys do not; checks who is, and who still is, a client. */
#include "unit/host/net/net_ids.h"

#include "base/file.h"
#include "roles/vouch.h"

#include "vectors/core/protocol/sealed.h"

static const pinned servers = { { 1 }, { 2 } }, others = { { 1 }, { 3 } };
static trust *list;

static size_t unhex(uint8_t *out, const char *hex)
{
    size_t n = 0;
    for (; hex[0] && hex[1]; hex += 2, n++) {
        unsigned v;
        assert_int_equal(sscanf(hex, "%2x", &v), 1);
        out[n] = (uint8_t)v;
    }
    return n;
}

static void known(void **state)
{
    static const char *const good[] = { voucher_ed25519, voucher_p256, voucher_p384, voucher_rsa };
    static const char *const bad[] = { voucher_rsa_1024, voucher_p192, voucher_sha1 };
    pinned p, q;
    uint8_t bytes[4096];
    voucher v;
    (void)state;
    memset(p.as, 0xa5, 32), memset(p.csp, 0xc5, 32);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t n = unhex(bytes, good[i]);
        CHECK_OK(voucher_read(&v, span_of(bytes, n)));
        CHECK_OK(vouch_check(&v, &p));
        for (size_t at = 0; at < n - v.chain.n; at++) { /* every byte but the chain's */
            voucher w;
            bytes[at] ^= 1;
            assert_true(voucher_read(&w, span_of(bytes, n)) != SEFL_OK ||
                        vouch_check(&w, &p) == SEFL_EAUTH);
            bytes[at] ^= 1;
        }
        q = p, q.as[0] ^= 1;
        CHECK_STATUS(vouch_check(&v, &q), SEFL_EAUTH);
        q = p, q.csp[31] ^= 1;
        CHECK_STATUS(vouch_check(&v, &q), SEFL_EAUTH);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t n = unhex(bytes, bad[i]);
        CHECK_OK(voucher_read(&v, span_of(bytes, n)));
        CHECK_STATUS(vouch_check(&v, &p), SEFL_EAUTH);
    }
}

static void made(sefl_buf *out, voucher *v, const char *name)
{
    char cert[300], key[300];
    uint8_t upload[32] = { 7 };
    net_path(cert, name, ".pem");
    net_path(key, name, ".key");
    buf_reset(out);
    CHECK_OK(vouch_make(out, cert, key, upload, &servers, 1000));
    CHECK_OK(voucher_read(v, buf_span(out)));
}

static void make(void **state)
{
    sefl_buf b = { 0 };
    voucher v;
    uint8_t upload[32] = { 7 };
    (void)state;
    made(&b, &v, "site");
    assert_int_equal(v.key[0], 7);
    assert_int_equal(v.serial, 1000);
    CHECK_OK(vouch_check(&v, &servers));
    CHECK_STATUS(vouch_check(&v, &others), SEFL_EAUTH);
    buf_reset(&b);
    char cert[300];
    net_path(cert, "site", ".pem");
    CHECK_STATUS(vouch_make(&b, cert, folder_path("guest.key"), upload, &servers, 1), SEFL_EINVAL);
    assert_int_equal(b.n, 0);
    buf_clear(&b);
}

static void add_issuer(const char *ca, bool listed)
{
    sefl_buf b = { 0 }, der = { 0 };
    char path[300];
    x509_info info;
    trust_issuer i = { .role = TRUST_CLIENT, .state = TRUST_ACTIVE, .listed = listed };
    net_path(path, ca, ".pem");
    CHECK_OK(file_read(&b, path, 1 << 16));
    CHECK_OK(x509_info_read(&info, buf_span(&b), &der));
    memcpy(i.key, info.fingerprint, sizeof i.key);
    snprintf(i.name, sizeof i.name, "%s", ca);
    i.der = buf_span(&der);
    CHECK_OK(trust_issuer_put(list, &i));
    buf_clear(&b), buf_clear(&der);
}

static allowlist *snapshot(void)
{
    sefl_buf b = { 0 };
    trust *t;
    allowlist *g;
    CHECK_OK(trust_print(&b, list));
    CHECK_OK(trust_parse(&t, buf_span(&b)));
    CHECK_OK(allowlist_new(&g, t));
    trust_free(t);
    buf_clear(&b);
    return g;
}

static void set_member(const uint8_t key[32], trust_role role, trust_state to)
{
    trust_member m = { .role = role, .state = to, .name = "site" };
    memcpy(m.key, key, 32);
    CHECK_OK(trust_member_put(list, &m));
}

/* Without a chain: a member is accepted; a revoked member, a server's key and an unknown key are
 * refused. */
static void members(void **state)
{
    sefl_buf b = { 0 };
    voucher v;
    x509_peer who;
    (void)state;
    CHECK_OK(trust_new(&list));
    made(&b, &v, "site");
    allowlist *g = snapshot();
    CHECK_STATUS(vouch_admit(&who, g, &v), SEFL_EAUTH);
    assert_false(vouch_still(g, v.client, NULL));
    allowlist_free(g);

    set_member(v.client, TRUST_CLIENT, TRUST_ACTIVE);
    g = snapshot();
    CHECK_OK(vouch_admit(&who, g, &v));
    assert_true(who.listed);
    assert_true(vouch_still(g, v.client, &who) && vouch_still(g, v.client, NULL));
    v.chain.n = 0;
    CHECK_OK(vouch_admit(&who, g, &v));
    allowlist_free(g);

    set_member(v.client, TRUST_CLIENT, TRUST_REVOKED);
    g = snapshot();
    CHECK_STATUS(vouch_admit(&who, g, &v), SEFL_EAUTH);
    assert_false(vouch_still(g, v.client, NULL));
    allowlist_free(g);

    set_member(v.client, TRUST_AGGREGATOR, TRUST_ACTIVE);
    g = snapshot();
    CHECK_STATUS(vouch_admit(&who, g, &v), SEFL_EAUTH);
    assert_false(vouch_still(g, v.client, NULL));
    allowlist_free(g);
    trust_free(list);
    buf_clear(&b);
}

/* A CA of an organisation that the list trusts for clients: the chain vouches, for its own key alone,
 * until the CA or the client is revoked. */
static void chains(void **state)
{
    sefl_buf b = { 0 }, foreign = { 0 }, server = { 0 };
    voucher v, f, s;
    x509_peer who, nobody;
    (void)state;
    CHECK_OK(trust_new(&list));
    add_issuer("ca", false);
    made(&b, &v, "site");
    made(&foreign, &f, "guest");
    made(&server, &s, "server");
    allowlist *g = snapshot();
    CHECK_OK(vouch_admit(&who, g, &v));
    assert_false(who.listed);
    assert_true(vouch_still(g, v.client, &who));
    assert_false(vouch_still(g, v.client, NULL));          /* not without its voucher */
    CHECK_STATUS(vouch_admit(&nobody, g, &f), SEFL_EAUTH); /* another CA */
    CHECK_STATUS(vouch_admit(&nobody, g, &s), SEFL_EAUTH); /* no client */
    sefl_span chain = v.chain;
    v.chain.n = 0;
    CHECK_STATUS(vouch_admit(&nobody, g, &v), SEFL_EAUTH);
    f.chain = chain; /* somebody else's certificate */
    CHECK_STATUS(vouch_admit(&nobody, g, &f), SEFL_EAUTH);
    v.chain = span_of("text", 4);
    CHECK_STATUS(vouch_admit(&nobody, g, &v), SEFL_EAUTH);
    v.chain = chain;
    who.until = 1; /* it has expired since */
    assert_false(vouch_still(g, v.client, &who));
    allowlist_free(g);

    g = snapshot();
    CHECK_OK(vouch_admit(&who, g, &v));
    allowlist_free(g);
    list->issuer[0].state = TRUST_REVOKED;
    g = snapshot();
    CHECK_STATUS(vouch_admit(&nobody, g, &v), SEFL_EAUTH);
    assert_false(vouch_still(g, v.client, &who));
    allowlist_free(g);

    list->issuer[0].state = TRUST_ACTIVE;
    set_member(v.client, TRUST_CLIENT, TRUST_REVOKED);
    g = snapshot();
    CHECK_STATUS(vouch_admit(&nobody, g, &v), SEFL_EAUTH);
    assert_false(vouch_still(g, v.client, &who));
    allowlist_free(g);
    trust_free(list);

    CHECK_OK(trust_new(&list)); /* a CA with listed members does not vouch for others */
    add_issuer("ca", true);
    g = snapshot();
    CHECK_STATUS(vouch_admit(&nobody, g, &v), SEFL_EAUTH);
    allowlist_free(g);
    trust_free(list);
    buf_clear(&b), buf_clear(&foreign), buf_clear(&server);
}

/* A listed member whose issuer is on the list but revoked. */
static void members_issuer(void **state)
{
    sefl_buf b = { 0 };
    voucher v;
    x509_peer who;
    (void)state;
    CHECK_OK(trust_new(&list));
    add_issuer("ca", true);
    made(&b, &v, "site");
    trust_member m = { .role = TRUST_CLIENT, .state = TRUST_ACTIVE, .name = "site" };
    memcpy(m.key, v.client, 32);
    memcpy(m.issuer, list->issuer[0].key, 32);
    CHECK_OK(trust_member_put(list, &m));
    allowlist *g = snapshot();
    CHECK_OK(vouch_admit(&who, g, &v));
    allowlist_free(g);
    list->issuer[0].state = TRUST_REVOKED;
    g = snapshot();
    CHECK_STATUS(vouch_admit(&who, g, &v), SEFL_EAUTH);
    assert_false(vouch_still(g, v.client, NULL));
    allowlist_free(g);
    trust_free(list);
    buf_clear(&b);
}

static int setup(void **state)
{
    folder_make(state);
    net_ca("ca");
    net_ca("ca2");
    net_cert("site", "client", NULL, "ca");
    net_cert("guest", "client", NULL, "ca2");
    net_cert("server", "csp", "localhost", "ca");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known),  cmocka_unit_test(make),           cmocka_unit_test(members),
        cmocka_unit_test(chains), cmocka_unit_test(members_issuer),
    };
    return cmocka_run_group_tests(tests, setup, folder_remove);
}
