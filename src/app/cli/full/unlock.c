#define _GNU_SOURCE /* pipe2 */
#include "cli/full/unlock.h"

#include "base/ct.h"
#include "base/file.h"
#include "cli/full/confine.h"
#include "crypto/lock_file.h"
#include "crypto/secmem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 1024,
    PASSPHRASE_MIN = 12, /* characters, when creating */
};

static void warn_unlocked(bool locked)
{
    if (!locked)
        fprintf(stderr, "sefl: warning: memory cannot be locked; secrets may be swapped out "
                        "(ulimit -l raises the limit)\n");
}

static sefl_status from_file(cli_unlock *u, sealed_by by, const char *path)
{
    bool locked = true;
    SEFL_PASS(lock_file_read(&u->lock, &u->mem, by, path, &locked));
    warn_unlocked(locked);
    if (confine_others_read(path, NULL))
        fprintf(stderr, "sefl: warning: other users can read %s: run chmod 600\n", path);
    return SEFL_OK;
}

/* ---- terminal -------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;
static int
    woken[2]; /* a pipe, so that a signal just before the wait or in another thread also ends it */

static void on_signal(int sig)
{
    int before = errno;
    caught = sig;
    (void)!write(woken[1], "", 1);
    errno = before;
}

/* Waits for input or a signal; true if there is input. */
static bool wait_for_key(int tty)
{
    struct pollfd p[2] = { { .fd = tty, .events = POLLIN }, { .fd = woken[0], .events = POLLIN } };
    while (!caught && poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    return !caught;
}

static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP };
enum { SIGNALS = sizeof signals / sizeof signals[0] };

/* Reads one line without echo, at most LINE_MAX_BYTES - 1 bytes; *n excludes the newline. */
static sefl_status ask(int tty, const char *prompt, uint8_t *out, size_t *n)
{
    struct termios was, quiet;
    struct sigaction old[SIGNALS], sa = { .sa_handler = on_signal };
    ssize_t got = 0;

    *n = 0;
    if (tcgetattr(tty, &was) != 0)
        return sefl_fail(SEFL_EINVAL, "cannot use the terminal: %s", strerror(errno));
    if (pipe2(woken, O_CLOEXEC | O_NONBLOCK) != 0)
        return sefl_fail(SEFL_EIO, "cannot create a pipe: %s", strerror(errno));
    caught = 0;
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &sa, &old[i]);
    quiet = was;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
    bool off = tcsetattr(tty, TCSAFLUSH, &quiet) == 0;
    if (off && file_write_all(tty, span_of_str(prompt)) == SEFL_OK)
        while (*n < LINE_MAX_BYTES && wait_for_key(tty)) {
            got = read(tty, out + *n, 1);
            if (got <= 0 || out[*n] == '\n')
                break;
            ++*n;
        }
    if (off) {
        (void)tcsetattr(tty, TCSAFLUSH, &was);
        (void)!write(tty, "\n", 1);
    }
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &old[i], NULL);
    (void)close(woken[0]);
    (void)close(woken[1]);
    if (caught) {
        sefl_wipe(out, LINE_MAX_BYTES);
        raise(caught); /* the default action; a stopped program continues here */
    }
    SEFL_NEED(off, SEFL_EIO, "cannot turn off the terminal's echo");
    SEFL_NEED(!caught && got > 0, SEFL_ECANCELLED, "no passphrase was given");
    SEFL_NEED(*n > 0, SEFL_EINVAL, "the passphrase is empty");
    SEFL_NEED(*n < LINE_MAX_BYTES, SEFL_EINVAL, "the passphrase is longer than %d bytes",
              LINE_MAX_BYTES - 1);
    return SEFL_OK;
}

static sefl_status from_terminal(cli_unlock *u)
{
    sefl_status st = SEFL_OK;
    uint8_t *again = NULL;
    size_t n = 0, m = 0;
    bool locked = true;
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    SEFL_CHECK(tty >= 0, SEFL_EINVAL,
               "no terminal to ask for a passphrase: pass --passphrase-file or --key-file");
    SEFL_TRY(secmem_new(&u->mem, LINE_MAX_BYTES, &locked));
    warn_unlocked(locked);
    SEFL_TRY(secmem_new(&again, LINE_MAX_BYTES, NULL));
    SEFL_TRY(ask(tty, u->creating ? "new passphrase: " : "passphrase: ", u->mem, &n));
    if (u->creating) {
        SEFL_TRY(ask(tty, "repeat passphrase: ", again, &m));
        SEFL_CHECK(n == m && ct_eq_bytes(u->mem, again, n), SEFL_EINVAL,
                   "the two passphrases differ");
    }
    u->lock = (sealed_lock){ SEALED_BY_PASSPHRASE, span_of(u->mem, n) };
done:
    if (tty >= 0)
        close(tty);
    secmem_free(again);
    return st;
}

sefl_status cli_unlock_get(cli_unlock *u, sealed_by by)
{
    SEFL_NEED(!u->passphrase_file || !u->key_file, SEFL_EINVAL,
              "--passphrase-file and --key-file cannot be combined");
    if (!u->creating && by == SEALED_BY_KEY_FILE)
        SEFL_NEED(u->key_file, SEFL_EINVAL, "the key is locked with a key file: pass --key-file");
    if (!u->creating && by == SEALED_BY_PASSPHRASE)
        SEFL_NEED(!u->key_file, SEFL_EINVAL,
                  "the key is locked with a passphrase, not with a key file");
    if (u->key_file)
        return from_file(u, SEALED_BY_KEY_FILE, u->key_file);
    SEFL_PASS(u->passphrase_file ? from_file(u, SEALED_BY_PASSPHRASE, u->passphrase_file)
                                 : from_terminal(u));
    SEFL_NEED(!u->creating || u->lock.secret.n >= PASSPHRASE_MIN, SEFL_EINVAL,
              "a passphrase of %zu characters is too easy to guess: use at least %d",
              u->lock.secret.n, PASSPHRASE_MIN);
    return SEFL_OK;
}

static sefl_status fill(void *self, sealed_lock *lock, sealed_by by)
{
    cli_unlock *u = self;
    SEFL_PASS(cli_unlock_get(u, by));
    *lock = u->lock;
    return SEFL_OK;
}

sefl_status cli_unlock_csp(csp_key *out, const csp_settings *c)
{
    cli_unlock u = { .passphrase_file = c->passphrase_file, .key_file = c->key_lock };
    sefl_status st = csp_key_read(out, c->key, fill, &u);
    cli_unlock_clear(&u);
    return st;
}

void cli_unlock_clear(cli_unlock *u)
{
    secmem_free(u->mem);
    *u = (cli_unlock){ 0 };
}
