"""Reads and writes safetensors files of float32 tensors, without other packages.

    tensors, metadata = sefl.safetensors.read("round-12.safetensors")
    weight = numpy.asarray(tensors["fc.weight"])       # the same memory
"""
from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping

from sefl._buffer import Floats

_HEADER_MAX = 100_000_000


def read(path: str | os.PathLike[str]) -> tuple[dict[str, memoryview], dict[str, str]]:
    """Returns the tensors, as writable memoryviews in their shapes, and the metadata. ValueError if
    the file is malformed or a tensor is not float32."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_HEADER_MAX, size - 8):
            raise ValueError(f"{path}: not a safetensors file")
        try:
            header = json.loads(file.read(length))
        except ValueError:
            raise ValueError(f"{path}: the header is not JSON") from None
        data = bytearray(size - 8 - length)
        file.readinto(data)
    if not isinstance(header, dict):
        raise ValueError(f"{path}: the header is not an object")
    metadata = header.pop("__metadata__", {})
    return {name: _tensor(path, name, entry, data) for name, entry in header.items()}, metadata


def _tensor(path: object, name: str, entry: object, data: bytearray) -> memoryview:
    try:
        kind, shape = entry["dtype"], tuple(entry["shape"])  # type: ignore[index]
        begin, end = entry["data_offsets"]  # type: ignore[index]
        fits = 0 <= begin <= end <= len(data) and all(n >= 0 for n in shape)
        fits = fits and end - begin == 4 * math.prod(shape)
    except (TypeError, KeyError, ValueError):
        raise ValueError(f'{path}: tensor "{name}" is malformed') from None
    if kind != "F32":
        raise ValueError(f'{path}: tensor "{name}" has the type {kind}; only F32 is supported')
    if not fits:
        raise ValueError(f'{path}: tensor "{name}" does not fit its place in the file')
    flat = memoryview(data)[begin:end]
    return flat.cast("f", shape) if end > begin else flat.cast("f")


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, object],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes tensors: objects with the buffer protocol that have float32 values. An existing file is
    replaced at the end, so that no reader sees half a file."""
    header: dict[str, object] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    floats: list[Floats] = []
    try:
        at = 0
        for name, values in tensors.items():
            f = Floats(values, name)
            floats.append(f)
            end = at + 4 * f.count
            header[name] = {"dtype": "F32", "shape": list(f.shape), "data_offsets": [at, end]}
            at = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        partial = f"{os.fspath(path)}.tmp"
        with open(partial, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for f in floats:
                file.write(f.bytes)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        for f in floats:
            f.release()
