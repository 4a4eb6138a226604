"""A client: takes part in a federation with your own training code."""
from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sefl import _abi
from sefl._buffer import Floats, named_tensors, own_floats, release_all
from sefl._library import check
from sefl._role import Log, Role
from sefl.errors import Status


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model, and its place in the flat vector."""

    name: str
    shape: tuple[int, ...]
    offset: int
    count: int
    trained: bool
    """False: the task does not train it; its submitted values are ignored."""


@dataclass(frozen=True)
class Receipt:
    """The aggregator's receipt for an upload. The library verified its signature and keeps it."""

    round: int
    bytes: int
    seconds: float
    hash: bytes
    """Salted hash of the encrypted update: its name in the aggregator's records."""


@dataclass(frozen=True)
class Progress:
    """What the client does now. It is not private."""

    doing: str
    round: int
    rounds: int
    done: int
    total: int
    bytes: int
    seconds: float
    claims_privacy: bool


class Round:
    """A round to train in.

    `values` is the global model, one writable vector of float32: all tensors, one after another.
    It belongs to you: train in place if you like. `round["name"]` is the part of one tensor, in its
    shape. Both are memoryviews, so that numpy.asarray(...) uses their memory without a copy.
    """

    def __init__(self, client: Client, c: _abi.Round) -> None:
        self._client = client
        self.number: int = c.number
        self.rounds: int = c.rounds
        self.task: str = _text(c.task)
        self.vocabulary: str | None = None if c.vocabulary is None else os.fsdecode(c.vocabulary)
        self.seconds_left: float = c.left_ms / 1000
        self.weight_cap: int = c.weight_cap
        self.claims_privacy: bool = bool(c.claims_privacy)
        self.values: memoryview = own_floats(c.values, c.count)
        self.tensors: tuple[Tensor, ...] = tuple(
            Tensor(_text(t.name), tuple(t.shape[: t.dims]), t.offset, t.count, bool(t.trained))
            for t in c.tensors[: c.tensor_count]
        )
        self._places = {t.name: t for t in self.tensors}

    def __getitem__(self, name: str) -> memoryview:
        t = self._places[name]
        flat = self.values[t.offset : t.offset + t.count]
        return flat.cast("B").cast("f", t.shape)

    def __repr__(self) -> str:
        return f"<sefl.Round {self.number} of {self.rounds}, {len(self.values)} values>"

    @property
    def wanted(self) -> bool:
        """True while this round still needs an update. Cheap: ask it after each training step."""
        client = self._client
        client._need_open()
        return client._round is self and client._call("wanted")(client._handle) == 1

    def submit(
        self, values: object | Mapping[str, object] | None = None, weight: int = 0
    ) -> Receipt | None:
        """Submits the trained values (not their difference) and waits for the receipt.

        values: any object with the buffer protocol that has as many float32 values as the model, or
        a mapping from names to such objects, which may lack tensors that the task does not train;
        None: this round's own `values`, trained in place. weight: the number of items that you
        trained on; the task caps it, and 0 means the cap.

        Returns None if the round closed without this update or the client was stopped: go on with
        the next round. InvalidError if the values do not fit: the round is still yours, so submit
        again or skip. Values that are not finite count as a skip.
        """
        weight = operator.index(weight)
        if not 0 <= weight < 1 << 64:
            raise ValueError(f"weight is {weight}; it must be from 0 to 2^64 - 1")
        if values is None:
            values = self.values
        if isinstance(values, Mapping):
            return self._submit_named(values, weight)
        floats = Floats(values)
        try:
            return self._send("submit", floats.pointer, floats.count, weight)
        finally:
            floats.release()

    def _submit_named(self, values: Mapping[str, object], weight: int) -> Receipt | None:
        floats: dict[str, Floats] = {}
        try:
            for name, tensor in values.items():
                floats[name] = Floats(tensor, name)
            named = named_tensors(floats, {t.name: t.shape for t in self.tensors})
            return self._send("submit_tensors", named, len(named), weight)
        finally:
            release_all(floats.values())

    def _send(self, verb: str, values: Any, count: int, weight: int) -> Receipt | None:
        self._client._need_open()
        if self._client._round is not self:
            return None  # the loop went on: this round is over for this client
        receipt = _abi.Receipt(size=ctypes.sizeof(_abi.Receipt))
        code = self._client._blocking(
            verb, values, count, weight, ctypes.byref(receipt),
            also=(Status.ETIMEOUT, Status.ECANCELLED),
        )
        self._client._round = None
        if code != Status.OK:
            return None
        return Receipt(receipt.round, receipt.bytes, receipt.ms / 1000, bytes(receipt.hash))

    def skip(self) -> None:
        """Ends the round without an update: zeros are uploaded, so nobody sees the difference."""
        self._client._need_open()
        if self._client._round is self:
            self._client._round = None
            check(self._client._call("skip")(self._client._handle))


class Client(Role):
    """A client of a federation, opened from the client.yml that `sefl enroll` or `sefl provision`
    wrote. Iterate over it: each round in which this client should train comes up once.

        with sefl.Client("client.yml") as client:
            for r in client:
                train(r.values)                  # your code, here in place
                r.submit(weight=examples)

    The library does everything around the training: policy, ledger, encryption, upload, receipts.
    A new process continues after a crash. Ctrl-C ends a wait or an upload.

    settings: settings that override the file. log: a `logging.Logger` (default: the logger "sefl")
    or a function of (level, event). progress: a function that gets `Progress`. once: ends after one
    round. Callbacks run on the library's threads, must return quickly, and may call only `stop`. An
    exception in a callback stops the client; the interrupted call raises it.

    One thread at a time may use a client; any thread may call `stop`. Do not fork a process with an
    open client (multiprocessing: use "spawn").
    """

    _name = "client"
    _handle_type = _abi.ClientHandle
    _options_type = _abi.ClientOptions

    def __init__(
        self,
        config: str | os.PathLike[str],
        *,
        settings: Mapping[str, object] | None = None,
        log: Log | None = None,
        log_level: str | None = None,
        progress: Callable[[Progress], None] | None = None,
        once: bool = False,
    ) -> None:
        self._round: Round | None = None
        self.why: str | None = None
        """Why the iteration ended; None before its end."""
        options: dict[str, Any] = {"once": int(once)}
        if progress is not None:
            options["progress"] = _abi.ProgressFunction(self._guard(_progress_function(progress)))
        super().__init__(config, settings=settings, log=log, log_level=log_level, **options)

    def wait(self, timeout: float | None = None) -> Round | None:
        """Blocks until this client should train. None: the task is over or `stop` was called, and
        `why` says which. TimeoutError after `timeout` seconds. A round that was neither submitted
        nor skipped is skipped."""
        self._round = None
        c = _abi.Round(size=ctypes.sizeof(_abi.Round))
        if timeout is None:
            code = self._blocking("wait", ctypes.byref(c), also=(Status.ECANCELLED,))
        else:
            ms = max(0, int(timeout * 1000))
            code = self._blocking(
                "wait_ms", ctypes.byref(c), ms, also=(Status.ECANCELLED, Status.ETIMEOUT)
            )
        if code == Status.ETIMEOUT:
            raise TimeoutError(f"no round within {timeout} seconds")
        if code == Status.ECANCELLED or c.number == 0:
            self.why = "stopped on request" if code == Status.ECANCELLED else _text(c.why)
            return None
        self._round = Round(self, c)
        return self._round

    def __iter__(self) -> Iterator[Round]:
        while (r := self.wait()) is not None:
            yield r

    def run(self) -> None:
        """Runs the client with the trainer of its configuration, as `sefl client` does, until the
        task is over or `stop` is called."""
        self._blocking("run")


def _progress_function(progress: Callable[[Progress], None]) -> Callable[..., None]:
    def call(_ctx: object, p: Any) -> None:
        v = p.contents
        progress(
            Progress(
                _text(v.doing), v.round, v.rounds, v.done, v.total, v.bytes, v.ms / 1000,
                bool(v.claims_privacy),
            )
        )

    return call


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
