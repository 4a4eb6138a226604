"""Models as dictionaries of NumPy arrays.

    def train(arrays, round):                # arrays["fc.weight"], ...: change them in place
        ...
        return examples                      # the number of items, or None

    sefl.numpy.federate(train, "client.yml")
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sefl import safetensors
from sefl._layout import only_text
from sefl.client import Client, Receipt, Round

Arrays = dict[str, np.ndarray]


def arrays(round: Round) -> Arrays:
    """Returns the global model as arrays that share the memory of round.values."""
    flat = np.frombuffer(round.values, dtype=np.float32)
    return {t.name: flat[t.offset : t.offset + t.count].reshape(t.shape) for t in round.tensors}


def submit(round: Round, trained: Mapping[str, Any], weight: int = 0) -> Receipt | None:
    """Submits trained arrays, in any order; converts them to float32 where needed. The result is
    that of Round.submit."""
    return round.submit(_floats(trained), weight)


def federate(
    train: Callable[[Arrays, Round], int | None],
    config: str | os.PathLike[str],
    **options: Any,
) -> Arrays:
    """Takes part in a federation until the task is over. Each round, `train` gets the global model
    as arrays, which it changes in place, and returns the number of items that it trained on, or
    None. Returns the last model that this client trained. options: those of sefl.Client."""
    model: Arrays = {}
    with Client(config, **options) as client:
        for r in client:
            model = arrays(r)
            r.submit(weight=train(model, r) or 0)
    return model


def save(model: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes arrays as a safetensors file: the public start of a federation (`sefl provision
    --init`, `sefl task new --init`), whose task then has these tensors."""
    safetensors.write(path, _floats(model))


def load(path: str | os.PathLike[str]) -> Arrays:
    """Reads a safetensors file, for example the model of a round. A block-Hankel matrix is the
    vector of its values; sefl.torch.restore expands it."""
    return {name: np.asarray(t) for name, t in safetensors.read(path)[0].items()}


def only(model: Iterable[str], trainable: Callable[[str], bool]) -> str:
    """Returns the setting `training.only` of a task that trains some of the tensors."""
    return only_text(model, trainable)


def _floats(model: Mapping[str, Any]) -> Arrays:
    return {
        name: np.ascontiguousarray(a, dtype=np.float32).reshape(np.shape(a))
        for name, a in model.items()
    }
