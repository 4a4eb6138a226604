"""Finds and loads libsefl, and calls its functions."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sefl import _abi
from sefl._version import VERSION
from sefl.errors import LibraryError, Status, error

_SONAME = f"libsefl.so.{VERSION.split('.')[0]}"
_lock = threading.Lock()
_loaded: ctypes.CDLL | None = None


def _places() -> Iterator[str]:
    """The places to look for the library, in this order."""
    given = os.environ.get("SEFL_LIBRARY")
    if given:
        yield given
        return
    yield str(Path(__file__).resolve().parent / _SONAME)
    yield str(Path(sys.prefix) / "lib" / _SONAME)
    yield _SONAME  # where the system looks: LD_LIBRARY_PATH, ldconfig
    yield f"/usr/local/lib/{_SONAME}"


def _open() -> ctypes.CDLL:
    failures = []
    for place in _places():
        if os.sep in place and not os.environ.get("SEFL_LIBRARY") and not os.path.exists(place):
            failures.append(f"{place}: no such file")
            continue
        try:
            return ctypes.CDLL(place)
        except OSError as why:
            failures.append(str(why))
    raise LibraryError(
        "libsefl was not found; install it (make install), or set SEFL_LIBRARY to its path:\n  "
        + "\n  ".join(failures)
    )


def _check(library: ctypes.CDLL) -> None:
    name = library._name
    try:
        library.sefl_version.restype = ctypes.c_char_p
        found = library.sefl_version().decode()
        if found.split(".")[:2] != VERSION.split(".")[:2]:
            raise LibraryError(f"{name} has version {found}, but this package needs {VERSION}")
    except AttributeError:
        raise LibraryError(f"{name} is not a library of SEFL") from None
    _abi.declare(library)


def library() -> ctypes.CDLL:
    """Returns the loaded library; loads it at the first call."""
    global _loaded
    with _lock:
        if _loaded is None:
            found = _open()
            _check(found)
            _loaded = found
        return _loaded


def check(code: int) -> None:
    """Raises the exception for a status code unless it is OK. Call it on the thread of the call."""
    if code != Status.OK:
        raise error(code, (library().sefl_last_error() or b"").decode(errors="replace"))


class _Work:
    """A call on another thread. It never begins after `cancel`."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._running = self._cancelled = False
        self._ended = threading.Event()
        self.result: Any = None
        self.failure: BaseException | None = None

    def run(self) -> None:
        with self._lock:
            if self._cancelled:
                return
            self._running = True
        try:
            self.result = self._call()
        except BaseException as why:  # raised again on the main thread
            self.failure = why
        self._ended.set()

    def wait(self) -> None:
        self._ended.wait()

    def cancel(self, stop: Callable[[], None]) -> None:
        """Ends the call and waits until it has returned."""
        with self._lock:
            self._cancelled = True
        while self._running and not self._ended.is_set():
            try:
                stop()
                self._ended.wait()
            except KeyboardInterrupt:  # again: the call uses the handle until it returns
                pass


def interruptible(call: Callable[[], Any], stop: Callable[[], None]) -> Any:
    """Runs a call that may block for long, so that Ctrl-C ends it.

    Python runs signal handlers between two of its own instructions, so on the main thread a blocking
    call must run elsewhere. On an exception here (KeyboardInterrupt), `stop` ends the call, and the
    exception continues after the call has returned.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    work = _Work(call)
    try:
        threading.Thread(target=work.run, name="sefl", daemon=True).start()
        work.wait()
    except BaseException:
        work.cancel(stop)
        raise
    if work.failure is not None:
        raise work.failure
    return work.result
