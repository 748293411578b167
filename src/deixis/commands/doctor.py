"""``deixis doctor``: check the installation."""

from __future__ import annotations

from dataclasses import asdict

from rich.text import Text

from deixis.commands.console import AsJson, print_json, stderr_console, stdout_console
from deixis.installation import Finding, check_installation


def doctor(as_json: AsJson = False) -> int:
    """Check the installation; each line is a check with its result or what to do.

    The exit code is 1 if something is missing that captioning needs.

    For example: deixis doctor

    Args:
        as_json: write a line of JSON for each check to stdout.
    """
    with stderr_console().status("checking"):
        findings = list(check_installation())
    for finding in findings:
        if as_json:
            print_json(asdict(finding), indent=None)
        else:
            stdout_console().print(_line(finding), soft_wrap=True)
    return 1 if any(finding.needed and not finding.ok for finding in findings) else 0


def _line(finding: Finding) -> Text:
    mark, style = (
        ("ok", "green") if finding.ok else ("missing", "bold red") if finding.needed else ("optional", "yellow")
    )
    return Text.assemble((f"{mark:<9}", style), f"{finding.name:<31}", finding.text)
