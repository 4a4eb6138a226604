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


class ClientProgress(c.Structure):
    _fields_ = [
        ("doing", c.c_char_p),
        ("round", c.c_uint64),
        ("rounds", c.c_uint64),
        ("done", c.c_uint64),
        ("total", c.c_uint64),
        ("bytes", c.c_uint64),
        ("ms", c.c_uint64),
        ("claims_privacy", c.c_int),
    ]


class RoundResult(c.Structure):
    _fields_ = [
        ("round", c.c_uint64),
        ("rounds", c.c_uint64),
        ("skipped", c.c_int),
        ("blocked", c.c_int),
        ("clients", c.c_int64),
        ("epsilon_server", c.c_double),
        ("epsilon_others", c.c_double),
        ("perplexity", c.c_double),
        ("seconds", c.c_double),
    ]


class ClientModel(c.Structure):
    _fields_ = [
        ("round", c.c_uint64),
        ("final", c.c_int),
        ("path", c.c_char_p),
        ("vocabulary", c.c_char_p),
        ("perplexity", c.c_double),
        ("own_words", c.c_uint64),
    ]


LogFunction = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)
ProgressFunction = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(ClientProgress))
ModelFunction = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(ClientModel))
RoundFunction = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(RoundResult))


class ClientOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("ctx", c.c_void_p),
        ("log", LogFunction),
        ("log_fd", c.c_int),
        ("log_level", c.c_char_p),
        ("progress", ProgressFunction),
        ("settings", c.POINTER(c.c_char_p)),
        ("once", c.c_int),
        ("model", ModelFunction),
    ]


class ServerOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("ctx", c.c_void_p),
        ("log", LogFunction),
        ("log_fd", c.c_int),
        ("log_level", c.c_char_p),
        ("settings", c.POINTER(c.c_char_p)),
        ("round", RoundFunction),
    ]


class Tensor(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("dims", c.c_uint64),
        ("shape", c.c_uint64 * 4),
        ("offset", c.c_uint64),
        ("count", c.c_uint64),
        ("trained", c.c_uint64),
    ]


class Round(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("number", c.c_uint64),
        ("rounds", c.c_uint64),
        ("values", c.POINTER(c.c_float)),
        ("count", c.c_size_t),
        ("tensors", c.POINTER(Tensor)),
        ("tensor_count", c.c_size_t),
        ("task", c.c_char_p),
        ("vocabulary", c.c_char_p),
        ("left_ms", c.c_uint64),
        ("weight_cap", c.c_uint64),
        ("claims_privacy", c.c_int),
        ("why", c.c_char_p),
    ]


class Receipt(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("round", c.c_uint64),
        ("bytes", c.c_uint64),
        ("ms", c.c_uint64),
        ("hash", c.c_uint8 * 32),
    ]


class NamedTensor(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("dims", c.c_uint64),
        ("shape", c.c_uint64 * 4),
        ("values", c.POINTER(c.c_float)),
    ]


class PrivacyPlan(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("noise", c.c_int),
        ("neighbours", c.c_int),
        ("values", c.c_uint64),
        ("clients", c.c_uint64),
        ("rounds", c.c_uint64),
        ("max_rounds_per_client", c.c_uint64),
        ("rate", c.c_double),
        ("delta", c.c_double),
        ("z", c.c_double),
        ("epsilon", c.c_double),
        ("reserved", c.c_int),
        ("public_count", c.c_int),
    ]


class PrivacyClaim(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("claimed", c.c_int),
        ("z", c.c_double),
        ("epsilon_server", c.c_double),
        ("epsilon_others", c.c_double),
        ("noise_over_signal", c.c_double),
        ("clients_for_signal", c.c_double),
        ("why_not", c.c_char_p),
    ]


class LedgerStatus(c.Structure):
    _fields_ = [
        ("size", c.c_size_t),
        ("tasks", c.c_uint64),
        ("rounds", c.c_uint64),
        ("claimed", c.c_int),
        ("unit", c.c_int),
        ("delta", c.c_double),
        ("epsilon_server", c.c_double),
        ("epsilon_others", c.c_double),
        ("why_not", c.c_char * 128),
    ]


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
