"""What can go wrong. The text of an exception is the library's sentence: what is wrong, which value,
and what was expected. It never contains a secret."""
from __future__ import annotations

from enum import IntEnum

from sefl import _abi

Status = IntEnum("Status", {name: i for i, name in enumerate(_abi.ENUMS["sefl_status"])})
Status.__doc__ = "The status codes of include/sefl/status.h, without SEFL_."


class LibraryError(ImportError):
    """libsefl was not found, or has another version."""


class SeflError(Exception):
    """A function of the library failed; `status` has its code."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


class InvalidError(SeflError, ValueError):
    """An argument, a setting or a submitted tensor is wrong."""


class ProtocolError(SeflError):
    """Data from a server or a file is malformed, or the owner's policy refuses the task."""


class RefusedError(SeflError):
    """The server does not accept this identity, or a signature is wrong."""


class BudgetError(SeflError):
    """The owner's privacy budget allows no further round."""


class StateError(SeflError):
    """The call is not allowed now; for example, there is no round to submit to."""


class UnsupportedError(SeflError):
    """The server needs another version of the library, or this build lacks a feature."""


_CLASSES: dict[str, type[SeflError]] = {
    "EINVAL": InvalidError,
    "ERANGE": InvalidError,
    "EPROTO": ProtocolError,
    "EAUTH": RefusedError,
    "ECRYPTO": RefusedError,
    "EBUDGET": BudgetError,
    "ESTATE": StateError,
    "EUNSUPPORTED": UnsupportedError,
}


def error(code: int, text: str) -> SeflError:
    """Returns the exception for a status code."""
    try:
        status = Status(code)
    except ValueError:  # a later version of the library
        return SeflError(code, text)  # type: ignore[arg-type]
    return _CLASSES.get(status.name, SeflError)(status, text or status.name)
