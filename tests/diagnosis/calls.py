"""Calls on which the tests of the diagnosis look: one for each thing that a known fault may need."""

from __future__ import annotations

from typing import Any

from attention_conformance.cases.case import Case, Mask
from attention_conformance.cases.inputs import make
from attention_conformance.cases.memory import place
from attention_conformance.diagnosis.stages import Call, Stages
from attention_conformance.implementation import describe
from attention_conformance.oracle.expectations import Setting, Structure, expect
from attention_conformance.reference.attention import MultiHeadAttention, attention
from attention_conformance.trials.subject import Subject

ADDITIVE = ("additive",)
_SIZES = {"batch": 3, "heads": 4, "queries": 9, "keys": 13, "width": 8, "value_width": 6}


def _case(name: str, **changes: object) -> Case:
    return Case(f"known fault, {name}", **{**_SIZES, **changes})  # type: ignore[arg-type]


KERNELS: tuple[tuple[Case, Setting], ...] = (
    (_case("plain"), Setting()),
    (_case("one batch element", batch=1), Setting()),
    (_case("square", queries=12, keys=12, value_width=8), Setting()),
    (_case("sharp", values="sharp"), Setting()),
    (_case("scores of 120", values="scores 120", width=16), Setting()),
    (_case("scores of -20", values="scores -20", width=16), Setting()),
    (_case("huge scores", values="huge scores", width=16), Setting()),
    (_case("large values", values="large values"), Setting()),
    (_case("odd width", width=11, value_width=13), Setting()),
    (_case("wide", width=130, heads=2, value_width=70), Setting()),
    (_case("long", batch=2, heads=2, queries=40, keys=70), Setting()),
    (_case("very long", batch=1, heads=1, queries=3, keys=1030), Setting()),
    (_case("many queries", batch=1, heads=1, queries=140, keys=5), Setting()),
    (_case("scale passed", scale=0.5), Setting()),
    (_case("negative scale", scale=-0.5), Setting()),
    (_case("mask per head", mask=Mask("random", "BHLS")), Setting()),
    (_case("mask per row", mask=Mask("random", "LS")), Setting()),
    (_case("mask per sample", mask=Mask("random", "B1LS")), Setting()),
    (_case("mask, square", queries=12, keys=12, mask=Mask("random", "B1LS")), Setting()),
    (_case("mask, B = H", batch=4, mask=Mask("random", "B1LS")), Setting()),
    (_case("padding", queries=13, mask=Mask("padding", "B11S")), Setting()),
    (_case("left padding", mask=Mask("left padding", "B11S")), Setting()),
    (_case("islands", queries=6, keys=150, batch=1, heads=1, mask=Mask("islands", "LS")), Setting()),
    (_case("mask in other memory", queries=13, mask=Mask("random", "B1LS", memory="transposed")), Setting()),
    (_case("numbers", mask=Mask("random", "LS", ("number",), numbers="odd")), Setting()),
    (_case("fractions", mask=Mask("random", "LS", ("number",), numbers="fractions")), Setting()),
    (_case("low scores, masked", values="scores -20", width=16, mask=Mask("random", "LS")), Setting()),
    (_case("very low scores, masked", values="scores -32768", width=16, mask=Mask("random", "LS")), Setting()),
    (_case("additive", mask=Mask("random", "LS", ADDITIVE, finite=True)), Setting()),
    (_case("additive without values", mask=Mask("random", "LS", ADDITIVE)), Setting()),
    (_case("empty row", mask=Mask("empty row", "LS")), Setting()),
    (_case("empty row, zeros", mask=Mask("empty row", "LS")), Setting(empty_row="zeros")),
    (_case("causal", queries=12, keys=12, causal=True), Setting(causal="top-left")),
    (_case("causal, L < S", causal=True), Setting(causal="bottom-right")),
    (_case("causal, L > S", queries=13, keys=9, causal=True), Setting(causal="bottom-right", empty_row="zeros")),
    (_case("causal, masked", causal=True, mask=Mask("random", "LS")), Setting(causal="top-left")),
    (_case("window", window=3), Setting(causal="bottom-right")),
    (_case("window, causal, masked", window=4, causal=True, mask=Mask("random", "LS")), Setting(causal="top-left")),
    (_case("soft cap, masked", softcap=1.0, mask=Mask("random", "LS")), Setting()),
    (_case("soft cap and bias", softcap=2.0, bias="BHLS"), Setting()),
    (_case("bias", bias="BHLS"), Setting()),
    (_case("bias, masked", bias="BHLS", mask=Mask("random", "LS")), Setting()),
    (_case("bias for all", bias="LS"), Setting()),
    (_case("grouped", heads=6, kv_heads=3), Setting()),
    (_case("grouped, masked", heads=6, kv_heads=2, mask=Mask("random", "BHLS")), Setting()),
    (_case("transposed", memory="transposed"), Setting()),
    (_case("sliced", memory="sliced"), Setting()),
    (_case("rows apart", memory="rows apart"), Setting()),
    (_case("heads swapped", memory="heads swapped"), Setting()),
)

MODULES: tuple[tuple[Case, Setting], ...] = (
    (_case("module", value_width=8), Setting(module=True)),
    (_case("module, square", value_width=8, queries=12, keys=12), Setting(module=True)),
    (_case("module, masked", value_width=8, mask=Mask("random", "BHLS")), Setting(module=True)),
    (_case("module, another scale", value_width=8), Setting(module=True, scale="1/sqrt(d_model)")),
    (_case("module, fewer key heads", value_width=8), Setting(module=True, structure=Structure(kv_heads=2))),
    (_case("module, no output projection", value_width=8), Setting(module=True, structure=Structure(output=False))),
)

_OFFERED: dict[str, Any] = {
    "mask": ("bool", "number", "additive"),
    "options": ("scale", "bias", "window", "softcap"),
    "causal": "top-left",
    "heads": "grouped",
}
_KERNEL, _MODULE = describe(attention, **_OFFERED), describe(MultiHeadAttention, mask=_OFFERED["mask"])


def call_of(case: Case, setting: Setting, stages: Stages, second: str | None = "weights") -> Call:
    """Return a call in fp64 with some stages replaced."""
    subject = Subject(_MODULE if setting.module else _KERNEL, "fp64")
    inputs = make(case, setting.module, "fp64")
    delivered = subject.canonically(subject.deliver(inputs))
    inputs = inputs.changed(upstream=place(inputs.upstream, case.memory))
    return Call(inputs, expect(case, setting, "fp64").setting, delivered, stages, second)
