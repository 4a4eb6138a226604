"""tfevents.py FILE: reads an event file of TensorBoard and prints its scalars, one "STEP TAG VALUE" per line.

A reader of its own, written from the description of the format: TFRecord frames with masked CRC-32C, and the protobuf
messages Event and Summary. It stops with an error at the first byte that does not fit."""
import struct
import sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length, check) = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at : at + 8]), f"checksum of the length at {at}"
        body = data[at + 12 : at + 12 + length]
        assert len(body) == length, f"record at {at} is cut"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), f"checksum of the record at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 2:
            n, at = varint(data, at)
            value, at = data[at : at + n], at + n
            assert len(value) == n
        else:
            assert kind == 5, f"wire type {kind}"
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        yield key >> 3, value


events = [dict(fields(r)) for r in records(open(sys.argv[1], "rb").read())]
assert events[0] == {1: events[0][1], 3: b"brain.Event:2"}, events[0]
for event in events[1:]:
    assert event[1] > 0 and set(event) == {1, 2, 5}, event
    for number, value in fields(event[5]):
        scalar = dict(fields(value))
        assert number == 1 and set(scalar) == {1, 2}
        print(event[2], scalar[1].decode(), repr(scalar[2]))
