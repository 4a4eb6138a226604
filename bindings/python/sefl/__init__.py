"""sefl: secure federated learning with your own model.

    import sefl

    with sefl.Client("client.yml") as client:
        for r in client:
            train(r.values)          # your code: a writable buffer of float32 values
            r.submit()

Only the encrypted update leaves this process. `sefl.numpy` and `sefl.torch` work on arrays and
modules, `sefl.flower` runs a Flower client, `sefl.privacy` computes privacy budgets.
"""
from sefl import privacy
from sefl._library import library as _library
from sefl._version import VERSION as __version__
from sefl.client import Client, Progress, Receipt, Round, Tensor
from sefl.errors import (
    BudgetError,
    InvalidError,
    LibraryError,
    ProtocolError,
    RefusedError,
    SeflError,
    StateError,
    Status,
    UnsupportedError,
)
from sefl.server import Aggregator, Csp, RoundResult


def library_version() -> str:
    """Returns the version of the loaded library."""
    return str(_library().sefl_version().decode())


__all__ = [
    "Aggregator", "BudgetError", "Client", "Csp", "InvalidError", "LibraryError", "Progress",
    "ProtocolError", "Receipt", "RefusedError", "Round", "RoundResult", "SeflError", "StateError",
    "Status", "Tensor", "UnsupportedError", "__version__", "library_version", "privacy",
]
