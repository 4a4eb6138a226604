/* crc32c: the CRC-32C checksum (Castagnoli, polynomial 0x1EDC6F41 reflected), which event files of
 * TensorBoard use. It detects accidents, not attacks.
 *
 *     crc32c(span_of("123456789", 9)) == 0xe3069283
 *
 * Threads: any.   Secrets: none.   Cost: one bit at a time, about 100 MB/s. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include "base/span.h"

#include <stdint.h>

uint32_t crc32c(sefl_span bytes);

#endif
