#!/usr/bin/env python3
"""Writes epsilon.csv: privacy totals computed independently of the C code, at 40 digits.

Method: the Renyi divergence is integrated numerically from its definition,
    D_a = log( integral p(x)^a q(x)^(1-a) dx ) / (a-1),
p the mixture (1-r) N(0,z^2) + r N(1,z^2), q = N(0,z^2), by adaptive Gauss-Legendre quadrature
(mpmath.quad); then the conversion is minimised over real orders by golden section. Gaussian
releases without sampling also get their exact epsilon, from the normal distribution function, and
two sampled releases their exact epsilon, by integrating the closed form of one release over the
privacy loss of the other.

    python3 tests/vectors/core/privacy/make_epsilon.py > tests/vectors/core/privacy/epsilon.csv
"""
import sys
from mpmath import mp, mpf, quad, log, exp, sqrt, erfc, pi, inf, findroot

mp.dps = 40


def normal_pdf(x, m, s):
    return exp(-((x - m) ** 2) / (2 * s * s)) / (s * sqrt(2 * pi))


def ndtr(x):
    return erfc(-x / sqrt(mpf(2))) / 2


def renyi(a, z, r):
    z, r, a = mpf(z), mpf(r), mpf(a)

    def f(x):
        lr = (2 * x - 1) / (2 * z * z)
        return normal_pdf(x, 0, z) * (1 - r + r * exp(lr)) ** a

    # pieces of about 2 z, wide enough for mass near 0 and near a
    lo, hi = -16 * z, max(a, mpf(2)) + 16 * z
    n = int((hi - lo) / min(2 * z, 2 * z * z if z < 1 else 2 * z)) + 2
    pts = [lo + (hi - lo) * i / n for i in range(n + 1)]
    return log(quad(f, pts, maxdegree=5)) / (a - 1)


def factor(how, a):
    return a * log(1 - 1 / a) - log(a - 1) if how == "cks" else mpf(0)


def golden(f, lo, hi, steps=44):
    g = (sqrt(mpf(5)) - 1) / 2
    a, b = lo, hi
    c, d = b - g * (b - a), a + g * (b - a)
    fc, fd = f(c), f(d)
    for _ in range(steps):
        if fc < fd:
            b, d, fd = d, c, fc
            c = b - g * (b - a)
            fc = f(c)
        else:
            a, c, fc = c, d, fd
            d = a + g * (b - a)
            fd = f(d)
    return min(fc, fd)


def eps_renyi(how, z, r, T, delta, top=None):
    delta = mpf(delta)

    def at(b):
        a = 1 + exp(b)
        tau = T * (a / (2 * mpf(z) ** 2) if r == 1 else renyi(a, z, r))
        return tau + (factor(how, a) - log(delta)) / (a - 1)

    # the best order is near that of the Gaussian of the same variance; look around it
    hi = log(mpf(top or 400))
    return golden(at, log(mpf("0.05")), hi, 44 if r == 1 else 26)


def eps_exact(z, T, delta):
    s = mpf(z) / sqrt(mpf(T))

    def d(e):
        return ndtr(1 / (2 * s) - e * s) - exp(e) * ndtr(-1 / (2 * s) - e * s)

    return bisect(d, delta)


def bisect(d, delta):
    lo, hi = mpf(0), mpf(1)
    while d(hi) > delta:
        hi *= 2
    for _ in range(60):
        mid = (lo + hi) / 2
        if d(mid) > delta:
            lo = mid
        else:
            hi = mid
    return hi


def one_delta(e, z, r, there):
    """hockey-stick divergence of one sampled release, closed form, any real e"""
    z, r = mpf(z), mpf(r)
    g = exp(e)
    if there:  # P mixture, Q N(0): outcomes above x*
        rest = (g - (1 - r)) / r
        if rest <= 0:
            return 1 - g
        x = z * z * log(rest) + mpf(1) / 2
        return (1 - r) * ndtr(-x / z) + r * ndtr(-(x - 1) / z) - g * ndtr(-x / z)
    rest = (1 / g - (1 - r)) / r  # P N(0), Q mixture: outcomes below x*
    if rest <= 0:
        return mpf(0)
    x = z * z * log(rest) + mpf(1) / 2
    return ndtr(x / z) - g * ((1 - r) * ndtr(x / z) + r * ndtr((x - 1) / z))


def eps_two(z, r, delta):
    """two sampled releases: E over the first's outcome of the second's delta"""
    mp.dps = 20
    z, r = mpf(z), mpf(r)
    best = mpf(0)
    for there in (True, False):
        def d(e):
            def f(x):
                l = log(1 - r + r * exp((2 * x - 1) / (2 * z * z)))
                p = normal_pdf(x, 0, z)
                if there:
                    return p * exp(l) * one_delta(e - l, z, r, True)
                return p * one_delta(e + l, z, r, False)
            pts = [-12 * z + (1 + 24 * z) * i / 24 for i in range(25)]
            # the second release's delta has a kink where its epsilon passes the largest or
            # smallest possible loss
            rest = (exp((e if there else -e) - log(1 - r)) - (1 - r)) / r
            if rest > 0:
                kink = z * z * log(rest) + mpf(1) / 2
                if pts[0] < kink < pts[-1]:
                    pts = sorted(pts + [kink])
            return quad(f, pts, maxdegree=5)
        lo, hi = mpf(0), mpf(1)
        while d(hi) > delta:
            hi *= 2
        for _ in range(28):
            mid = (lo + hi) / 2
            lo, hi = (mid, hi) if d(mid) > delta else (lo, mid)
        best = max(best, hi)
    mp.dps = 40
    return best


print("# made by make_epsilon.py; kind,z,rate,count,delta,epsilon")
GAUSS = [("1", 1, "1e-5"), ("0.5", 10, "1e-6"), ("2", 100, "1e-7"), ("10", 1000, "1e-9"),
         ("30", 1000, "1e-8"), ("0.25", 3, "1e-5"), ("4", 40, "1e-5")]
SAMPLED = [("1", "0.001", 10000, "1e-5"), ("0.8", "0.001", 100000, "1e-7"),
           ("1.3", "0.00426666666666666667", 3515, "1e-5"), ("1.1", "0.01", 1000, "1e-6"),
           ("1", "0.01", 10000, "1e-5"), ("2", "0.05", 500, "1e-8"), ("0.7", "0.02", 300, "1e-5"),
           ("4", "0.1", 5000, "1e-9"), ("1.5", "0.5", 20, "1e-6"), ("3", "0.9", 50, "1e-7"),
           ("0.6", "0.003", 2000, "1e-6"), ("10", "0.2", 1000, "1e-5")]
for z, T, d in GAUSS:
    for how in ("cks", "mironov"):
        print(f"{how},{z},1,{T},{d},{mp.nstr(eps_renyi(how, z, 1, T, d, 20000), 12)}", flush=True)
    print(f"exact,{z},1,{T},{d},{mp.nstr(eps_exact(z, T, mpf(d)), 12)}", flush=True)
mp.dps = 25
for z, r, T, d in SAMPLED:
    for how in ("cks", "mironov"):
        print(f"{how},{z},{r},{T},{d},{mp.nstr(eps_renyi(how, z, r, T, d), 10)}", flush=True)
    sys.stderr.write(f"{z} {r} {T}\n")
for z, r, d in [("1", "0.01", "1e-5"), ("0.5", "0.1", "1e-6"), ("2", "0.5", "1e-5")]:
    print(f"exact,{z},{r},2,{d},{mp.nstr(eps_two(z, r, mpf(d)), 10)}", flush=True)
