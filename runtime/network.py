"""Keeps the network closed: no code of ours or of a library connects to another computer unless a person asked for it.

An audit hook of the interpreter sees every connection, whichever module makes it, and refuses what leads out of this
computer; pipes between processes and its own addresses stay open. What a person asks for by name (a download, say)
opens a door for as long as it lasts. What was refused is written down with who tried it and where to, and no more.
The hook costs nothing until something is asked for: `socket` is not even imported here.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from runtime.errors import UserError
from runtime.text import _, ngettext

_CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_NAMING = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_WATCHED = _CONNECTING | _NAMING
_UNIX, _NETLINK = 1, 16  # address families that never leave the computer
_INTERNET = frozenset({2, 10, 23, 30})  # IPv4 everywhere; IPv6 on Linux, Windows and macOS
_LOG = "network.log"
_MOST_LINES, _LARGEST_LOG, _SHOWN = 200, 262_144, 20
_LINE = re.compile(r"^\S+ \S+ (?P<process>\S+): (?P<who>\S+) → (?P<where>\S+)$", re.MULTILINE)


class NetworkClosed(UserError, PermissionError):
    """Something wanted to reach another computer. Also an OSError: code that can do without the network goes on."""

    code = "network_closed"

    def __init__(self, who: str, where: str) -> None:
        UserError.__init__(
            self,
            _("The network is closed."),
            _("“{who}” wanted to reach “{where}”; nothing was sent.").format(who=who, where=where),
            _("Quern connects to other computers only where you ask for that very thing. Report this if you did."),
        )
        self.errno = errno.EACCES


class Attempt(NamedTuple):
    """A connection that was refused: the module that tried, and the host with its port."""

    who: str
    where: str


class NetworkGuard:
    """The audit hook of this process. `process` names what runs here: window, engine, a job."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._doors = 0
        self._lock = threading.Lock()
        self.refused: Counter[Attempt] = Counter()

    def install(self) -> None:
        """Starts watching; there is no way to end it."""
        watched, check = _WATCHED, self.check

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in watched:
                check(event, arguments)

        sys.addaudithook(hook)

    def check(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises `NetworkClosed` for an event of the interpreter that leads out of this computer."""
        where = _target(event, arguments)
        if where is None or self._doors:
            return
        attempt = Attempt(_caller(sys._getframe(1)), where)
        with self._lock:
            self.refused[attempt] += 1
            told = sum(self.refused.values()) <= _MOST_LINES
        if told:
            self._write(attempt)
        raise NetworkClosed(*attempt)

    @contextlib.contextmanager
    def door(self) -> Iterator[None]:
        """Lets this process out while it is entered. Only for what a person has just asked for by name."""
        with self._lock:
            self._doors += 1
        try:
            yield
        finally:
            with self._lock:
                self._doors -= 1

    def _write(self, attempt: Attempt) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {self._process}: {attempt.who} → {attempt.where}\n"
        with contextlib.suppress(OSError, UserError):
            from runtime.places import places  # after the first paint, or never

            file = places().logs / _LOG
            file.parent.mkdir(parents=True, exist_ok=True)
            full = file.exists() and file.stat().st_size > _LARGEST_LOG
            with file.open("w" if full else "a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(line)


@cache
def close_network() -> NetworkGuard:
    """Closes the network for this process, once, and returns its guard."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    guard = NetworkGuard(first if first.replace("-", "").isalpha() else Path(sys.argv[0]).stem or "quern")
    guard.install()
    return guard


def refused_so_far(logs: Path) -> Counter[Attempt]:
    """Returns what all processes have refused, as far back as the log in this folder goes. Raises OSError."""
    try:
        text = (logs / _LOG).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return Counter()
    return Counter(Attempt(found["who"], found["where"]) for found in _LINE.finditer(text))


def report(logs: Path) -> list[str]:
    """Returns in words that the network is closed and what was refused, the most frequent first."""
    try:
        refused = refused_so_far(logs)
    except OSError as error:
        return [_("Closed; what was refused cannot be read: {reason}.").format(reason=error.strerror)]
    if not refused:
        return [_("Closed; nothing tried to get out.")]
    total = sum(refused.values())
    first = ngettext("Closed; {n} connection was refused:", "Closed; {n} connections were refused:", total)
    lines = [f"{attempt.who} → {attempt.where} ({count})" for attempt, count in refused.most_common(_SHOWN)]
    return [first.format(n=total), *lines]


def _target(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Returns the host and port that an event wants to reach; None where it stays on this computer."""
    if event in _NAMING:
        first = arguments[0]
        host, port = first[:2] if isinstance(first, tuple) else (first, arguments[1] if len(arguments) > 1 else None)
        return None if _is_here(host) else _shown(host, port)
    address, family = arguments[1], int(arguments[0].family)
    if family in (_UNIX, _NETLINK) or address is None:  # without an address: to where it is connected already
        return None
    if family in _INTERNET and isinstance(address, tuple):
        return None if _is_here(address[0]) else _shown(*address[:2])
    return _shown(f"address family {family}", None)


def _is_here(host: Any) -> bool:
    """Whether a name or address means this computer."""
    if isinstance(host, bytes | bytearray):
        host = bytes(host).decode("latin-1")
    if not host or host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None) or address
    return bool(inner.is_loopback or inner.is_unspecified)


def _shown(host: Any, port: Any) -> str:
    """Returns the target as one word of a line; what is no part of a host's name is left out."""
    name = host.decode("latin-1") if isinstance(host, bytes | bytearray) else str(host)
    text = re.sub(r"[^\w.:%\-\[\]]", "_", name)[:100]
    return f"{text}:{port}" if isinstance(port, int | str) and str(port).isalnum() else text


def _caller(frame: FrameType | None) -> str:
    """Returns the package that tried: the innermost one that is neither Python's own library nor this file."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        top = name.partition(".")[0]
        if name != __name__ and top and top not in sys.stdlib_module_names:
            return name
        frame = frame.f_back
    return "python"
