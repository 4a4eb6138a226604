#include "crypto/lock_file.h"

#include "base/file.h"
#include "crypto/secmem.h"

#include <string.h>
#include <sys/stat.h>

/* Maximum number of bytes in the file. Lockable memory is scarce; the size of a pipe is unknown. */
static size_t bytes_of(const char *path)
{
    struct stat sb;
    bool known = stat(path, &sb) == 0 && sb.st_size > 0 && sb.st_size < SEALED_LOCK_MAX;
    return known ? (size_t)sb.st_size : SEALED_LOCK_MAX;
}

/* Removes the line's end; SEFL_EINVAL unless one line is left. */
static sefl_status one_line(sefl_buf *b, const char *path)
{
    if (b->n > 0 && b->p[b->n - 1] == '\n')
        b->n--;
    if (b->n > 0 && b->p[b->n - 1] == '\r')
        b->n--;
    SEFL_NEED(b->n > 0, SEFL_EINVAL, "%s contains no passphrase", path);
    SEFL_NEED(!memchr(b->p, '\n', b->n), SEFL_EINVAL,
              "%s has more than one line; a passphrase is one line", path);
    return SEFL_OK;
}

sefl_status lock_file_read(sealed_lock *out, uint8_t **mem, sealed_by by, const char *path,
                           bool *locked)
{
    sefl_status st = SEFL_OK;
    uint8_t *room = NULL;
    size_t most = bytes_of(path);
    *mem = NULL;
    SEFL_TRY(secmem_new(&room, most + 1, locked));
    sefl_buf b = { .p = room, .cap = most + 1, .max = most + 1 }; /* never grows: stays locked */
    SEFL_TRY(file_read(&b, path, most));
    if (by == SEALED_BY_PASSPHRASE)
        SEFL_TRY(one_line(&b, path));
    else
        SEFL_CHECK(b.n >= LOCK_FILE_KEY_MIN, SEFL_EINVAL,
                   "%s has %zu bytes, a key file has at least %d (create one: head -c 32 "
                   "/dev/urandom > FILE)",
                   path, b.n, LOCK_FILE_KEY_MIN);
    *out = (sealed_lock){ .by = by, .secret = span_of(room, b.n) };
    *mem = room, room = NULL;
done:
    secmem_free(room);
    return st;
}
