"""Arrays of other libraries as float32 buffers, without copies."""
from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable

from sefl import _abi

_C_CONTIGUOUS, _FORMAT = 0x0020 | 0x0010 | 0x0008, 0x0004  # PyBUF_*, from CPython's object.h


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


class Floats:
    """The float32 values of an object with the buffer protocol. The object stays locked until
    `release`: it cannot be resized or freed meanwhile.

    TypeError if it has no buffer, or its values are not C-contiguous float32.
    """

    def __init__(self, source: object, name: str = "values") -> None:
        try:
            view = memoryview(source)  # type: ignore[arg-type]
        except TypeError:
            hint = "; use sefl.torch, or .numpy()" if hasattr(source, "data_ptr") else ""
            raise TypeError(
                f"{name}: {type(source).__name__} has no buffer of float32 values{hint}"
            ) from None
        if view.format.lstrip("@=<") != "f" or view.itemsize != 4:
            raise TypeError(f"{name}: the values have the format {view.format!r}, not float32 ('f')")
        if not view.c_contiguous:
            raise TypeError(f"{name}: the values are not contiguous; make a copy first")
        self.shape: tuple[int, ...] = view.shape
        self.count = math.prod(view.shape)
        self._view = view
        self._raw = _PyBuffer()
        get = ctypes.pythonapi.PyObject_GetBuffer
        get.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
        get(view, self._raw, _C_CONTIGUOUS | _FORMAT)
        self.pointer = ctypes.cast(self._raw.buf, ctypes.POINTER(ctypes.c_float))

    @property
    def bytes(self) -> memoryview:
        return self._view.cast("B") if self.count > 0 else memoryview(b"")

    def release(self) -> None:
        free = ctypes.pythonapi.PyBuffer_Release
        free.argtypes, free.restype = [ctypes.POINTER(_PyBuffer)], None
        free(self._raw)
        self._view.release()


def own_floats(pointer: "ctypes._Pointer[ctypes.c_float]", count: int) -> memoryview:
    """Copies values of the library to memory of Python, so that views of them stay valid."""
    memory = (ctypes.c_float * count)()
    if count > 0:
        ctypes.memmove(memory, pointer, 4 * count)
    return memoryview(memory).cast("B").cast("f")


def named_tensors(
    floats: dict[str, Floats], shapes: dict[str, tuple[int, ...]]
) -> "ctypes.Array[_abi.NamedTensor]":
    """Describes named buffers to the library. A flat buffer of the right length gets the shape of its
    tensor; everything else the library checks."""
    out = (_abi.NamedTensor * len(floats))()
    for item, (name, values) in zip(out, floats.items()):
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor is {name!r}, not a string")
        shape = values.shape
        wanted = shapes.get(name, shape)
        if len(shape) == 1 and math.prod(wanted) == values.count:
            shape = wanted
        if len(shape) > 4:
            raise TypeError(f"{name}: {len(shape)} dimensions; at most 4 are possible")
        item.name = name.encode()
        item.dims = len(shape)
        item.shape[: len(shape)] = shape
        item.values = values.pointer
    return out


def release_all(floats: Iterable[Floats]) -> None:
    for f in floats:
        f.release()
