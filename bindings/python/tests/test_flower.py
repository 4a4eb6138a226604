"""sefl.flower with stand-ins for the library and for Flower; skipped without NumPy."""
from __future__ import annotations

import logging
import sys
import tempfile
import unittest
from pathlib import Path

from support import HERE, use_standin

use_standin()
sys.path.insert(0, str(HERE / "standin_flwr"))
try:
    import flwr.client
    import numpy as np
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays

    import sefl.flower
except ImportError:
    np = None
import sefl  # noqa: E402
from sefl import safetensors  # noqa: E402

logging.getLogger("sefl").addHandler(logging.NullHandler())
CONFIG = __file__


class Mine:
    """A Flower client that knows nothing of SEFL."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, object]] = []

    def fit(self, parameters, config):
        self.seen.append((float(parameters[0][0, 0]), config.get("server_round")))
        return [p.astype(np.float64) + 1 for p in parameters], 9, {"loss": 0.5}

    def evaluate(self, parameters, config):
        return 0.25, 3, {}


class Averages:
    """A Flower strategy."""

    def configure_fit(self, server_round, parameters, client_manager):
        return ["everybody"]

    def aggregate_fit(self, server_round, results, failures):
        raise AssertionError("Flower must not aggregate")


@unittest.skipIf(np is None, "NumPy is not installed")
class Flower(unittest.TestCase):
    def test_run(self) -> None:
        mine = Mine()
        sefl.flower.run(mine, CONFIG)
        self.assertEqual(mine.seen, [(0, 1), (1, 2), (2, 3)])

    def test_secure(self) -> None:
        mine = Mine()
        client = sefl.flower.secure(mine, CONFIG, settings={"rounds": 2, "late": 2})
        self.assertIsInstance(client, flwr.client.NumPyClient)
        wrong = ndarrays_to_parameters([np.full((2, 3), 5.0)])  # from Flower's server: ignored
        sent, n, metrics = flwr.client.fit(client, wrong, {"server_round": 7})
        self.assertEqual((sent.tensors, n), ([], 1))
        self.assertEqual(metrics, {"sefl_round": 1, "sefl_receipt": True})
        _, _, metrics = flwr.client.fit(client, wrong, {"server_round": 8})
        self.assertFalse(metrics["sefl_receipt"])
        self.assertEqual(mine.seen, [(0, 7), (1, 8)])
        self.assertEqual(client.evaluate([], {}), (0.25, 3, {}))
        self.assertEqual(client.get_parameters({}), [])
        with self.assertRaisesRegex(RuntimeError, "the task is over"):
            client.fit([], {})
        client.close()

    def test_metrics(self) -> None:
        client = sefl.flower.secure(Mine(), CONFIG, metrics=True)
        self.addCleanup(client.close)
        self.assertEqual(client.fit([], {})[2]["loss"], 0.5)

    def test_wrong_arrays(self) -> None:
        mine = Mine()
        mine.fit = lambda parameters, config: ([], 1, {})
        with self.assertRaisesRegex(ValueError, "0 arrays; the task has 3"):
            sefl.flower.run(mine, CONFIG)

    def test_strategy(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "models").mkdir()
            released = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(1, np.float32)]
            safetensors.write(
                Path(folder) / "models" / "round-1.safetensors", dict(zip(("p0", "p1"), released)))
            strategy = sefl.flower.Strategy(Averages(), Path(folder) / "aggregator.yml")
            self.assertEqual(strategy.configure_fit(1, None, None), ["everybody"])
            parameters, metrics = strategy.aggregate_fit(1, [], [])
            for got, wanted in zip(parameters_to_ndarrays(parameters), released, strict=True):
                np.testing.assert_array_equal(got, wanted)
            self.assertEqual(metrics, {"sefl_round": 1, "sefl_skipped": False, "sefl_epsilon": 2.5})
            self.assertEqual(strategy.aggregate_fit(2, [], []), (None, {"sefl_round": 2, "sefl_skipped": True}))
            strategy._timeout = 0.01
            with self.assertRaisesRegex(TimeoutError, "no round"):
                strategy.aggregate_fit(3, [], [])
            strategy.close()

    def test_save(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            sefl.flower.save([np.zeros((2, 3)), np.ones(1)], f"{folder}/start")
            tensors = sefl.numpy.load(f"{folder}/start")
        self.assertEqual({n: a.shape for n, a in tensors.items()}, {"p0000": (2, 3), "p0001": (1,)})


if __name__ == "__main__":
    unittest.main()
