"""Cases that others published: onnx's node tests, made by the installed release or stored in a wheel of another.

Releases up to 1.22 hold `model.onnx` and one file for each tensor; later ones make their cases when they are asked.
Licence of the cases: Apache-2.0 (onnx). None of them is kept in this repository.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

STARTS = ("test_attention", "test_flexattention")
INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
_NODES = "onnx/backend/test/data/node/"

Arrays = Mapping[str, "numpy.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Published:
    """One case: the operator and its attributes, and the arrays by the names of INPUTS and OUTPUTS."""

    name: str
    operator: str
    attributes: Mapping[str, Any]
    inputs: Arrays
    outputs: Arrays


def installed() -> tuple[str, list[Published]]:
    """Return the version of the installed onnx and the cases that it makes."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, about casts in cases of other operators
        found = collect_testcases(None)
    cases = []
    for case in found:
        if case.name.startswith(STARTS) and _is_primary(case.name):
            ((inputs, outputs),) = case.data_sets
            cases.append(_published(case.name, case.model, inputs, outputs))
    return onnx.__version__, cases


def stored(wheel: Path) -> tuple[str, list[Published]]:
    """Return the version of a wheel of onnx and the cases that are stored in it."""
    with zipfile.ZipFile(wheel) as archive:
        folders = {name[len(_NODES) :].split("/")[0] for name in archive.namelist() if name.startswith(_NODES)}
        names = sorted(name for name in folders if name.startswith(STARTS))
        return wheel.name.split("-")[1], [_stored(archive, name) for name in names if _is_primary(name)]


def _is_primary(name: str) -> bool:
    """Say whether a case is no second copy of another one's numbers."""
    return "expanded" not in name


def _stored(archive: zipfile.ZipFile, name: str) -> Published:
    import onnx

    model = onnx.load_model_from_string(archive.read(f"{_NODES}{name}/model.onnx"))
    read = {side: list(_tensors(archive, f"{_NODES}{name}/test_data_set_0/{side}_")) for side in ("input", "output")}
    return _published(name, model, read["input"], read["output"])


def _tensors(archive: zipfile.ZipFile, start: str) -> Iterator[Any]:
    import onnx

    number = sum(name.startswith(start) for name in archive.namelist())
    for index in range(number):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(archive.read(f"{start}{index}.pb"))
        yield onnx.numpy_helper.to_array(tensor)


def _published(name: str, model: Any, inputs: Any, outputs: Any) -> Published:
    import onnx

    (node,) = model.graph.node
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    # Inputs and outputs that are left out have an empty name and no array.
    sent = [role for role, given in zip(INPUTS, node.input, strict=False) if given]
    returned = [role for role, given in zip(OUTPUTS, node.output, strict=False) if given]
    return Published(
        name,
        node.op_type,
        attributes,
        dict(zip(sent, inputs, strict=True)),
        dict(zip(returned, outputs, strict=True)),
    )
