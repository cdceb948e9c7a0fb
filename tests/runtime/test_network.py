"""The network is closed in every process of ours, and what tried to get out is told."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from runtime import network
from runtime.network import Attempt, NetworkClosed, NetworkGuard
from runtime.places import places

ROOT = Path(__file__).parents[2]
OUTSIDE = ("192.0.2.1", 443)  # an address for documentation, which nobody has (RFC 5737)


def in_closed_process(code: str, *words: str) -> list[str]:
    """Runs code after the network was closed, in a process with a profile of its own; returns its lines."""
    code = "from runtime.network import close_network; guard = close_network()\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "attempt",
    [
        "socket.create_connection(('192.0.2.1', 443), timeout=1)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        "socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect(('2001:db8::1', 443))",
        "socket.getaddrinfo('example.com', 443)",
        "socket.gethostbyname('example.com')",
        "urllib.request.urlopen('http://example.com/secret?word=1', timeout=1)",
    ],
)
def test_nothing_gets_out_and_the_error_says_so(attempt: str) -> None:
    printed = in_closed_process(f"""
        import socket, urllib.request
        try:
            {attempt}
        except OSError as error:
            print(type(getattr(error, "reason", error)).__name__, "nothing was sent" in str(error))
        print(sum(guard.refused.values()))
    """)
    assert printed == ["NetworkClosed True", "1"]


def test_this_computer_stays_open() -> None:
    printed = in_closed_process("""
        import os, socket, tempfile
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname()).close()
        socket.getaddrinfo("localhost", 80)
        socket.getaddrinfo(None, 80)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.sendto(b"x", ("127.0.0.1", 9))
        one, other = socket.socketpair()
        one.sendmsg([b"x"])
        with tempfile.TemporaryDirectory() as folder:
            pipe = socket.socket(socket.AF_UNIX)
            pipe.bind(folder + "/s")
            pipe.listen()
            socket.socket(socket.AF_UNIX).connect(folder + "/s")
        print(dict(guard.refused))
    """)
    assert printed == ["{}"]


def test_closing_the_network_imports_no_socket_and_watches_once() -> None:
    printed = in_closed_process("""
        import sys
        print("socket" in sys.modules, "_socket" in sys.modules)
        print(close_network() is guard)
    """)
    assert printed == ["False False", "True"]


def test_an_open_door_lets_out_and_shuts_again() -> None:
    printed = in_closed_process("""
        import sys
        class Socket:
            family = 2
        with guard.door():
            with guard.door():
                sys.audit("socket.connect", Socket(), ("192.0.2.1", 443))
            sys.audit("socket.connect", Socket(), ("192.0.2.1", 443))
        try:
            sys.audit("socket.connect", Socket(), ("192.0.2.1", 443))
        except OSError as error:
            print(error.info.code)
    """)
    assert printed == ["network_closed"]


def test_what_tried_is_written_down_without_what_it_wanted_to_say(tmp_path: Path) -> None:
    (tmp_path / "some_library.py").write_text("import urllib.request as r\ndef call(url): r.urlopen(url, b'secret')\n")
    in_closed_process(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import some_library
        for _ in range(2):
            try:
                some_library.call("http://example.com:8080/secret?secret=1")
            except OSError:
                pass
    """, "convert")  # fmt: skip
    log = (places().logs / "network.log").read_text()
    assert re.fullmatch(r"(\S+ \S+ convert: some_library → example.com:8080\n){2}", log)
    assert network.refused_so_far(places().logs) == {Attempt("some_library", "example.com:8080"): 2}
    assert network.report(places().logs) == [
        "Closed; 2 connections were refused:", "some_library → example.com:8080 (2)",
    ]  # fmt: skip


def test_a_storm_of_attempts_does_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = NetworkGuard("test")
    monkeypatch.setattr(network, "_MOST_LINES", 3)
    for _attempt in range(10):
        with pytest.raises(NetworkClosed):
            guard.check("socket.getaddrinfo", ("example.com", 443, 0, 0, 0))
    assert sum(guard.refused.values()) == 10
    log = places().logs / "network.log"
    assert len(log.read_text().splitlines()) == 3
    monkeypatch.setattr(network, "_LARGEST_LOG", 10)
    with pytest.raises(NetworkClosed):
        NetworkGuard("test").check("socket.getaddrinfo", ("example.com", 443, 0, 0, 0))
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.parametrize("log", [None, b"", b"no line of ours\n\xff\xfe\n", b"a b c: d\n"])
def test_a_log_without_refusals_says_that_nothing_tried(tmp_path: Path, log: bytes | None) -> None:
    if log is not None:
        (tmp_path / "network.log").write_bytes(log)
    assert network.report(tmp_path) == ["Closed; nothing tried to get out."]


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "network.log").mkdir()
    assert network.report(tmp_path)[0].startswith("Closed; what was refused cannot be read: ")


class FakeSocket:
    def __init__(self, family: int) -> None:
        self.family = family


@pytest.mark.parametrize(
    ("family", "address", "target"),
    [
        (socket.AF_INET, ("192.0.2.1", 443), "192.0.2.1:443"),
        (socket.AF_INET, ("127.9.9.9", 443), None),
        (socket.AF_INET, ("0.0.0.0", 443), None),
        (socket.AF_INET, ("localhost", 443), None),
        (socket.AF_INET6, ("2001:db8::1", 443, 0, 0), "2001:db8::1:443"),
        (socket.AF_INET6, ("::1", 443, 0, 0), None),
        (socket.AF_INET6, ("::ffff:127.0.0.1", 443, 0, 0), None),
        (socket.AF_INET6, ("::ffff:192.0.2.1", 443, 0, 0), "::ffff:192.0.2.1:443"),
        (socket.AF_INET6, ("fe80::1%eth0", 443, 0, 3), "fe80::1%eth0:443"),
        (socket.AF_INET, ("evil\n→ host", 443), "evil___host:443"),
        (socket.AF_UNIX, "/run/x", None),
        (16, (0, 0), None),
        (40, (2, 1234), "address family 40"),
        (socket.AF_INET, None, None),
    ],
)  # fmt: skip
def test_where_a_connection_leads(family: int, address: Any, target: str | None) -> None:
    assert network._target("socket.connect", (FakeSocket(family), address)) == (target and target.replace(" ", "_"))


@pytest.mark.parametrize("host", ["localhost", "db.localhost", b"localhost", "", None, "127.0.0.1", "::1"])
def test_names_of_this_computer_may_be_looked_up(host: Any) -> None:
    assert network._target("socket.getaddrinfo", (host, 80, 0, 0, 0)) is None


# --- every kind of process --------------------------------------------------------------------------------------

_DOORS = ("runtime/worker.py", "runtime/render.py", "runtime/exact_memory.py", "runtime/llama/trials.py",
          "convert/worker.py", "convert/phases.py", "desktop/__main__.py")  # fmt: skip


def test_whatever_can_be_started_closes_the_network() -> None:
    started = {
        file.relative_to(ROOT).as_posix()
        for package in ("runtime", "convert", "desktop")
        for file in (ROOT / package).rglob("*.py")
        if '__name__ == "__main__"' in file.read_text(encoding="utf-8")
    }
    assert started - {"desktop/cli/help_pages.py"} == set(_DOORS)  # that one writes pages while Quern is made
    for name in _DOORS:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
        assert "close_network()" in ast.unparse(main), name


_PROBE = """
import socket, sys, threading
def attempt(*_):
    try:
        socket.getaddrinfo("example.com", 443)
    except OSError as error:
        print(type(error).__name__, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("start", "hook"),
    [
        ("from desktop.__main__ import main; main([])", "import desktop.app; desktop.app.main = attempt"),
        ("from desktop.__main__ import main; main(['doctor'])",
         "import desktop.cli.main; desktop.cli.main.run = attempt"),
        ("from runtime.worker import main; main([])", "import runtime.worker; runtime.worker.Worker.run = attempt"),
        ("from convert.worker import main; main()",
         "import convert.worker; convert.worker._own_stdout = attempt; convert.worker._lower_priority = lambda: None"),
        ("from runtime.render import main; main()", "import runtime.render; runtime.render._serve = attempt"),
    ],
    ids=["window", "command line", "engine", "job", "templates"],
)  # fmt: skip
def test_each_kind_of_process_is_closed(start: str, hook: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{_PROBE}\n{hook}\n{start}"], capture_output=True, text=True, cwd=ROOT,
        stdin=subprocess.DEVNULL, timeout=60, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )  # fmt: skip
    assert done.stderr.splitlines()[:1] == ["NetworkClosed"], done.stderr


def test_qt_reaches_no_network() -> None:
    """Qt's own classes for it would pass by the interpreter; only pipes between our own processes are used."""
    used = re.compile(r"\bQ(?:Tcp|Udp|Ssl|Network|Http|Dns|WebSocket)\w+")
    found = {name for file in (ROOT / "desktop").rglob("*.py") for name in used.findall(file.read_text("utf-8"))}
    assert found == set()
