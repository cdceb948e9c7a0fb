"""`quern doctor`: checks that everything works, and says what to do where it does not."""

from __future__ import annotations

from typing import Any

import click

from desktop.cli import checks, output, probes
from desktop.cli.commands import Command, Option, json_option
from desktop.cli.layout import harmless
from runtime.text import _, ngettext


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "doctor",
        callback=doctor,
        help="\n".join((
            _("Checks that everything Quern needs works on this computer, and says what to do where it does not."),
            _("Engines and Qt are tried in processes of their own. The exit code is 0 when all that is needed works, "
              "else 2."),
        )),
        examples=("quern doctor", "quern doctor --json > report.json"),
        params=[Option("--probe", type=click.Choice(tuple(probes.PROBES)), hidden=True), json_option()],
    )  # fmt: skip


def doctor(probe: str | None, as_json: bool, **_flags: Any) -> int:
    """Runs the command and returns the exit code."""
    if probe is not None:
        output.write_json(probes.PROBES[probe]())
        return 0
    findings = []
    status = output.StatusLine()
    status.show(_("Checking"))
    for finding in checks.all_findings():
        findings.append(finding)
        status.clear()
        if not as_json:
            _show(finding)
        status.show(_("Checking"))
    status.clear()
    broken = [finding for finding in findings if not finding.ok and finding.needed]
    if as_json:
        output.write_json({"ok": not broken, "checks": findings})
    else:
        _conclude(len(broken))
    return 2 if broken else 0


def _show(finding: checks.Finding) -> None:
    mark = "✓" if finding.ok else ("✗" if finding.needed else "!")
    first, *others = harmless(finding.found).splitlines() or [""]
    output.write_line(f"{mark} " + _("{title}: {text}").format(title=finding.title, text=first))
    for line in others:
        output.write_line(f"    {line}")
    if finding.advice:
        output.write_line(f"    → {finding.advice}")


def _conclude(broken: int) -> None:
    if not broken:
        output.write_line(_("All that Quern needs works."))
        return
    sentence = ngettext("{count} thing needs to be put right.", "{count} things need to be put right.", broken)
    output.write_line(sentence.format(count=broken))
