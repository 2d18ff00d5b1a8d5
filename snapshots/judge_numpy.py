"""Judge an attention by the golden vectors with numpy alone: python judge_numpy.py [FILE.py:FUNCTION]."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def attend(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Return the attention's output; put your own in its place. `mask` is boolean, and True attends."""
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    scores = scores if mask is None else np.where(mask, scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return weights @ value / weights.sum(-1, keepdims=True).clip(1e-300)


def array(part: Any) -> Any:
    """Return the numbers of a file in their shape; decimals and hexadecimal floats are both exact."""
    numbers = [float.fromhex(n) if isinstance(n, str) else float(n) for n in part["values"]]
    return np.array(numbers).reshape(part["shape"])


def judge(function: Callable[..., Any], dtype: str = "fp64", numpy_dtype: Any = np.float64) -> dict[str, float]:
    """Return, for each vector without a mask or with a boolean one, the largest error divided by its allowance."""
    ratios = {}
    for path in sorted(HERE.glob("attention/ATTN-*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        mask = vector["mask"]
        if vector["agreement"] != "must agree" or (mask is not None and mask["form"] != "bool"):
            continue
        sent = [array(vector["inputs"][name]).astype(numpy_dtype) for name in ("query", "key", "value")]
        expected = vector["expected"]["output"]
        output = function(*sent, None if mask is None else array(mask) > 0)
        error = np.abs(output - array(expected)).ravel()
        ratios[vector["id"]] = float(np.max(error / np.array(expected["allowed"][f"{dtype} eager"]), initial=0.0))
    return ratios


def main(arguments: list[str]) -> int:
    """Judge `attend`, or FILE.py:FUNCTION, print each vector and return 1 if one is missed."""
    function = attend
    if arguments:
        file, _, name = arguments[0].rpartition(":")
        spec = importlib.util.spec_from_file_location("judged", file)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{arguments[0]} is not FILE.py:FUNCTION")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        function = getattr(module, name)
    ratios = judge(function)
    for identifier, ratio in ratios.items():
        sys.stdout.write(f"{identifier} {'ok' if ratio <= 1 else 'WRONG'} {ratio:.3g}\n")
    return int(not all(ratio <= 1 for ratio in ratios.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
