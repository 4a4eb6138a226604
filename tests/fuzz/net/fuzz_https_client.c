/* Header lines of AS's answers, as libcurl hands them to the client, one after another. The values
 * that they set are bounded and unambiguous. */
#include "net/https_client.c" /* on_header is its own */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    https_client c = { .number_field = "Sefl-Offset" };
    https_reply r = { .number = UINT64_MAX };
    call k = { .c = &c, .r = &r, .fd = -1, .content_from = UINT64_MAX };
    char copy[4096];
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end ? (size_t)(end - data) + 1 : size;
        n = n < sizeof copy ? n : sizeof copy;
        char *exact = malloc(n); /* no terminator after it, as libcurl promises none */
        must(exact != NULL);
        memcpy(exact, data, n);
        must(on_header(exact, 1, n, &k) == n);
        free(exact);
        must(memchr(r.etag, 0, sizeof r.etag) != NULL && !strchr(r.etag, '"'));
        must(r.number == UINT64_MAX || r.number <= UINT64_C(9999999999999999999));
        data += n, size -= n;
    }
    return 0;
}
