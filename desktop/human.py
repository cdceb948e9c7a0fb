"""Numbers as people read them: 1.4 GB, 42 tok/s, 3 min. Knows what no number stands for."""

from __future__ import annotations

from runtime.text import _, ngettext

_UNITS = ("kB", "MB", "GB", "TB")


def whole_number(value: int) -> str:
    """Returns a count with its thousands set apart: 4,096."""
    return f"{value:,}"


def data_size(n_bytes: int) -> str:
    """Returns a file or memory size in powers of 1,000, as systems and shops count: 98 MB, 1.4 GB."""
    if n_bytes < 1000:
        return ngettext("{n} byte", "{n} bytes", n_bytes).format(n=n_bytes)
    size = float(n_bytes)
    for unit in _UNITS:
        size /= 1000
        if size < 999.5 or unit == _UNITS[-1]:
            break
    return f"{size:.1f} {unit}" if size < 9.95 else f"{size:.0f} {unit}"


def duration(seconds: float) -> str:
    """Returns a time: 0.3 s, 42 s, 3 min."""
    if seconds < 10:
        return _("{seconds} s").format(seconds=f"{seconds:.1f}")
    if seconds < 100:
        return _("{seconds} s").format(seconds=f"{seconds:.0f}")
    return _("{minutes} min").format(minutes=f"{seconds / 60:.0f}")


def share(fraction: float) -> str:
    """Returns a part of a whole: 43 %."""
    return _("{percent} %").format(percent=f"{min(max(fraction, 0.0), 1.0) * 100:.0f}")
