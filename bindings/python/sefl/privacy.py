"""How much privacy a task would spend, how much noise it needs, and what a ledger records.

    claim = sefl.privacy.plan(values=100_000, clients=1000, rounds=40, epsilon=3, delta=1e-6)
    print(claim.z, claim.epsilon_server)

The numbers are those of `sefl privacy plan`.
"""
from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from sefl import _abi
from sefl._library import check, library

_NOISE = {"joint": _abi.CONSTANTS["NOISE_JOINT"], "own": _abi.CONSTANTS["NOISE_OWN"]}
_UNITS = {_abi.CONSTANTS[f"UNIT_{name.upper()}"]: name for name in ("client", "record", "mixed")}
_NEIGHBOURS = {"zero-out": _abi.CONSTANTS["ZERO_OUT"], "replace": _abi.CONSTANTS["REPLACE"]}


@dataclass(frozen=True)
class Claim:
    """What a task can claim."""

    claimed: bool
    """False: nothing is claimed, and `why_not` says why."""
    z: float
    epsilon_server: float
    """Against a server, or anyone who sees participation; infinite if nothing is claimed."""
    epsilon_others: float
    """Against everybody else."""
    noise_over_signal: float | None
    """Norm of the noise over the largest norm of a sum; None without `clients`."""
    clients_for_signal: float
    """Clients per round for noise no larger than the signal."""
    why_not: str | None


@dataclass(frozen=True)
class Ledger:
    """What a ledger file records: the ledger of a client's owner or of a server."""

    tasks: int
    rounds: int
    claimed: bool
    unit: str
    """What a claim protects: "client", "record", or "mixed" if the tasks differ."""
    delta: float
    epsilon_server: float
    epsilon_others: float
    why_not: str | None


def plan(
    *,
    values: int,
    rounds: int,
    delta: float,
    z: float | None = None,
    epsilon: float | None = None,
    clients: int = 0,
    rate: float = 1.0,
    noise: str = "joint",
    neighbours: str = "zero-out",
    max_rounds_per_client: int = 0,
    public_count: bool = False,
) -> Claim:
    """Computes the privacy of a task from its noise multiplier z, or the smallest z for an epsilon
    against a server. values: numbers in an update. noise: "joint" (the servers sample the noise
    together) or "own". neighbours: "zero-out" or "replace". rate: the share of clients drawn in a
    round. InvalidError names a value out of range; BudgetError if no z suffices."""
    if (z is None) == (epsilon is None):
        raise ValueError("give either z or epsilon")
    p = _abi.PrivacyPlan(
        size=ctypes.sizeof(_abi.PrivacyPlan),
        noise=_choice("noise", noise, _NOISE),
        neighbours=_choice("neighbours", neighbours, _NEIGHBOURS),
        values=values, clients=clients, rounds=rounds,
        max_rounds_per_client=max_rounds_per_client, rate=rate, delta=delta,
        z=z or 0, epsilon=epsilon or 0, public_count=public_count,
    )
    c = _abi.PrivacyClaim(size=ctypes.sizeof(_abi.PrivacyClaim))
    check(library().sefl_privacy_compute(c, p))
    return Claim(
        bool(c.claimed), c.z, c.epsilon_server, c.epsilon_others,
        c.noise_over_signal if clients else None, c.clients_for_signal,
        None if c.why_not is None else c.why_not.decode(),
    )


def epsilon(**settings: object) -> float:
    """Returns the epsilon against a server for a noise multiplier z; `plan` has the arguments."""
    return plan(**settings).epsilon_server  # type: ignore[arg-type]


def noise(**settings: object) -> float:
    """Returns the smallest noise multiplier z for an epsilon; `plan` has the arguments."""
    return plan(**settings).z  # type: ignore[arg-type]


def ledger(path: str | os.PathLike[str], delta: float = 0) -> Ledger:
    """Reads a ledger without changing or locking it. delta 0: that of its latest task with a
    claim."""
    s = _abi.LedgerStatus(size=ctypes.sizeof(_abi.LedgerStatus))
    check(library().sefl_ledger_read(s, os.fsencode(path), delta))
    return Ledger(
        s.tasks, s.rounds, bool(s.claimed), _UNITS[s.unit], s.delta, s.epsilon_server,
        s.epsilon_others, s.why_not.decode() or None,
    )


def _choice(name: str, value: str, choices: dict[str, int]) -> int:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
    return choices[value]
