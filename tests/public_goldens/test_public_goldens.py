"""Published cases are read as their specification says, without onnx at hand; the page belongs to the figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy
import pytest

from tests.public_goldens.judging import DIFFERENCES, judge
from tests.public_goldens.mapping import STANDARD, DoesNotMap, compare
from tests.public_goldens.measure import FIGURES, PAGE
from tests.public_goldens.page import page
from tests.public_goldens.published import Published

RANDOM = numpy.random.default_rng(7)


def _draw(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def _softmax(scores: Any) -> Any:
    exponentials = numpy.exp(scores - numpy.where(numpy.isinf(scores.max(-1)), 0.0, scores.max(-1))[..., None])
    sums = exponentials.sum(-1, keepdims=True)
    return exponentials / numpy.where(sums == 0, 1.0, sums)


def _case(attributes: dict[str, Any], scores: Any = lambda raw: raw, **inputs: Any) -> Published:
    """Return a case with grouped heads whose output is worked out by numpy from `scores(raw scores)`."""
    query, key, value = _draw(2, 4, 3, 8), _draw(2, 2, 5, 8), _draw(2, 2, 5, 6)
    repeated = [numpy.repeat(each, 2, axis=1).astype(numpy.float64) for each in (key, value)]
    raw = query.astype(numpy.float64) @ repeated[0].swapaxes(-1, -2) * attributes.get("scale", 8**-0.5)
    output = (_softmax(scores(raw)) @ repeated[1]).astype(numpy.float32)
    return Published("test_made", "Attention", attributes, {"Q": query, "K": key, "V": value, **inputs}, {"Y": output})


def _triangle(offset: Any) -> Any:
    return numpy.arange(5) <= numpy.arange(3)[:, None] + offset


BOOLEAN = numpy.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=bool)
LENGTHS = numpy.array([5, 2])
FLOAT = numpy.where(BOOLEAN, _draw(3, 5), -numpy.inf).astype(numpy.float32)
_REACH = LENGTHS.reshape(2, 1, 1, 1)
_PLACE = numpy.arange(3)[:, None] - numpy.arange(5)

CASES = {
    "plain": _case({}),
    "scale": _case({"scale": 0.25}),
    "soft cap before mask": _case({"softcap": 1.5}, lambda raw: 1.5 * numpy.tanh(raw / 1.5) + FLOAT, attn_mask=FLOAT),
    "boolean mask with an empty row": _case({}, lambda raw: numpy.where(BOOLEAN, raw, -numpy.inf), attn_mask=BOOLEAN),
    "mask that ends early": _case(
        {}, lambda raw: numpy.where(numpy.arange(5) < 4, raw, -numpy.inf), attn_mask=numpy.ones((3, 4), dtype=bool)
    ),
    "causal": _case({"is_causal": 1}, lambda raw: numpy.where(_triangle(0), raw, -numpy.inf)),
    "causal from the end of the lengths": _case(
        {"is_causal": 1},
        lambda raw: numpy.where(_triangle(_REACH - 3) & (numpy.arange(5) < _REACH), raw, -numpy.inf),
        nonpad_kv_seqlen=LENGTHS,
    ),
    "window": _case(
        {"left_window_size": 1, "right_window_size": 0},
        lambda raw: numpy.where((_PLACE >= 0) & (_PLACE <= 1), raw, -numpy.inf),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_agrees_with_numbers_worked_out_by_numpy(name: str) -> None:
    figures = judge("0.0", "made here", [CASES[name]])
    assert (figures.agreeing, figures.disagreeing) == (1, [])
    assert 0 < figures.worst["fp32"].ratio <= 1


def test_past_keys_come_first_and_shift_the_triangle() -> None:
    case = _case({"is_causal": 1}, lambda raw: numpy.where(_triangle(2), raw, -numpy.inf))
    past = {f"past_{name}": case.inputs[short][:, :, :2] for name, short in (("key", "K"), ("value", "V"))}
    rest = {"Q": case.inputs["Q"], **{name: case.inputs[name][:, :, 2:] for name in ("K", "V")}}
    outputs = {**case.outputs, "present_key": case.inputs["K"], "present_value": case.inputs["V"]}
    assert judge("0.0", "made here", [replace(case, inputs={**rest, **past}, outputs=outputs)]).agreeing == 1


def test_three_axes_hold_the_heads_of_a_position_side_by_side() -> None:
    case = _case({"q_num_heads": 4, "kv_num_heads": 2})
    flat = {name: each.swapaxes(1, 2).reshape(2, each.shape[2], -1) for name, each in case.inputs.items()}
    output = case.outputs["Y"].swapaxes(1, 2).reshape(2, 3, -1)
    assert judge("0.0", "made here", [replace(case, inputs=flat, outputs={"Y": output})]).agreeing == 1


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_each_mode_of_the_score_output_is_expected(mode: int) -> None:
    case = _case({"qk_matmul_output_mode": mode, "softcap": 1.5}, lambda raw: _stages(raw)[2], attn_mask=FLOAT)
    repeated = numpy.repeat(case.inputs["K"], 2, axis=1).astype(numpy.float64)
    raw = case.inputs["Q"].astype(numpy.float64) @ repeated.swapaxes(-1, -2) * 8**-0.5
    outputs = {**case.outputs, "qk_matmul_output": _stages(raw)[mode].astype(numpy.float32)}
    assert judge("0.0", "made here", [replace(case, outputs=outputs)]).agreeing == 1


def _stages(raw: Any) -> tuple[Any, Any, Any, Any]:
    capped = 1.5 * numpy.tanh(raw / 1.5)
    return raw, capped, capped + FLOAT, _softmax(capped + FLOAT)


def test_a_wrong_number_disagrees_and_is_not_explained() -> None:
    case = CASES["plain"]
    wrong = case.outputs["Y"].copy()
    wrong[1, 2, 0, 3] *= 1.0001
    figures = judge("0.0", "made here", [replace(case, outputs={"Y": wrong})])
    assert figures.agreeing == 0
    assert figures.unexplained == ["test_made"]


def test_tiled_heads_are_named() -> None:
    case = CASES["plain"]
    swapped = {**case.inputs, **{name: case.inputs[name][:, ::-1] for name in ("K", "V")}}
    query = case.inputs["Q"][:, [0, 2, 1, 3]]
    tiled = replace(case, inputs={**case.inputs, "Q": query}, outputs={"Y": case.outputs["Y"][:, [0, 2, 1, 3]]})
    (found,) = judge("0.0", "made here", [tiled]).disagreeing
    assert [DIFFERENCES[each] for each in found.differences] == [("groups", "tiled")]
    assert judge("0.0", "made here", [replace(case, inputs=swapped)]).unexplained == ["test_made"]


def test_a_graph_between_scores_and_output_does_not_map() -> None:
    with pytest.raises(DoesNotMap, match="score_mod"):
        list(compare(replace(CASES["plain"], attributes={"score_mod": object()}), STANDARD))


def test_the_page_belongs_to_the_figures() -> None:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(figures), "run tox -e public-goldens"
    assert all(each["differences"] for line in figures for each in line["disagreeing"])
