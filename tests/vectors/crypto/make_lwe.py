#!/usr/bin/env python3
"""Known answers for the lwe scheme, from its definition, with Python integers only.

    tests/vectors/crypto/make_lwe.py > tests/vectors/crypto/lwe.h

AES and the ring product are written out here (the product by Kronecker substitution: one big
integer product); only SHA-256 comes from the library. Nothing is shared with the C code."""
import hashlib

N = 2048


def aes_tables():
    exp, log, x = [0] * 256, [0] * 256, 1
    for i in range(255):
        exp[i], log[x] = x, i
        x ^= (x << 1) ^ (0x11B if x & 0x80 else 0)  # times 3
        x &= 0xFF
    sbox = []
    for b in range(256):
        inv = 0 if b == 0 else exp[(255 - log[b]) % 255]
        r = 0x63
        for k in range(5):
            r ^= ((inv << k) | (inv >> (8 - k))) & 0xFF
        sbox.append(r)
    return sbox


SBOX = aes_tables()
XT = [((b << 1) ^ (0x1B if b & 0x80 else 0)) & 0xFF for b in range(256)]


class Aes:
    def __init__(self, key):
        w = [list(key[4 * i:4 * i + 4]) for i in range(4)]
        rcon = 1
        for i in range(4, 44):
            t = list(w[i - 1])
            if i % 4 == 0:
                t = [SBOX[b] for b in t[1:] + t[:1]]
                t[0] ^= rcon
                rcon = XT[rcon]
            w.append([a ^ b for a, b in zip(w[i - 4], t)])
        self.rk = [sum(w[4 * r:4 * r + 4], []) for r in range(11)]

    def block(self, data):
        s = [a ^ b for a, b in zip(data, self.rk[0])]
        for r in range(1, 11):
            s = [SBOX[s[(i + 4 * (i % 4)) % 16]] for i in range(16)]
            if r < 10:
                t = []
                for c in range(0, 16, 4):
                    a, b, d, e = s[c:c + 4]
                    u = a ^ b ^ d ^ e
                    t += [a ^ u ^ XT[a ^ b], b ^ u ^ XT[b ^ d], d ^ u ^ XT[d ^ e], e ^ u ^ XT[e ^ a]]
                s = t
            s = [a ^ b for a, b in zip(s, self.rk[r])]
        return bytes(s)


assert Aes(bytes(range(16))).block(bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == \
    "69c4e0d86a7b0430d8cdb78070b4c55a"  # FIPS 197


def stream(seed, name, number, size):
    key = Aes(hashlib.sha256(b"sefl prg 1" + seed + name).digest()[:16])
    out = b"".join(key.block(number.to_bytes(8, "big") + i.to_bytes(8, "big"))
                   for i in range((size + 15) // 16))
    return out[:size]


def fields(data, bits):
    x = int.from_bytes(data, "little")
    return [(x >> (bits * i)) & ((1 << bits) - 1) for i in range(N)]


def row(numbers, bits):
    x = 0
    for i, v in enumerate(numbers):
        x |= (v & ((1 << bits) - 1)) << (bits * i)
    return x.to_bytes(N * bits // 8, "little")


def product(a, s):
    """a*s in Z[x]/(x^2048 + 1); s may be negative."""
    width = 96
    big = sum(v << (width * i) for i, v in enumerate(a)) * sum(v << (width * i)
                                                               for i, v in enumerate(s))
    out = []
    for _ in range(2 * N):
        v = big & ((1 << width) - 1)
        if v >> (width - 1):
            v -= 1 << width
        out.append(v)
        big = (big - v) >> width
    return [out[i] - out[i + N] for i in range(N)]


def secret(seed):
    coins = stream(seed, b"lwe secret", 0, 16 * N)
    return [3 * int.from_bytes(coins[16 * i:16 * i + 16], "little") // (1 << 128) - 1
            for i in range(N)]


def encrypt(context, seed, unit, values, w, kappa, d):
    q = 1 << kappa
    a = fields(stream(context, b"lwe public", unit, N * kappa // 8), kappa)
    e = [bin(x).count("1") - 21 for x in fields(stream(seed, b"lwe error", unit, N * 42 // 8), 42)]
    s = secret(seed)
    c = [(p + x + (m << (kappa - w))) % q >> d for p, x, m in zip(product(a, s), e, values)]
    return a, s, c


def main():
    print("/* Made by make_lwe.py with Python integers; do not edit. Units, sums and plain rows are given\n"
          " * by their first 16 bytes and SHA-256. Values: i-th of client j is\n"
          " * ((i*i*7919 + j*104729 + i) mod (2*max + 1)) - max. */")
    print("static const struct lwe_vector {\n    unsigned w, kappa, d, clients;\n    uint64_t unit;\n"
          "    int64_t max;\n    const char *unit_first, *unit_sha256, *sum_sha256, *plain_first, *plain_sha256;\n"
          "} lwe_vectors[] = {")
    for w, kappa, d, clients, unit in [(28, 42, 4, 3, 0), (28, 42, 4, 1, 461), (16, 31, 5, 2, 7),
                                       (40, 54, 4, 2, 1 << 40)]:
        mx = ((1 << (w - 1)) - 1) // clients
        context = hashlib.sha256(b"context").digest()
        total, big_s, big_m = [0] * N, [0] * N, [0] * N
        unit_row = None
        for j in range(clients):
            seed = hashlib.sha256(b"client %d" % j).digest()
            m = [(i * i * 7919 + j * 104729 + i) % (2 * mx + 1) - mx for i in range(N)]
            a, s, c = encrypt(context, seed, unit, m, w, kappa, d)
            unit_row = unit_row or row(c, kappa - d)
            total = [x + y for x, y in zip(total, c)]
            big_s = [x + y for x, y in zip(big_s, s)]
            big_m = [x + y for x, y in zip(big_m, m)]
        mask = fields(stream(hashlib.sha256(b"mask").digest(), b"lwe mask", unit, N * w // 8), w)
        restore = clients * ((1 << d) - 1) // 2
        closed = [((x << d) + restore + (v << (kappa - w))) % (1 << kappa)
                  for x, v in zip(total, mask)]
        plain = [((x - p + (1 << (kappa - w - 1))) % (1 << kappa)) >> (kappa - w)
                 for x, p in zip(closed, product(a, big_s))]
        assert plain == [(m + v) % (1 << w) for m, v in zip(big_m, mask)]
        rows = [unit_row, row(closed, kappa), row(plain, w)]
        sha = [hashlib.sha256(r).hexdigest() for r in rows]
        print(f"    {{ {w}, {kappa}, {d}, {clients}, {unit}u, {mx}, \"{rows[0][:16].hex()}\",\n"
              f"      \"{sha[0]}\",\n      \"{sha[1]}\",\n      \"{rows[2][:16].hex()}\",\n"
              f"      \"{sha[2]}\" }},")
    print("};")


main()
