/* fields: writes and reads a message by the list of its fields, so that the list is the layout.
 *
 *     #define FOO_FIELDS(X) X(raw, key, 32) X(u64, serial, 8) X(bytes, name, NAME_MAX)
 *     FOO_FIELDS(FIELD_WRITE)     // appends the members of `v` to the buffer `out`
 *     FOO_FIELDS(FIELD_READ)      // fills the members of `v` from the reader `r`
 *
 * X(type, member, most bytes): raw is an array, u64 an integer, bytes a span after its varint
 * length. A source file adds a type with FIELD_WRITE_type(x) and FIELD_READ_type(x, max).
 * `v`, `out` and `r` are pointers; a failure returns at once. */
#ifndef PROTOCOL_FIELDS_H
#define PROTOCOL_FIELDS_H

#include "base/buf.h"

#define FIELD_WRITE(type, name, max) SEFL_PASS(FIELD_WRITE_##type(v->name));
#define FIELD_WRITE_raw(x)           wr_raw(out, x, sizeof(x))
#define FIELD_WRITE_u64(x)           wr_u64(out, x)
#define FIELD_WRITE_bytes(x)         wr_bytes(out, x)

#define FIELD_READ(type, name, max)  SEFL_PASS(FIELD_READ_##type(v->name, max));
#define FIELD_READ_raw(x, max)       rd_raw(r, x, sizeof(x))
#define FIELD_READ_u64(x, max)       rd_u64(r, &(x))
#define FIELD_READ_bytes(x, max)     rd_bytes(r, &(x), max)

#endif
