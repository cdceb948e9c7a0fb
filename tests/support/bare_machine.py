"""A Debian with nothing on it: no Python, no compiler, no desktop, and for what runs inside no network at all.

Made by debootstrap as root, once; QUERN_BARE names a folder to keep it in. A package is installed with what it
declares, and from then on every command runs in an empty network namespace as a person whose name is not ASCII.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from installed import ROOT, Installed

SUITE = "bookworm"
PERSON, NUMBER = "zoë", 1000
_MIRROR = "http://deb.debian.org/debian"
_TOOLS = ("debootstrap", "chroot", "unshare", "mount")
# Runs in a mount namespace of its own, so that nothing stays mounted; "$1" is the root, "$2" and "$3" the person.
_ENTER = """
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mkdir -p "$1/tmp/.X11-unix"
if [ -d /tmp/.X11-unix ]; then mount --bind /tmp/.X11-unix "$1/tmp/.X11-unix"; fi
root=$1 person=$2 home=$3
shift 3
PATH=$PATH:/usr/sbin:/sbin exec chroot --userspec="$person:$person" "$root" /bin/sh -c 'cd "$0"; exec "$@"' "$home" "$@"
"""


def require_tools() -> None:
    """Skips the test where no bare machine can be made."""
    missing = [tool for tool in _TOOLS if shutil.which(tool, path=_path()) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"a bare machine needs root and {', '.join(_TOOLS)}")


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def base() -> Path:
    """Returns the archive of the bare system, made now if it is not there yet."""
    folder = Path(os.environ.get("QUERN_BARE", ROOT / "build" / "bare"))
    archive = folder / f"{SUITE}.tar"
    if not archive.is_file():
        made = folder / f"{SUITE}.part"
        shutil.rmtree(made, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        _do("debootstrap", "--variant=minbase", SUITE, str(made), _MIRROR)
        _do("tar", "-C", str(made), "-cf", f"{archive}.part", ".")
        Path(f"{archive}.part").rename(archive)
        shutil.rmtree(made)
    return archive


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": _path()}, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stderr[-2000:]}{done.stdout[-2000:]}"


class BareMachine:
    """One bare system in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        _do("tar", "-C", str(self.root), "-xf", str(base()))
        self._add_person()

    def _add_person(self) -> None:
        for file, line in (("passwd", f"{PERSON}:x:{NUMBER}:{NUMBER}::/home/{PERSON}:/bin/sh\n"),
                           ("group", f"{PERSON}:x:{NUMBER}:\n")):  # fmt: skip
            with (self.root / "etc" / file).open("a", encoding="utf-8") as table:
                table.write(line)
        self.home.mkdir()
        os.chown(self.home, NUMBER, NUMBER)

    @property
    def home(self) -> Path:
        """The person's folder, as seen from outside."""
        return self.root / "home" / PERSON

    def install(self, package: Path) -> None:
        """Installs a package file and what it depends on; the only moment with a network."""
        shutil.copyfile(package, self.root / "tmp" / package.name)
        shutil.copyfile("/etc/resolv.conf", self.root / "etc" / "resolv.conf")
        inside = ("chroot", str(self.root), "/usr/bin/env", "DEBIAN_FRONTEND=noninteractive")
        _do(*inside, "apt-get", "update", "-q")
        _do(*inside, "apt-get", "install", "-qy", "--no-install-recommends", f"/tmp/{package.name}")

    def remove(self, name: str) -> None:
        """Removes an installed package, with its settings in /etc."""
        _do("chroot", str(self.root), "dpkg", "--purge", name)

    def has(self, name: str) -> bool:
        """Says whether a program of this name could be started inside."""
        return any((self.root / folder / name).exists() for folder in ("bin", "usr/bin", "usr/local/bin"))

    def quern(self, **environment: str) -> Installed:
        """Returns the installed program, run as the person, without a network."""
        inside = ("unshare", "--net", "--mount", "--", "/bin/sh", "-c", _ENTER, "enter", str(self.root), str(NUMBER),
                  f"/home/{PERSON}")  # fmt: skip
        told = {"HOME": f"/home/{PERSON}", "USER": PERSON, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **environment}
        return Installed(Path("/usr/bin/quern"), self.home, told, inside)


def watched(quern: Installed, log: Path) -> Installed:
    """Returns the same program with every attempt to reach anybody written to `log` by strace."""
    strace = ("strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", str(log))
    return replace(quern, inside=(*strace, *quern.inside))


def reached_out(log: str) -> list[str]:
    """Returns the lines of strace's log that lead to another machine: no local socket, and not this machine itself."""
    own = ("sa_family=AF_UNIX", 'inet_addr("127.', 'inet_pton(AF_INET6, "::1"', "sa_family=AF_NETLINK")
    return [line for line in log.splitlines() if "sa_family=AF_" in line and not any(mark in line for mark in own)]
