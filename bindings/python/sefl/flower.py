"""Routes the aggregation of a Flower app through SEFL. Needs NumPy.

This adapter follows Flower's documented interface (NumPyClient, Strategy). It has never run with
Flower itself: its tests use a stand-in with the same signatures.

With Flower's server, two lines change:

    client = sefl.flower.secure(MyClient(), "client.yml")                 # was: MyClient()
    strategy = sefl.flower.Strategy(FedAvg(), "aggregator.yml")           # was: FedAvg()

Flower still starts the rounds, but its server gets no parameters and no numbers of examples: each
client submits its update through SEFL, and the strategy returns the model that SEFL released. The
strategy runs SEFL's aggregator inside Flower's server; CSP runs elsewhere. Flower must select every
client in every round, and the task must not sample clients.

Without Flower's server, SEFL starts the rounds:

    sefl.flower.run(MyClient(), "client.yml")                             # was: start_client(...)

The task has the arrays in the order of get_parameters; `save` writes the file that it starts from.
"""
from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sefl import safetensors
from sefl.client import Client, Receipt, Round
from sefl.numpy import arrays, save as _save, submit
from sefl.server import Aggregator, RoundResult

try:
    from flwr.client import NumPyClient as _NumPyClient
except ImportError:  # `run` works without Flower
    _NumPyClient = object


def save(parameters: Sequence[np.ndarray], path: str | os.PathLike[str]) -> None:
    """Writes initial parameters as a safetensors file, the public start of a federation (`sefl
    provision --init`), under the names p0000, p0001, ..."""
    _save({f"p{i:04}": a for i, a in enumerate(parameters)}, path)


def _fit(client: Any, r: Round, config: dict[str, Any]) -> tuple[Receipt | None, dict[str, Any]]:
    """Trains a Flower client in a round of SEFL, and submits."""
    trained, examples, *rest = client.fit(list(arrays(r).values()), config)
    if len(trained) != len(r.tensors):
        raise ValueError(f"fit returned {len(trained)} arrays; the task has {len(r.tensors)}")
    named = {t.name: a for t, a in zip(r.tensors, trained)}
    return submit(r, named, int(examples)), rest[0] if rest else {}


def run(client: Any, config: str | os.PathLike[str], **options: Any) -> None:
    """Runs a Flower NumPyClient in SEFL's rounds, without Flower's server, until the task is over.
    fit gets the configuration {"server_round": n}. options: those of sefl.Client."""
    with Client(config, **options) as sefl_client:
        for r in sefl_client:
            _fit(client, r, {"server_round": r.number})


class SecureClient(_NumPyClient):  # type: ignore[misc,valid-type]
    """A Flower client whose updates go through SEFL. It trains on the model that SEFL verified, not
    on the parameters from Flower's server."""

    def __init__(
        self, client: Any, config: str | os.PathLike[str], *, metrics: bool = False, **options: Any
    ) -> None:
        self._inner, self._metrics = client, metrics
        self._sefl = Client(config, **options)

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        return self._inner.get_properties(config) if hasattr(self._inner, "get_properties") else {}

    def get_parameters(self, config: dict[str, Any]) -> list[np.ndarray]:
        return []  # the start is public: Strategy.initialize_parameters

    def fit(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        r = self._sefl.wait()
        if r is None:
            raise RuntimeError(f"the task is over: {self._sefl.why}")
        receipt, metrics = _fit(self._inner, r, config)
        said = {"sefl_round": r.number, "sefl_receipt": receipt is not None}
        return [], 1, {**(metrics if self._metrics else {}), **said}

    def evaluate(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        return self._inner.evaluate(parameters, config)

    def close(self) -> None:
        self._sefl.close()


def secure(
    client: Any, config: str | os.PathLike[str], *, metrics: bool = False, **options: Any
) -> SecureClient:
    """Wraps a NumPyClient. metrics: sends the metrics of its fit to Flower's server, in the clear.
    options: those of sefl.Client."""
    return SecureClient(client, config, metrics=metrics, **options)


class Strategy:
    """A Flower strategy that returns the models that SEFL released; everything but the aggregation
    is left to another strategy. models: the folder with the released models; default: `models`
    beside the configuration. options: those of sefl.Aggregator."""

    def __init__(
        self,
        strategy: Any,
        config: str | os.PathLike[str],
        *,
        models: str | os.PathLike[str] | None = None,
        timeout: float = 600,
        **options: Any,
    ) -> None:
        self._inner, self._timeout = strategy, timeout
        self._models = Path(config).parent / "models" if models is None else Path(models)
        self._results: queue.Queue[RoundResult | BaseException] = queue.Queue()
        self._server = Aggregator(config, on_round=self._results.put, **options)
        self._thread = threading.Thread(target=self._serve, name="sefl aggregator", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._server.run()
        except BaseException as why:  # raised by aggregate_fit
            self._results.put(why)

    def __getattr__(self, name: str) -> Any:
        """initialize_parameters, configure_fit, configure_evaluate, aggregate_evaluate, evaluate."""
        return getattr(self._inner, name)

    def aggregate_fit(
        self, server_round: int, results: list[Any], failures: list[Any], **_: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Waits for SEFL's round; None, and the model stays as it is, if SEFL skipped or blocked
        the round."""
        from flwr.common import ndarrays_to_parameters

        try:
            result = self._results.get(timeout=self._timeout)
        except queue.Empty:
            raise TimeoutError(f"SEFL finished no round within {self._timeout} seconds") from None
        if isinstance(result, BaseException):
            raise result
        metrics = {"sefl_round": result.round, "sefl_skipped": result.skipped or result.blocked}
        if result.epsilon_server is not None:
            metrics["sefl_epsilon"] = result.epsilon_server
        if result.skipped or result.blocked:
            return None, metrics
        tensors, _ = safetensors.read(self._models / f"round-{result.round}.safetensors")
        return ndarrays_to_parameters([np.asarray(t) for t in tensors.values()]), metrics

    def close(self) -> None:
        """Stops the aggregator."""
        self._server.stop()
        self._thread.join()
        self._server.close()
