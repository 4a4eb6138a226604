/* Connections to this machine: a port where nobody listens, and which addresses are its own. */
#include "support/check.h"

#include "net/socket.h"

#include <unistd.h>

/* The system gives the caller of a port where nobody listens, sooner or later, this port for its own end. */
static void nobody_meets_itself(void **state)
{
    (void)state;
    int fd, held = -1;
    uint16_t port;
    do { /* the system prefers even ports for callers, odd ones for a server that leaves it the choice */
        CHECK_OK(socket_listen(&fd, "127.0.0.1", 0, &port));
        close(fd);
        port ^= 1;
    } while (socket_listen(&fd, "127.0.0.1", port, &port) != SEFL_OK);
    close(fd);
    for (int i = 0; i < 65536; i++)
        CHECK_STATUS(socket_dial(&held, "127.0.0.1", port, socket_now_ms() + 1000), SEFL_EIO);
}

static void addresses_of_this_machine(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "0.0.0.0", "192.0.2.1", "::", "2001:db8::1", "localhost", ""
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(socket_is_loopback(bad[i]));
    assert_true(socket_is_loopback("127.0.0.1") && socket_is_loopback("127.9.8.7") &&
                socket_is_loopback("::1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_meets_itself),
        cmocka_unit_test(addresses_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
