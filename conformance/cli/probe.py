"""`attention-conformance probe`: find out by experiment what targets do."""

from __future__ import annotations

import click

from .ending import CONFORMS, DEPARTS, USAGE, complain
from .options import settings_option, timeout_option


@click.command(short_help="Find out by experiment what targets do and what to declare.")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@settings_option("Say how it is called: reference=SelfAttention.")
@timeout_option("Limit for one experiment; then its process is ended.")
@click.option("-v", "--verbose", is_flag=True, help="Print all that was seen.")
def probe(targets: tuple[str, ...], pairs: tuple[str, ...], timeout: float, verbose: bool) -> int:
    """Find out by experiment what TARGETs do, and print the register() call to paste.

    TARGET is module:name or path/file.py:name, as for audit; its code runs with your rights. Every capability is tried, whatever
    was declared; what nothing explains is named.

    \b
    $ attention-conformance probe mykernels.py:attend

    Exit codes: 0 found out, 1 a TARGET crashed, hung or was not recognised, 2 bad usage or a TARGET that cannot be loaded, 4 the
    run itself failed.
    """
    from ..loading import parse_settings
    from ..probing.listening import Failure, probe_many
    from ..report import terminal
    from ..report.profile import print_profile

    console, errors = terminal.make_console(), terminal.make_console(stderr=True)
    failures = []
    with terminal.saying(errors) as hear:
        results = list(probe_many(targets, parse_settings(pairs), timeout=timeout, hear=hear))
    for result in results:
        if isinstance(result, Failure):
            complain(f"{result.name}: {result.why}" if result.loaded else result.why)
            failures.append(result)
        else:
            print_profile(console, result, verbose=verbose)
    if any(not failure.loaded for failure in failures):
        return USAGE
    return DEPARTS if failures else CONFORMS
