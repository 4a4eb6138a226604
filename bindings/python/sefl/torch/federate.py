"""Federates a PyTorch module.

    def train_one_round(model, round):
        for x, y in batches:
            ...
        return len(dataset)                  # the weight, or None

    sefl.torch.federate(model, train_one_round, "client.yml")
"""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch

from sefl import safetensors
from sefl._layout import check_shapes, only_text, parse_blocks
from sefl.client import Client, Round
from sefl.torch import hankel

TrainOneRound = Callable[[torch.nn.Module, Round], Optional[int]]
Predicate = Callable[[str], bool]


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the tensors that a federation averages: parameters and floating-point buffers by name.
    A tensor with several names appears under its first one; integer buffers stay local. A WordModel
    gives its matrices in dense form."""
    if hasattr(model, "dense_state"):
        return dict(model.dense_state())
    out: dict[str, torch.Tensor] = {}
    seen: set[tuple[object, ...]] = set()
    for name, tensor in model.state_dict().items():
        same = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if tensor.is_floating_point() and (tensor.numel() == 0 or same not in seen):
            seen.add(same)
            out[name] = tensor
    return out


def load_state(model: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Copies values into the tensors of `state`."""
    with torch.no_grad():
        if hasattr(model, "load_dense_state"):
            model.load_dense_state(values)
            return
        mine = state(model)
        for name, tensor in values.items():
            mine[name].copy_(tensor)


def only(model: torch.nn.Module, trainable: Predicate) -> str:
    """Returns the setting `training.only` of a task that trains some of the tensors, chosen by
    name."""
    return only_text(state(model), trainable)


def save(model: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes the tensors of `state` as a safetensors file: the public start of a federation (`sefl
    provision --init`, `sefl task new --init`), whose task then has these tensors."""
    mine = {name: _floats(t) for name, t in state(model).items()}
    safetensors.write(path, {name: _buffer(t) for name, t in mine.items()})


def restore(model: torch.nn.Module, path: str | os.PathLike[str]) -> torch.nn.Module:
    """Loads a file of `save`, or the model of a round that the aggregator released."""
    tensors, metadata = safetensors.read(path)
    values = {n: torch.frombuffer(t, dtype=torch.float32).view(t.shape) for n, t in tensors.items()}
    for name, shape in parse_blocks(metadata.get("blocks", "")).items():
        values[name] = values[name][hankel.index(*shape)]
    check_shapes({n: tuple(t.shape) for n, t in values.items()}, _shapes(model), "the module")
    load_state(model, values)
    return model


def federate(
    model: torch.nn.Module,
    train_one_round: TrainOneRound,
    config: str | os.PathLike[str],
    *,
    trainable: Predicate | None = None,
    **options: Any,
) -> torch.nn.Module:
    """Takes part in a federation until the task is over.

    Each round loads the global model into `model` and calls train_one_round(model, round), which
    trains it in place and returns the number of items that it trained on, or None. Only tensors that
    the task trains are sent; the other parameters are frozen. trainable: which tensors you expect
    the task to train, by name; ValueError if the task trains others. options: those of sefl.Client.

    Returns the model with the values of the last round that this client trained in.
    """
    with Client(config, **options) as client:
        for r in client:
            _check(model, r, trainable)
            _freeze(model, {t.name for t in r.tensors if not t.trained})
            load_state(model, _tensors(r))
            weight = train_one_round(model, r)
            trained = state(model)
            mine = {t.name: _floats(trained[t.name]) for t in r.tensors if t.trained}
            r.submit({name: _buffer(t) for name, t in mine.items()}, weight or 0)
    return model


def _shapes(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(t.shape) for name, t in state(model).items()}


def _check(model: torch.nn.Module, r: Round, trainable: Predicate | None) -> None:
    check_shapes({t.name: t.shape for t in r.tensors}, _shapes(model), "the module")
    for t in r.tensors if trainable is not None else ():
        if trainable(t.name) != t.trained:
            does = "trains" if t.trained else "does not train"
            raise ValueError(f'the task {does} "{t.name}", but `trainable` says otherwise')


def _freeze(model: torch.nn.Module, names: set[str]) -> None:
    for name, parameter in model.named_parameters():
        if name in names:
            parameter.requires_grad_(False)


def _tensors(r: Round) -> dict[str, torch.Tensor]:
    """The round's values as tensors that share their memory."""
    flat = torch.frombuffer(r.values, dtype=torch.float32)
    return {t.name: flat[t.offset : t.offset + t.count].view(t.shape) for t in r.tensors}


def _floats(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as contiguous float32 on the CPU; a copy only where needed."""
    return tensor.detach().to("cpu", torch.float32).contiguous()


def _buffer(tensor: torch.Tensor) -> memoryview:
    """The memory of a tensor from _floats, which must outlive the view."""
    memory = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())
    return memoryview(memory).cast("B").cast("f", tuple(tensor.shape))
