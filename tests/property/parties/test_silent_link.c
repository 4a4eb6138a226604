/* The link between the servers goes silent: packets are lost, nobody closes it. Each role a process, over real
 * TLS; a relay drops the packets. */
#include "verify.h"

#include "support/relay.h"

/* Number of times that a log has this text. */
static unsigned count_text(fed *f, const char *who, const char *text)
{
    sefl_buf b = { 0 };
    unsigned n = 0;
    CHECK_OK(file_read(&b, fed_path(f, "%s.log", who), 1 << 26));
    CHECK_OK(wr_u8(&b, 0));
    for (const char *p = (const char *)b.p; (p = strstr(p, text)); p += strlen(text))
        n++;
    buf_clear(&b);
    return n;
}

static void await_text(fed *f, const char *who, const char *text, unsigned times)
{
    uint64_t end = fed_now_ms() + 20000 * FED_SLOW;
    for (; count_text(f, who, text) < times; fed_pause())
        if (fed_now_ms() >= end) {
            fed_show(f);
            fail_msg("%s.log: %u times \"%s\", not %u", who, count_text(f, who, text), text, times);
        }
}

/* The link between the servers, or a lane, stops carrying data without being closed: while they
 * make noise shares, while idle, while they reveal a round. Both servers detect it, and each time a
 * new link continues. */
static void a_silent_link_is_replaced(void **state)
{
    (void)state;
    fed f;
    relay *link;
    uint32_t least, most;
    fed_make(&f, "silent", "pad", 2, 400, "rounds.count=2 rounds.deadline_ms=120000");
    f.seed = 11;
    f.link_silence = "link_silence=1";
    fed_start_csp(&f);
    CHECK_OK(relay_start(&link, "127.0.0.1", f.csp_port, fed_path(&f, "link")));
    f.dial_csp = relay_port(link);
    fed_start_aggregator(&f);
    while (relay_connections(link) < 2) /* the link, and its lane */
        fed_pause();
    relay_mute_after(link, 300000);
    await_text(&f, "AS", "the peer was silent for 1000 ms",
               1); /* the lane, unless a ping was first */

    static const char ping[] = "\"at\":\"ping\",\"why\":\"tls: the peer was silent";
    unsigned before = count_text(&f, "AS", ping);
    relay_mute_after(link, 0);
    await_text(&f, "AS", ping, before + 1);
    await_text(&f, "CSP", "the peer was silent for 1000 ms", 1);

    await_text(&f, "CSP", "\"aggregator connected\"", 2);
    for (uint64_t end = fed_now_ms() + 3000 * FED_SLOW; fed_now_ms() < end;)
        fed_pause();              /* the lane has filled the pool and closed; only pings pass */
    relay_mute_after(link, 6000); /* less than a masked sum */
    fed_start_client(&f, 0);
    fed_start_client(&f, 1);
    await_text(&f, "AS", "\"at\":\"reveal\",\"why\":\"tls: the peer was silent", 1);

    fed_finish(&f, 60 * FED_SLOW);
    assert_int_equal(verify(&f, &least, &most), 2);
    assert_true(relay_connections(link) >= 4);
    relay_stop(link);
    fed_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_silent_link_is_replaced) };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
