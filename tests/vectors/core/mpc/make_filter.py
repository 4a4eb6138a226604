#!/usr/bin/env python3
"""Prints filter.h: correlated noise computed with Python's integers, for test_filter.c.

    tests/vectors/core/mpc/make_filter.py > tests/vectors/core/mpc/filter.h

Everything is computed on rationals of the sum that nobody knows (fractions, no modulus) and only then
split and reduced: y of both servers together must be the aggregate minus gamma / 4096 of the old noise.
"""
from fractions import Fraction
import random

random.seed(24)
ROWS = 60

print("/* Made by make_filter.py: k t g; gamma 1..4; shares kept before, CSP then AS; digits n, v with J;")
print(" * x CSP, AS; coins U CSP, AS; jumps CSP, AS; then H, y, d, kept: CSP, AS each. */")
print("/* clang-format off */")
print("static const uint64_t filter_rows[][31] = {")
for row in range(ROWS):
    k, t, g = random.choice([(16, 12, 16), (16, 12, 0), (20, 14, 16), (24, 12, 16), (19, 12, 0)])
    f = 52 - k
    b = random.randint(1, 4)
    gamma = [0, 0, 0, 0]
    for j in range(b):
        gamma[j] = random.randint(0, 4096 - sum(gamma))
    noise = [random.randint(-(1 << (f + 9)), 1 << (f + 9)) for _ in range(4)]
    kept_a = [random.getrandbits(64) for _ in range(4)]
    kept_c = [(n - a) % 2**64 for n, a in zip(noise, kept_a)]
    fine = k + t + g
    v = random.getrandbits(fine)
    aggregate = random.randint(-(1 << (fine - 4)), 1 << (fine - 4))
    n = (v + aggregate) % 2**fine
    x = random.randint(0, 123)
    x_a = random.getrandbits(k + 12)
    x_c = (x - x_a) % 2 ** (k + 12)
    u_c, u_a = random.getrandbits(f), random.getrandbits(f)
    jump_c, jump_a = random.choice([0, 0, 0, 40, -3]), random.choice([0, 0, 0, -77, 5])

    # the floor of (q + 2^11) / 2^12, as a fraction of the remainder of q
    h_c = (Fraction((-sum(c * s for c, s in zip(gamma, kept_c)) + 2048) % 2**64, 4096)).__floor__()
    h_a = (Fraction((-sum(c * s for c, s in zip(gamma, kept_a)) + 2048) % 2**64, 4096)).__floor__()
    exact = Fraction(-sum(c * s for c, s in zip(gamma, noise)), 4096)
    y_c = (n * 2 ** (f - t - g) + h_c) % 2**52
    y_a = (v * 2 ** (f - t - g) - h_a) % 2**52
    mu = Fraction(aggregate, 2 ** (t + g)) * 2**f + exact
    off = (y_c - y_a - mu) % 2**52
    assert off <= 1 or off >= 2**52 - 1, off  # together within one unit of the exact place
    d_c = (y_c + u_c) // 2**f + jump_c
    d_a = (y_a + u_a) // 2**f - jump_a
    released = d_c + x_c + x_a - d_a - 62  # an integer modulo 2^k, plus 1/2
    keep_c = (x_c * 2**f + d_c * 2**f - y_c) % 2**64
    keep_a = (x_a * 2**f - (d_a * 2**f - y_a) - 123 * 2 ** (f - 1)) % 2**64
    both = (Fraction(2 * released + 1, 2) * 2**f - (y_c - y_a)) % 2**52
    assert (keep_c + keep_a - both) % 2**52 == 0
    small = (keep_c + keep_a + 2**63) % 2**64 - 2**63
    assert abs(small) < 2 ** (f + 9)
    numbers = [k, t, g, *gamma, *kept_c, *kept_a, n, v, x_c, x_a, u_c, u_a, jump_c % 2**64, jump_a % 2**64]
    numbers += [h_c, h_a, y_c, y_a, d_c % 2**64, d_a % 2**64, keep_c, keep_a]
    lines = [", ".join("0x%x" % z for z in numbers[i : i + 4]) for i in range(0, len(numbers), 4)]
    print("    { " + ",\n      ".join(lines) + " },")
print("};")
