#!/usr/bin/env python3
"""Writes turns.csv: what records that take turns cost, computed apart from the program. Plain Python,
no libraries.

    python3 tests/vectors/core/ledger/make_turns.py > tests/vectors/core/ledger/turns.csv

uses     the most often that one record is used in the rounds first .. last, counted: the schedule of
         docs/PRIVACY.md, section 7, is run with exact fractions for sites of 1 to 150 records and
         several values of records_max.
epsilon  of so many releases of the joint noise, without sampling, at delta: the Renyi divergence of
         order a is that of a Gaussian of multiplier z / sqrt(1.0048), and uses x values x 1.1e-22 is
         subtracted from delta (docs/PRIVACY.md, section 4). The order is found by golden section.
A row `z` has, in the place of epsilon, the target, and in the place of z the smallest z that keeps it."""
from fractions import Fraction
from math import ceil, exp, floor, log, log1p


def schedule(n, rounds, turns, most):
    """The places that each round uses."""
    a = min(Fraction(most), Fraction(turns * n, rounds))
    return [[p % n for p in range(floor((r - 1) * a), floor(r * a))] for r in range(1, rounds + 1)]


def count_uses(rounds, turns, first, last):
    most_used = 0
    for n in list(range(1, 30)) + [60, 97, 150]:
        full = ceil(Fraction(turns * n, rounds))
        for most in {1, max(1, full // 2), full, n}:
            times = [0] * n
            for used in schedule(n, rounds, turns, most):
                assert len(used) <= most and len(set(used)) == len(used)
            for used in schedule(n, rounds, turns, most)[first - 1:last]:
                for p in used:
                    times[p] += 1
            most_used = max(most_used, max(times))
    return most_used


def epsilon_at(a, z, count, left):
    return count * a * 1.0048 / (2 * z * z) + log1p(-1 / a) * a / (a - 1) - log((a - 1) * left) / (a - 1)


def epsilon(z, count, values, delta):
    left = float(Fraction(delta) - Fraction(count * values) * Fraction("1.1e-22"))
    low, high, g = log(0.01), log(255.0), (5 ** 0.5 - 1) / 2
    for _ in range(200):
        c, d = high - g * (high - low), low + g * (high - low)
        if epsilon_at(1 + exp(c), z, count, left) < epsilon_at(1 + exp(d), z, count, left):
            high = d
        else:
            low = c
    return epsilon_at(1 + exp(low), z, count, left)


def find_z(target, count, values, delta):
    low, high = 0.25, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if epsilon(middle, count, values, delta) <= target else (middle, high)
    return high


print("# made by make_turns.py; kind,rounds,turns,first,last,values,delta,uses,z,epsilon")
for rounds, turns, first, last, values, delta, z in (
        (140, 10, 1, 140, 945510, "1e-5", 2.1), (140, 10, 1, 1, 945510, "1e-5", 2.1),
        (140, 10, 1, 15, 945510, "1e-5", 2.1), (140, 10, 70, 97, 945510, "1e-5", 2.1),
        (140, 10, 70, 98, 945510, "1e-5", 2.1), (30, 30, 1, 30, 44900, "1e-6", 4),
        (30, 29, 1, 30, 44900, "1e-6", 4), (30, 29, 3, 29, 44900, "1e-6", 4),
        (100, 7, 1, 43, 14616, "1e-6", 1.5), (100, 7, 43, 99, 14616, "1e-6", 1.5),
        (217, 3, 1, 217, 88448, "1e-5", 1.2), (217, 1, 100, 217, 88448, "1e-5", 0.8),
        (25, 4, 6, 20, 1000, "1e-7", 0.5)):
    uses = count_uses(rounds, turns, first, last)
    print(f"epsilon,{rounds},{turns},{first},{last},{values},{delta},{uses},{z},{epsilon(z, uses, values, delta):.9f}")
for rounds, turns, values, delta, target in ((140, 140, 945510, "1e-5", 8), (140, 70, 945510, "1e-5", 8),
                                             (140, 10, 945510, "1e-5", 8), (140, 3, 945510, "1e-5", 8),
                                             (30, 30, 945510, "1e-5", 8), (30, 30, 945510, "1e-5", 1)):
    uses = count_uses(rounds, turns, 1, rounds)
    print(f"z,{rounds},{turns},1,{rounds},{values},{delta},{uses},{find_z(target, uses, values, delta):.9f},{target}")
