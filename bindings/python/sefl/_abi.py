"""The C interface of libsefl, as declared in include/sefl/*.h.

This is the only file that repeats the headers. tests/test_abi.py compiles a C program from it and
compares every constant, size, offset and function type with the headers.
"""
from __future__ import annotations

import ctypes as c
from typing import Any


class Handle(c.Structure):
    """An opaque object of the library."""


class ClientHandle(Handle):
    pass


class AggregatorHandle(Handle):
    pass


class CspHandle(Handle):
    pass


ENUMS = {
    "sefl_status": (
        "OK EINVAL ENOMEM ERANGE EPROTO EIO ERANDOM ECRYPTO EAUTH ESTATE ENOTFOUND EEXIST ETIMEOUT "
        "ECLOSED EBUDGET EUNSUPPORTED ECANCELLED"
    ).split(),
    "sefl_log_level": ["LOG_DEBUG", "LOG_INFO", "LOG_WARN", "LOG_ERROR"],
}
"""Names without SEFL_; the value of a name is its place in the list."""

CONSTANTS = {
    "NOISE_JOINT": 1, "NOISE_OWN": 2,
    "ZERO_OUT": 0, "REPLACE": 1,
    "UNIT_CLIENT": 0, "UNIT_RECORD": 1, "UNIT_MIXED": 2,
}


_TYPES: dict[str, Any] = {
    "int": c.c_int, "u64": c.c_uint64, "i64": c.c_int64, "size": c.c_size_t, "double": c.c_double,
    "char*": c.c_char_p, "char**": c.POINTER(c.c_char_p), "float*": c.POINTER(c.c_float),
    "void*": c.c_void_p, "u64[4]": c.c_uint64 * 4, "u8[32]": c.c_uint8 * 32,
    "char[128]": c.c_char * 128,
}


def _fields(text: str) -> list[tuple[str, Any]]:
    """The members of a structure, as in C: a type, then its names."""
    lines = [line.split() for line in text.split(";")]
    return [(name, _TYPES[kind]) for kind, *names in lines for name in names]


class ClientProgress(c.Structure):
    _fields_ = _fields(
        "char* doing; u64 round rounds done total bytes ms; int claims_privacy")


class RoundResult(c.Structure):
    _fields_ = _fields(
        "u64 round rounds; int skipped blocked; i64 clients; "
        "double epsilon_server epsilon_others perplexity seconds")


class ClientModel(c.Structure):
    _fields_ = _fields(
        "u64 round; int final; char* path vocabulary; double perplexity; u64 own_words")


LogFunction = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)
ProgressFunction = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(ClientProgress))
ModelFunction = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(ClientModel))
RoundFunction = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(RoundResult))
_TYPES.update(log=LogFunction, progress=ProgressFunction, model=ModelFunction, round=RoundFunction)


class ClientOptions(c.Structure):
    _fields_ = _fields(
        "size size; void* ctx; log log; int log_fd; char* log_level; progress progress; "
        "char** settings; int once; model model")


class ServerOptions(c.Structure):
    _fields_ = _fields(
        "size size; void* ctx; log log; int log_fd; char* log_level; char** settings; "
        "round round")


class Tensor(c.Structure):
    _fields_ = _fields("char* name; u64 dims; u64[4] shape; u64 offset count trained")


_TYPES["tensor*"] = c.POINTER(Tensor)


class Round(c.Structure):
    _fields_ = _fields(
        "size size; u64 number rounds; float* values; size count; tensor* tensors; "
        "size tensor_count; char* task vocabulary; u64 left_ms weight_cap; "
        "int claims_privacy; char* why")


class Receipt(c.Structure):
    _fields_ = _fields("size size; u64 round bytes ms; u8[32] hash")


class NamedTensor(c.Structure):
    _fields_ = _fields("char* name; u64 dims; u64[4] shape; float* values")


class PrivacyPlan(c.Structure):
    _fields_ = _fields(
        "size size; int noise neighbours; u64 values clients rounds max_rounds_per_client; "
        "double rate delta z epsilon; int reserved public_count")


class PrivacyClaim(c.Structure):
    _fields_ = _fields(
        "size size; int claimed; "
        "double z epsilon_server epsilon_others noise_over_signal clients_for_signal; "
        "char* why_not")


class LedgerStatus(c.Structure):
    _fields_ = _fields(
        "size size; u64 tasks rounds; int claimed unit; "
        "double delta epsilon_server epsilon_others; char[128] why_not")


STRUCTS: dict[str, type[c.Structure]] = {
    "sefl_client_progress": ClientProgress,
    "sefl_round_result": RoundResult,
    "sefl_client_model": ClientModel,
    "sefl_client_options": ClientOptions,
    "sefl_server_options": ServerOptions,
    "sefl_tensor": Tensor,
    "sefl_round": Round,
    "sefl_receipt": Receipt,
    "sefl_named_tensor": NamedTensor,
    "sefl_privacy_plan": PrivacyPlan,
    "sefl_privacy_claim": PrivacyClaim,
    "sefl_ledger_status": LedgerStatus,
}

P = c.POINTER


def _server(name: str, handle: type[Handle]) -> dict[str, tuple[Any, ...]]:
    return {
        f"sefl_{name}_open": (c.c_int, P(P(handle)), c.c_char_p, P(ServerOptions)),
        f"sefl_{name}_run": (c.c_int, P(handle)),
        f"sefl_{name}_stop": (None, P(handle)),
        f"sefl_{name}_reload": (None, P(handle)),
        f"sefl_{name}_port": (c.c_uint, P(handle)),
        f"sefl_{name}_close": (None, P(handle)),
    }


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "sefl_version": (c.c_char_p,),
    "sefl_status_name": (c.c_char_p, c.c_int),
    "sefl_status_text": (c.c_char_p, c.c_int),
    "sefl_last_error": (c.c_char_p,),
    "sefl_client_open": (c.c_int, P(P(ClientHandle)), c.c_char_p, P(ClientOptions)),
    "sefl_client_close": (None, P(ClientHandle)),
    "sefl_client_wait": (c.c_int, P(ClientHandle), P(Round)),
    "sefl_client_wait_ms": (c.c_int, P(ClientHandle), P(Round), c.c_uint64),
    "sefl_client_submit": (
        c.c_int, P(ClientHandle), P(c.c_float), c.c_size_t, c.c_uint64, P(Receipt)),
    "sefl_client_submit_tensors": (
        c.c_int, P(ClientHandle), P(NamedTensor), c.c_size_t, c.c_uint64, P(Receipt)),
    "sefl_client_skip": (c.c_int, P(ClientHandle)),
    "sefl_client_wanted": (c.c_int, P(ClientHandle)),
    "sefl_client_run": (c.c_int, P(ClientHandle)),
    "sefl_client_stop": (None, P(ClientHandle)),
    "sefl_client_reload": (None, P(ClientHandle)),
    **_server("aggregator", AggregatorHandle),
    **_server("csp", CspHandle),
    "sefl_privacy_compute": (c.c_int, P(PrivacyClaim), P(PrivacyPlan)),
    "sefl_ledger_read": (c.c_int, P(LedgerStatus), c.c_char_p, c.c_double),
}
"""Every function: the type of its result, then those of its arguments."""


def declare(library: c.CDLL) -> None:
    """Gives the library's functions their types. A library for clients only may lack others."""
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is not None:
            function.restype = result
            function.argtypes = arguments
