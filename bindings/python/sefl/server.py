"""The two servers of a federation, each inside a program.

Both must belong to two parties that do not collude; both in one process protect nobody and are for
tests. `sefl provision` writes their configurations.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sefl import _abi
from sefl._role import Log, Role


@dataclass(frozen=True)
class RoundResult:
    """The result of a round, in public numbers; None: not known or not claimed."""

    round: int
    rounds: int
    skipped: bool
    blocked: bool
    clients: int | None
    epsilon_server: float | None
    epsilon_others: float | None
    perplexity: float | None
    seconds: float


class Server(Role):
    """What both servers have. `settings` override the file; `log` as for a client."""

    _options_type = _abi.ServerOptions

    def __init__(
        self,
        config: str | os.PathLike[str],
        *,
        settings: Mapping[str, object] | None = None,
        log: Log | None = None,
        log_level: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(config, settings=settings, log=log, log_level=log_level, **options)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        self._need_open()
        return int(self._call("port")(self._handle))

    def run(self) -> None:
        """Serves until the task is over or `stop` is called."""
        self._blocking("run")


class Aggregator(Server):
    """The aggregation server. on_round gets each round's result, on a thread of the library."""

    _name = "aggregator"
    _handle_type = _abi.AggregatorHandle

    def __init__(
        self,
        config: str | os.PathLike[str],
        *,
        on_round: Callable[[RoundResult], None] | None = None,
        settings: Mapping[str, object] | None = None,
        log: Log | None = None,
        log_level: str | None = None,
    ) -> None:
        options: dict[str, Any] = {}
        if on_round is not None:
            options["round"] = _abi.RoundFunction(self._guard(_round_function(on_round)))
        super().__init__(config, settings=settings, log=log, log_level=log_level, **options)


class Csp(Server):
    """The cryptography service provider. The file that unlocks its key is a setting."""

    _name = "csp"
    _handle_type = _abi.CspHandle


def _round_function(on_round: Callable[[RoundResult], None]) -> Callable[..., None]:
    def known(value: float) -> Any:
        return None if value == -1 else value

    def call(_ctx: object, result: Any) -> None:
        r = result.contents
        on_round(
            RoundResult(
                r.round, r.rounds, bool(r.skipped), bool(r.blocked), known(r.clients),
                known(r.epsilon_server), known(r.epsilon_others), known(r.perplexity), r.seconds,
            )
        )

    return call
