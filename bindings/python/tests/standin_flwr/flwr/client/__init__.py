"""flwr.client: NumPyClient, and what Flower's runtime does with it."""
from __future__ import annotations

from typing import Any

import numpy as np

from flwr.common import Parameters, ndarrays_to_parameters, parameters_to_ndarrays


class NumPyClient:
    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        return {}

    def get_parameters(self, config: dict[str, Any]) -> list[np.ndarray]:
        return []

    def fit(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        return [], 0, {}

    def evaluate(
        self, parameters: list[np.ndarray], config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        return 0.0, 0, {}


def fit(client: NumPyClient, parameters: Parameters, config: dict[str, Any]) -> tuple[Parameters, int, dict]:
    """A round at the client, as Flower's wrapper of a NumPyClient calls it."""
    out, n, metrics = client.fit(parameters_to_ndarrays(parameters), config)
    if not (isinstance(out, list) and isinstance(n, int) and isinstance(metrics, dict)):
        raise TypeError("fit must return (list, int, dict)")
    if not all(isinstance(v, (bool, bytes, float, int, str)) for v in metrics.values()):
        raise TypeError("metrics must be scalars")
    return ndarrays_to_parameters(out), n, metrics
