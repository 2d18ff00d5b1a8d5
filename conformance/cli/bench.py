"""`attention-conformance bench`: time and memory beside the reference."""

from __future__ import annotations

from typing import Any

import click

from .ending import CONFORMS, DEPARTS, NOTHING, USAGE, Stop
from .options import settings_option, timeout_option


@click.command(short_help="Time targets and count their memory beside the reference.")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@settings_option("Declare a capability, of all TARGETs: layout=BLHD.")
@click.option("--sizes", default="128,256,512,1024", metavar="L,L,...", help="Lengths L = S.")
@click.option("--batch", type=click.IntRange(min=1), default=1, metavar="B", help="Batch.")
@click.option("--heads", type=click.IntRange(min=1), default=8, metavar="H", help="Heads.")
@click.option("--width", type=click.IntRange(min=1), default=64, metavar="D", help="Width of a head.")
@click.option(
    "--dtype",
    type=click.Choice(("fp64", "fp32", "bf16", "fp16")),
    show_default="fp32, or the TARGET's first",
    help="Dtype of the inputs.",
)
@click.option(
    "--mask", type=click.Choice(("none", "causal", "random")), default="none", help="Which keys a query attends to."
)
@click.option("--forward", is_flag=True, help="Measure forward only, no backward.")
@click.option(
    "--threads", type=click.IntRange(min=1), show_default="torch's choice", metavar="N", help="Threads of torch."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), show_default="fill a second", metavar="N", help="Rounds of calls."
)
@timeout_option("Limit for one call.")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False), metavar="FILE", help="Write a file for pytest-benchmark compare."
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Draw time and memory, as .png or .svg; needs matplotlib.",
)
def bench(
    targets: tuple[str, ...], pairs: tuple[str, ...], sizes: str, batch: int, heads: int, width: int,
    dtype: str | None, mask: str, forward: bool, threads: int | None, rounds: int | None, timeout: float,
    file: str | None, plot: str | None,
) -> int:  # fmt: skip
    """Time TARGETs and count their memory beside their reference and torch's own, and tell how both grow with L.

    Each TARGET (as for audit) has a process of its own, in which everybody is called in turn on the same inputs. Without a
    TARGET torch's scaled_dot_product_attention is measured.

    \b
    $ attention-conformance bench mykernels.py:attend --sizes 1024,2048 --json after.json
    $ pytest-benchmark compare before.json after.json

    Exit codes: 0 measured, 1 a TARGET raised, crashed or hung, 2 bad usage or a TARGET that cannot be loaded, 3 nothing was
    measured, 4 the run itself failed.
    """
    from ..benching.benchmark import DEFAULT_TARGETS, bench_many, parse_sizes
    from ..benching.groups import DIRECTIONS, Plan
    from ..benching.output import Outputs
    from ..loading import parse_settings

    if pairs and not targets:
        raise click.UsageError("--set declares what a TARGET does; name the TARGET.")
    directions = DIRECTIONS[:1] if forward else DIRECTIONS
    plan = Plan(parse_sizes(sizes), directions, batch, heads, width, mask, dtype, rounds)
    settings = parse_settings(pairs)
    with Outputs(file, plot) as outputs:
        results = bench_many(
            targets or DEFAULT_TARGETS, settings, plan=plan, threads=threads, timeout=timeout, hear=outputs.hear
        )
        outputs.take(results)
    return _bench_code(outputs)


def _bench_code(outputs: Any) -> int:
    """Return the exit code of a finished benchmark."""
    if any(not failure.loaded for failure in outputs.failures):
        return USAGE
    if any(not failure.excused for failure in outputs.failures):
        return DEPARTS
    if not outputs.measured:
        raise Stop(NOTHING, "nothing was measured: what rules it out is named above, and what to ask for instead.")
    return CONFORMS
