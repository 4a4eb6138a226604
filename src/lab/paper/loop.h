/* loop: sends uploads over a mutual TLS 1.3 stream on loopback, to time the transfer alone. The
 * other end is a thread that receives the bytes into memory and answers with one byte.
 *
 *     SEFL_TRY(loop_open(&l, folder));                   // makes certificates in the folder
 *     SEFL_TRY(loop_send(&l, &seconds, there, here, n)); // from the first byte to the answer
 *     loop_close(&l);
 *
 * Threads: one owner.   Secrets: none; the keys serve one measurement. */
#ifndef PAPER_LOOP_H
#define PAPER_LOOP_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct loop {
    struct tls_id *as_id, *client_id;
    struct tls *as, *client;
} loop;

/* The caller owns the folder and removes it. Always close l. */
sefl_status loop_open(loop *l, const char *folder) SEFL_MUST_CHECK;
void loop_close(loop *l);

/* Copies n bytes from `from` to `to` over the stream. After a failure, close the loop. */
sefl_status loop_send(loop *l, double *seconds, uint8_t *to, const uint8_t *from,
                      size_t n) SEFL_MUST_CHECK;

#endif
