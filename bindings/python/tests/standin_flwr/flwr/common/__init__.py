"""flwr.common: parameters as bytes."""
from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np


@dataclass
class Parameters:
    tensors: list[bytes]
    tensor_type: str


def ndarrays_to_parameters(ndarrays: list[np.ndarray]) -> Parameters:
    def dump(a: np.ndarray) -> bytes:
        out = io.BytesIO()
        np.save(out, a, allow_pickle=False)
        return out.getvalue()

    return Parameters([dump(a) for a in ndarrays], "numpy.ndarray")


def parameters_to_ndarrays(parameters: Parameters) -> list[np.ndarray]:
    return [np.load(io.BytesIO(t), allow_pickle=False) for t in parameters.tensors]
