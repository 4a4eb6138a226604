"""What clients and servers share: their configuration, callbacks, Ctrl-C and the end of a handle."""
from __future__ import annotations

import ctypes
import json
import logging
import os
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Union

from sefl import _abi
from sefl._library import check, interruptible, library

Event = Mapping[str, Any]
Log = Union[logging.Logger, Callable[[int, Event], None]]
"""Where log events go: a logger, or a function of the level (as in `logging`) and the event."""

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


def _to_logger(logger: logging.Logger) -> Callable[[int, Event], None]:
    def log(level: int, event: Event) -> None:
        if logger.isEnabledFor(level):
            fields = (f"{k}={v}" for k, v in event.items() if k not in ("time", "level", "event"))
            logger.log(level, "%s", " ".join((str(event.get("event", "")), *fields)))

    return log


def _close(name: str, handle: Any, process: int, keep: object) -> None:
    if os.getpid() == process:  # a forked child has none of the library's threads
        getattr(library(), f"sefl_{name}_close")(handle)


class Role:
    """A client or server of the library. Use it as a context manager: the end of `with` stops and
    frees it."""

    _name: str
    _handle_type: type[_abi.Handle]
    _options_type: type[ctypes.Structure]

    def __init__(
        self,
        config: str | os.PathLike[str],
        *,
        settings: Mapping[str, object] | None,
        log: Log | None,
        log_level: str | None,
        **options: Any,
    ) -> None:
        self._failure: BaseException | None = None
        self._handle = ctypes.POINTER(self._handle_type)()
        if log is None:
            log = logging.getLogger("sefl")
        if isinstance(log, logging.Logger):
            log = _to_logger(log)
        o = self._options_type(size=ctypes.sizeof(self._options_type), **options)
        o.log = self._log_function(log)
        o.log_level = None if log_level is None else log_level.encode()
        texts = [f"{key}={_setting(value)}".encode() for key, value in (settings or {}).items()]
        o.settings = (ctypes.c_char_p * (len(texts) + 1))(*texts, None)
        check(self._call("open")(ctypes.byref(self._handle), os.fsencode(config), o))
        self._finalizer = weakref.finalize(self, _close, self._name, self._handle, os.getpid(), o)

    def _call(self, verb: str) -> Any:
        return getattr(library(), f"sefl_{self._name}_{verb}")

    # ---- callbacks: they run on the library's threads ----

    def _guard(self, function: Callable[..., None]) -> Callable[..., None]:
        """An exception in a callback stops the role; the interrupted call raises it."""
        me = weakref.ref(self)

        def guarded(*arguments: Any) -> None:
            try:
                function(*arguments)
            except BaseException as why:
                role = me()
                if role is not None:
                    role._failure = role._failure or why
                    role.stop()

        return guarded

    def _log_function(self, log: Callable[[int, Event], None]) -> Any:
        def write(_ctx: object, level: int, text: bytes) -> None:
            log(_LEVELS[level], json.loads(text.decode(errors="replace")))

        return _abi.LogFunction(self._guard(write))

    # ---- calls ----

    def _blocking(self, verb: str, *arguments: Any, also: tuple[int, ...] = ()) -> int:
        """Calls a function that may block. Returns its status: OK or one of `also`."""
        self._need_open()

        def call() -> int:
            code: int = self._call(verb)(self._handle, *arguments)
            if code not in also and self._failure is None:
                check(code)
            return code

        code: int = interruptible(call, self.stop)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return code

    def _need_open(self) -> None:
        if not self._finalizer.alive:
            raise ValueError(f"this {type(self).__name__} is closed")

    def stop(self) -> None:
        """Ends the current call and all later ones soon. Any thread may call it."""
        if self._handle:
            self._call("stop")(self._handle)

    def reload(self) -> None:
        """Reads the certificates (a client also its policy) again before the next step."""
        self._need_open()
        self._call("reload")(self._handle)

    def close(self) -> None:
        """Stops and frees it. The second call does nothing."""
        if self._finalizer.alive:
            self.stop()
            self._finalizer()
            self._handle = ctypes.POINTER(self._handle_type)()

    def __enter__(self: Any) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
