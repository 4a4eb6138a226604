#!/usr/bin/env python3
"""Writes ledger-v4.bin and turns-v4.bin from the format's description (src/core/ledger/ledger.h), without our C code.

    python3 tests/vectors/core/ledger/make_ledger.py tests/vectors/core/ledger
"""
import hashlib
import struct
import sys


def varint(v):
    out = b""
    while v >= 128:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def task(ident, noise, unit, z, rate, dim, steps, most, epsilon, delta, apart=0, gamma=(0, 0, 0, 0),
         horizon=0, units=0.0, turns=0, rounds=0, listed=bytes(32)):
    return (b"\x02" + ident + bytes([noise, unit])
            + struct.pack("<ddQdQddQ4HQdQQ", z, rate, dim, steps, most, epsilon, delta, apart, *gamma, horizon, units,
                          turns, rounds) + listed)


bodies = [
    b"\x01" + varint(6) + b"people",
    task(bytes(range(32)), 1, 0, 4.0, 0.1, 945510, 0.0, 5, 8.0, 1e-6),
    b"\x03" + varint(0) + varint(0),
    b"\x03" + varint(0) + varint(1),
    b"\x03" + varint(0) + varint(300),
    task(bytes(range(32, 64)), 2, 0, 2.5, 0.01, 0, 38662.0, 0, 8.0, 1e-6),
    b"\x03" + varint(1) + varint(7),
    task(bytes(range(64, 96)), 1, 0, 16.0, 1.0, 945510, 0.0, 5, 8.0, 1e-6, 20, (3000, 200, 0, 0), 100, 2.0 ** 39),
    b"\x03" + varint(2) + varint(21),
]
turns = [
    b"\x01" + varint(6) + b"people",
    task(bytes(range(96, 128)), 1, 1, 2.5, 1.0, 945510, 0.0, 0, 8.0, 1e-6, turns=10, rounds=140,
         listed=bytes(range(200, 232))),
    b"\x03" + varint(0) + varint(140),
]
for name, records in (("ledger", bodies), ("turns", turns)):
    out = b"SEFLLDG4"
    prev = hashlib.sha256(out).digest()
    for body in records:
        head = struct.pack("<I", len(body))
        prev = hashlib.sha256(prev + head + body).digest()
        out += head + struct.pack("<I", len(body) ^ 0xffffffff) + body + prev
    open(f"{sys.argv[1]}/{name}-v4.bin", "wb").write(out)
    print(prev.hex())
