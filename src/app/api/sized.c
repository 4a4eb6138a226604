#include "api/sized.h"

#include <stdint.h>
#include <string.h>

static sefl_status size_of(size_t *out, const void *given)
{
    SEFL_NEED(given, SEFL_EINVAL, "a struct is NULL");
    memcpy(out, given, sizeof *out);
    SEFL_NEED(*out >= sizeof *out, SEFL_EINVAL,
              "a struct has no size: set its member size to its sizeof");
    return SEFL_OK;
}

sefl_status sized_in(void *out, size_t bytes, const void *given)
{
    size_t size;
    memset(out, 0, bytes);
    if (!given)
        return SEFL_OK;
    SEFL_PASS(size_of(&size, given));
    for (size_t i = bytes; i < size; i++)
        SEFL_NEED(((const uint8_t *)given)[i] == 0, SEFL_EUNSUPPORTED,
                  "a struct of %zu bytes has a member that this version of the library does not "
                  "know: it has %zu bytes here",
                  size, bytes);
    memcpy(out, given, size < bytes ? size : bytes);
    return SEFL_OK;
}

sefl_status sized_out(void *given, const void *value, size_t bytes)
{
    size_t size;
    SEFL_PASS(size_of(&size, given));
    memcpy((uint8_t *)given + sizeof size, (const uint8_t *)value + sizeof size,
           (size < bytes ? size : bytes) - sizeof size);
    return SEFL_OK;
}
