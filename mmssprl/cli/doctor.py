"""Check this installation.

Print versions, OpenMMLab's packages, devices and disk, and for whatever is missing
the command that gets it. The exit code is 1 if something is missing that mmssprl
cannot do without.

example:
  python -m mmssprl doctor
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: it looks at everything."""


def run(args: argparse.Namespace) -> int:
    """Print a line for each finding, then what to do."""
    from ..system.doctor import examine

    findings = examine()
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{finding.state:8}  {finding.what:{width}}  {finding.found}")
    print()
    for finding in findings:
        if finding.missing:
            print(f"{finding.what}: {finding.missing}")
    needed = [finding.what for finding in findings if finding.state == "missing"]
    print(f"missing: {', '.join(needed)}" if needed else "everything that is needed is here.")
    return int(bool(needed))
