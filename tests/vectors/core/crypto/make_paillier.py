#!/usr/bin/env python3
"""Known answers for Paillier, made with Python integers only.

    tests/vectors/core/crypto/make_paillier.py > tests/vectors/core/crypto/paillier_vectors.h

Nothing here shares code with src/: primes from SHA-256 streams and Miller-Rabin, pow(), and ChaCha20
written out. Numbers are printed as little-endian hex, the form in which they travel.
"""
import hashlib
import math

W, SLOT_S, G = 28, 80, 16


def stream(label, n):
    out = b""
    i = 0
    while len(out) < n:
        out += hashlib.sha256(f"{label}/{i}".encode()).digest()
        i += 1
    return out[:n]


def number(label, bits):
    return int.from_bytes(stream(label, (bits + 7) // 8), "little") % (1 << bits)


def is_prime(n):
    for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if n % p == 0:
            return n == p
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for i in range(24):
        x = pow(2 + number(f"mr{i}{n % 10**9}", 64), d, n)
        if x in (1, n - 1):
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def prime(label, bits):
    i = 0
    while True:
        p = number(f"{label}{i}", bits) | 3 << (bits - 2) | 3
        if is_prime(p):
            return p
        i += 1


def chacha20(key, nonce, n):
    """The original ChaCha20: 64-bit block counter from 0, 64-bit nonce."""

    def rotl(v, c):
        return (v << c | v >> (32 - c)) & 0xFFFFFFFF

    def quarter(s, a, b, c, d):
        s[a] = (s[a] + s[b]) & 0xFFFFFFFF
        s[d] = rotl(s[d] ^ s[a], 16)
        s[c] = (s[c] + s[d]) & 0xFFFFFFFF
        s[b] = rotl(s[b] ^ s[c], 12)
        s[a] = (s[a] + s[b]) & 0xFFFFFFFF
        s[d] = rotl(s[d] ^ s[a], 8)
        s[c] = (s[c] + s[d]) & 0xFFFFFFFF
        s[b] = rotl(s[b] ^ s[c], 7)

    out = b""
    for block in range((n + 63) // 64):
        init = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
        init += [int.from_bytes(key[4 * i : 4 * i + 4], "little") for i in range(8)]
        init += [block & 0xFFFFFFFF, block >> 32, nonce & 0xFFFFFFFF, nonce >> 32]
        s = init[:]
        for _ in range(10):
            quarter(s, 0, 4, 8, 12)
            quarter(s, 1, 5, 9, 13)
            quarter(s, 2, 6, 10, 14)
            quarter(s, 3, 7, 11, 15)
            quarter(s, 0, 5, 10, 15)
            quarter(s, 1, 6, 11, 12)
            quarter(s, 2, 7, 8, 13)
            quarter(s, 3, 4, 9, 14)
        out += b"".join(((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in zip(s, init))
    return out[:n]


def emit(name, value, nbytes):
    text = value.to_bytes(nbytes, "little").hex()
    print(f"    .{name} =")
    for i in range(0, len(text), 88):
        print(f'        "{text[i:i + 88]}"')
    print("        ,")


def key(bits):
    k = 0
    while True:
        p, q = prime(f"p{bits}/{k}/", bits // 2), prime(f"q{bits}/{k}/", bits // 2)
        p, q = max(p, q), min(p, q)
        n = p * q
        if math.gcd(p - 1, q - 1) == 2 and math.gcd(n, (p - 1) * (q - 1)) == 1:
            if n.bit_length() == bits and p - q > 1 << (bits // 2 - 100):
                return p, q, n
        k += 1


def one(bits):
    p, q, n = key(bits)
    n2 = n * n
    x = number(f"x{bits}", bits) % n
    hs = pow(-x * x % n, n, n2)
    assert pow(hs, (p - 1) * (q - 1), n2) == 1
    seed, mask_seed = stream(f"coins{bits}", 32), stream(f"mask{bits}", 32)
    slots = (bits - 2 - SLOT_S) // W
    values = []
    for i in range(slots):
        v = number(f"v{bits}/{i}", 64) % 26843 - 13421
        values.append([13421, -13421, 0, 1, -1][i] if i < 5 else v)
    packed = sum(v << (W * i) for i, v in enumerate(values))
    lowest = sum(-13421 << (W * i) for i in range(slots))
    plain = [0, n - 1, number(f"m{bits}", bits) % n, packed % n, lowest % n]
    cipher = []
    for i, m in enumerate(plain):
        r = int.from_bytes(chacha20(seed, 7 + i, bits // 16), "little")
        cipher.append((1 + m * n) * pow(hs, r, n2) % n2)
    product = 1
    for c in cipher:
        product = product * c % n2
    total = sum(plain) % n
    bound = W * slots + SLOT_S
    v = int.from_bytes(chacha20(mask_seed, 3, (bound + 7) // 8), "little") % (1 << bound)
    off = 1 << (W * slots)
    masked = cipher[3] * cipher[4] * (1 + (off + v) * n) % n2
    clear = packed + lowest + off + v
    assert 0 < clear < n
    digits = [((clear << G) >> (W * i)) % (1 << (W + G)) for i in range(slots)]

    def decrypt(c):
        lam = (p - 1) * (q - 1)
        return (pow(c, lam, n2) - 1) // n * pow(lam, -1, n) % n

    assert [decrypt(c) for c in cipher] == plain
    assert decrypt(product) == total and decrypt(masked) == clear

    pub = bits.to_bytes(2, "little") + n.to_bytes(bits // 8, "little") + hs.to_bytes(bits // 4, "little")
    sec = bits.to_bytes(2, "little") + p.to_bytes(bits // 16, "little")
    sec += q.to_bytes(bits // 16, "little") + hs.to_bytes(bits // 4, "little")
    print("{")
    print(f"    .bits = {bits},")
    print(f"    .slots = {slots},")
    emit("pub", int.from_bytes(pub, "little"), len(pub))
    emit("sec", int.from_bytes(sec, "little"), len(sec))
    emit("fingerprint", int.from_bytes(hashlib.sha256(pub).digest(), "little"), 32)
    emit("seed", int.from_bytes(seed, "little"), 32)
    print("    .plain = {")
    for m in plain:
        emit_item(m, bits // 8)
    print("    },")
    print("    .cipher = {")
    for c in cipher:
        emit_item(c, bits // 4)
    print("    },")
    emit("product", product, bits // 4)
    emit("total", total, bits // 8)
    print("    .values = {", ", ".join(map(str, values)), "},")
    emit("mask_seed", int.from_bytes(mask_seed, "little"), 32)
    emit("mask", v, bits // 8)
    emit("masked", masked, bits // 4)
    emit("clear", clear, bits // 8)
    print("    .digits = {", ", ".join(f"{d}u" for d in digits), "},")
    print("},")


def emit_item(value, nbytes):
    text = value.to_bytes(nbytes, "little").hex()
    for i in range(0, len(text), 88):
        print(f'        "{text[i:i + 88]}"')
    print("        ,")


print("/* Made by make_paillier.py; do not edit. Little-endian hex.")
print(" * plain: 0, N-1, a random number, `values` packed, -13421 in every slot packed; cipher i has the")
print(" * coins (seed, 7 + i); product and total are of all five; masked is the product of the last two")
print(" * under unit 3's mask, clear its plaintext, digits (w = 28, g = 16) those of clear. */")
print("/* clang-format off */")
print("static const vector vectors[] = {")
for b in (2048, 3072, 4096):
    one(b)
print("};")
