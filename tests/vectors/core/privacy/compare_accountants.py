#!/usr/bin/env python3
"""Compares `sefl privacy plan` with Google's dp-accounting and with Opacus, whichever is installed.

    pip install dp-accounting opacus          (either will do)
    python3 tests/vectors/core/privacy/compare_accountants.py build/sefl

Renyi totals must agree to three digits (their orders are a coarser grid, so theirs may be a little
larger), and the numerical interval must hold or touch their PLD total (which is an upper bound).
"""
import json
import subprocess
import sys

SETTINGS = [(1.0, 0.01, 1000, 1e-5), (1.1, 0.01, 10000, 1e-6), (0.8, 0.001, 20000, 1e-7),
            (2.0, 0.05, 500, 1e-8), (4.0, 0.1, 2000, 1e-9), (1.0, 1.0, 10, 1e-5),
            (10.0, 1.0, 1000, 1e-6)]
ORDERS = [1 + x / 20 for x in range(1, 400)] + list(range(21, 257))


def ours(sefl, z, rate, rounds, delta):
    out = subprocess.run([sefl, "privacy", "plan", "--clients", "1000", "--noise", "cdp", "--pld",
                          "--z", repr(z), "--sample-rate", repr(rate), "--rounds", str(rounds),
                          "--delta", repr(delta), "--dim", "1000", "--json"],
                         check=True, capture_output=True, text=True).stdout
    plan = json.loads(out)
    return plan["others"]["epsilon"], plan["others_pld"]["lower"], plan["others_pld"]["upper"]


def peers():
    found = []
    try:
        import dp_accounting as dpa
        from dp_accounting import pld, rdp

        def event(z, rate, rounds):
            step = dpa.GaussianDpEvent(z)
            if rate < 1:
                step = dpa.PoissonSampledDpEvent(rate, step)
            return dpa.SelfComposedDpEvent(step, rounds)

        found.append(("dp-accounting RDP", "rdp", lambda z, q, t, d: rdp.RdpAccountant(ORDERS)
                      .compose(event(z, q, t)).get_epsilon(d)))
        found.append(("dp-accounting PLD", "pld", lambda z, q, t, d: pld.PLDAccountant()
                      .compose(event(z, q, t)).get_epsilon(d)))
    except ImportError:
        print("dp-accounting is not installed")
    try:
        from opacus.accountants.analysis import rdp as ordp

        def opacus(z, q, t, d):
            curve = ordp.compute_rdp(q=q, noise_multiplier=z, steps=t, orders=ORDERS)
            return ordp.get_privacy_spent(orders=ORDERS, rdp=curve, delta=d)[0]

        found.append(("Opacus RDP", "rdp", opacus))
    except ImportError:
        print("Opacus is not installed")
    return found


def main():
    sefl = sys.argv[1] if len(sys.argv) > 1 else "build/sefl"
    others, bad = peers(), 0
    if not others:
        print("nothing to compare with")
        return 77
    for s in SETTINGS:
        renyi, lower, upper = ours(sefl, *s)
        print("z %g rate %g rounds %d delta %g: Renyi %.5f, numerical %.5f to %.5f" %
              (*s, renyi, lower, upper))
        for name, kind, f in others:
            theirs = f(*s)
            if kind == "rdp":
                ok = abs(theirs / renyi - 1) < 1e-3
            else:
                ok = lower * 0.999 <= theirs <= upper * 1.01
            bad += not ok
            print("    %-20s %.5f %s" % (name, theirs, "" if ok else "DIFFERS"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
