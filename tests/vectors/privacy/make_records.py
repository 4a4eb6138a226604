#!/usr/bin/env python3
"""The noise that records drawn in secret need, computed apart from the program: the expected z in
tests/property/privacy/test_records.c. Plain Python, no libraries.

The privacy loss of the joint noise at a Renyi order a is that of a Gaussian of multiplier
z / sqrt(1.0048), and rounds x values x 1.1e-22 is subtracted from delta (docs/PRIVACY.md, section 4).
This script uses whole orders alone, with binomial coefficients as exact integers, and finds z by
bisection; the program also searches between whole orders, so its z may be slightly smaller."""
from fractions import Fraction
from math import comb, exp, log, log1p, sqrt


def divergence(a, z, q):
    """Order a of the Poisson-sampled release [MTZ19, section 3.3], by its binomial sum."""
    c = 1.0048 / (2 * z * z)
    if q == 1:
        return a * c
    logs = [log(comb(a, k)) + k * log(q) + (a - k) * log1p(-q) + k * (k - 1) * c for k in range(a + 1)]
    top = max(logs)
    return (top + log(sum(exp(x - top) for x in logs))) / (a - 1)


def epsilon(z, q, rounds, values, delta):
    left = float(Fraction(delta) - Fraction(rounds * values) * Fraction(1.1e-22))
    return min(rounds * divergence(a, z, q) + log1p(-1 / a) * a / (a - 1) - log((a - 1) * left) / (a - 1)
               for a in range(2, 257))


def find_z(q, rounds, values, delta, target):
    low, high = 0.25, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if epsilon(middle, q, rounds, values, delta) <= target else (middle, high)
    return high


for rate in (1, 0.068, 0.02):
    z = find_z(rate, 140, 945510, 1e-5, 8)
    ratio = z * sqrt(945510) / (10 * 1000 * rate)
    print(f"rate {rate:<6} z {z:.6f}   noise over signal {ratio:.4f} (10 clients x 1000 records)")
