"""What is passed, by position or by name, and the same call as Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from attention_conformance import check
from attention_conformance.calling.delivered import Delivered
from attention_conformance.calling.form import Form
from attention_conformance.cases.case import Case, Mask
from attention_conformance.cases.inputs import make
from attention_conformance.errors import UnknownCall
from attention_conformance.implementation import describe
from attention_conformance.trials.subject import Subject

from .made import kernel, module

ROOT = Path(__file__).parents[2]
NAMES = {name: name for name in ("query", "key", "value", "mask", "bias")}


def bound(target: Any, case: Case, **declared: Any) -> tuple[Form, Delivered]:
    subject = Subject(describe(target, **declared), "fp32")
    return subject.form(target), subject.deliver(make(case, subject.implementation.is_module, "fp32"))


def written(signature: str, case: Case, **declared: Any) -> str:
    form, sent = bound(kernel(signature, ""), case, **declared)
    return form.written("f", sent, NAMES)


PLAIN, MASKED = Case("plain"), Case("masked", mask=Mask("random", "LS"))
PADDED = Case("padded", mask=Mask("padding", "B11S", ("bool", "lengths")))


@pytest.mark.parametrize(
    ("signature", "case", "declared", "text"),
    [
        ("q, k, v, mask=None", PLAIN, {}, "f(query, key, value)"),
        ("q, k, v, mask=None", MASKED, {}, "f(query, key, value, mask)"),
        ("q, k, v, mask", PLAIN, {}, "f(query, key, value, None)"),
        ("v, k, q, mask=None", MASKED, {}, "f(value, key, query, mask)"),
        ("q, k, v, scale=None, mask=None", MASKED, {}, "f(query, key, value, mask=mask)"),
        ("a, b, c, d=None", MASKED, {}, "f(query, key, value, mask)"),
        ("a, b, c, d=False, *, mask=None", MASKED, {}, "f(query, key, value, mask=mask)"),
        ("*, k, q, v, attn_mask=None", MASKED, {}, "f(k=key, q=query, v=value, attn_mask=mask)"),
        ("q, k, v, p=0.5, mask=None, /", MASKED, {}, "f(query, key, value, 0.5, mask)"),
        ("q, k, v, is_causal=False", Case("c", causal=True), {"causal": "top-left"}, "f(query, key, value, is_causal=True)"),
        ("q, k, v, causal", PLAIN, {}, "f(query, key, value, causal=False)"),
        ("q, k, v, window_size=(-1, -1)", Case("w", window=3), {}, "f(query, key, value, window_size=(2, 2))"),
        ("q, k, v, window_size=None", Case("w", window=3), {}, "f(query, key, value, window_size=3)"),
        ("q, k, v, rel_pos_bias=None", Case("b", bias="BHLS"), {}, "f(query, key, value, rel_pos_bias=bias)"),
        ("q, k, v, **more", Case("s", scale=0.5), {}, "f(query, key, value, scale=0.5)"),
        ("q, k, v, scaling", Case("d", width=16), {}, "f(query, key, value, scaling=0.25)"),
        ("q, k, v, scaling", Case("d", width=16), {"scale": "1/sqrt(d_model)"}, "f(query, key, value, scaling=0.125)"),
        ("q, k, v, nhead", PLAIN, {"layout": "BL(HD)"}, "f(query, key, value, nhead=4)"),
        ("q, k, v, nhead, sm_scale", Case("d", width=16), {"layout": "BL(HD)"}, "f(query, key, value, nhead=4, sm_scale=0.25)"),
        ("q, k, v, need_weights=True, average_attn_weights=True", PLAIN, {"second": "weights"},
         "f(query, key, value, need_weights=True, average_attn_weights=False)"),
        ("q, k, v, need_weights=False", PLAIN, {}, "f(query, key, value)"),
        ("q, k, v, mask=None, key_padding_mask=None", PADDED, {"mask_shapes": ("LS", "BS")}, "f(query, key, value, key_padding_mask=mask)"),
        ("q, k, v, mask=None, key_padding_mask=None", MASKED, {"mask_shapes": ("LS", "BS")}, "f(query, key, value, mask)"),
        ("q, k, v, mask=None, lengths=None", PADDED, {"mask": ("lengths",)}, "f(query, key, value, lengths=mask)"),
        ("x, context, mask=None", MASKED, {}, "f(query, key, mask)"),
        ("x, mask=None", MASKED, {}, "f(query, mask)"),
    ],
)  # fmt: skip
def test_the_call_is_written_as_it_is_made(signature: str, case: Case, declared: dict[str, Any], text: str) -> None:
    assert written(signature, case, **declared) == text


def test_a_builtin_is_called_in_the_documents_order() -> None:
    function = torch.nn.functional.scaled_dot_product_attention
    form, sent = bound(function, MASKED)
    assert form.written("f", sent, NAMES) == "f(query, key, value, mask)"


def test_a_reference_gives_the_order_where_names_say_nothing() -> None:
    form, sent = bound(module("a, b, c, d", "c, b, a, d"), PLAIN, reference="SelfAttention")
    assert form.written("f", sent, NAMES) == "f(value, key, query, None)"


def test_a_module_gets_the_scale_of_its_heads() -> None:
    form, sent = bound(module("x, scale", "x, x, x, scale=scale"), Case("d", width=16))
    assert form.written("f", sent, NAMES) == "f(query, scale=0.25)"


def test_a_mask_and_a_bias_do_not_share_an_argument() -> None:
    case = Case("both", bias="BHLS", mask=Mask("random", "LS", ("additive",)))
    form, sent = bound(kernel("q, k, v, bias=None", ""), case, mask=("additive",), options=("bias",))
    with pytest.raises(UnknownCall, match="takes what is added to the scores"):
        form.bind(sent)


def test_the_suggested_call_can_be_evaluated() -> None:
    form, _ = bound(kernel("layer, q, k, v, mask=None, flag=True", ""), PLAIN, causal="top-left")
    suggested = form.suggested.removeprefix("call=")
    assert suggested.endswith("f(layer=..., q=query, k=key, v=value, mask=mask, **options)")
    assert callable(eval(suggested))


REPRODUCED = (
    ("def attend(value, key, query, *, attn_mask=None, sm_scale=None):", "{'output': both(query, key, value)[0]}"),
    ("def attend(qkv):", "both(*qkv.unbind(0))[0]"),
)


@pytest.mark.parametrize(("signature", "result"), REPRODUCED, ids=["by name", "packed"])
def test_the_script_of_a_failure_shows_the_same_call(signature: str, result: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "def both(query, key, value):\n    return ((query @ key.mT).softmax(-1) @ value,)\n\n"
        f"{signature}\n    return {result}\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import theirs  # type: ignore[import-not-found]

        records = list(check(theirs.attend, mask=(), leading="equal", select=["NUMERIC-001", "fp64"]))
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["theirs"]
    _, _, script = records[0].message.partition("to reproduce, paste:\n")
    code = "\n".join(line[4:] for line in script.splitlines())
    assert "attention_conformance" not in code
    ran = subprocess.run([sys.executable, "-"], input=code, text=True, capture_output=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr
    assert max(float(number) for number in re.findall(r"largest difference (\S+)", ran.stdout)) > 1e-3


def test_the_script_of_a_module_builds_it_the_same_way() -> None:
    unscaled = module(
        "x", "x, x, x, scale=1.0", init="*, dim, num_heads=8, dim_head=64, dropout=0.1", sizes="dim, num_heads"
    )
    (record,) = check(unscaled, mask=(), select=["NUMERIC-001", "fp64"])
    assert "attend(dim=32, num_heads=4, dim_head=8, dropout=0.0)" in record.message
    assert "result = module(query)" in record.message
