"""Entries for the package transformers, where it is installed: a class or function of every family is judged."""

from __future__ import annotations

import importlib
import re
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

import pytest

from attention_conformance import check
from attention_conformance.adapters import ADAPTERS
from attention_conformance.cases.case import PLAIN
from attention_conformance.loading import load
from tests.adapters.pasted import largest_differences

pytestmark = pytest.mark.slow

RULES = ["SHAPE-001", "NUMERIC-001", "MASK-002", "MASK-003", "CAUSAL-001", "GRADIENT-001", "PROJECTION-001", "fp32"]
EAGER = "eager_attention_forward"
SOUND = (
    f"bert.modeling_bert:{EAGER}", f"gemma2.modeling_gemma2:{EAGER}", f"gpt_oss.modeling_gpt_oss:{EAGER}",
    f"gptj.modeling_gptj:{EAGER}", f"llama.modeling_llama:{EAGER}", f"t5.modeling_t5:{EAGER}",
    "bart.modeling_bart:BartAttention", "bart.modeling_bart:BartAttention[cross]",
    "bert.modeling_bert:BertCrossAttention", "bert.modeling_bert:BertSelfAttention",
    "bert.modeling_bert:BertSelfAttention[sdpa]", "bloom.modeling_bloom:BloomAttention",
    "clip.modeling_clip:CLIPAttention", "cohere.modeling_cohere:CohereAttention", "detr.modeling_detr:DetrCrossAttention",
    "falcon.modeling_falcon:FalconAttention", "fsmt.modeling_fsmt:Attention[padding]",
    "gpt2.modeling_gpt2:GPT2Attention[cross]", "gpt_neox.modeling_gpt_neox:GPTNeoXAttention",
    "llama.modeling_llama:LlamaAttention", "llama.modeling_llama:LlamaAttention[causal]",
    "llama.modeling_llama:LlamaAttention[grouped]", "mpt.modeling_mpt:MptAttention", "sam.modeling_sam:SamAttention",
    "speecht5.modeling_speecht5:SpeechT5Attention", "t5.modeling_t5:T5Attention", "xlm.modeling_xlm:MultiHeadAttention",
)  # fmt: skip
PASTED = ("llama.modeling_llama:LlamaAttention[grouped]", f"llama.modeling_llama:{EAGER}", "t5.modeling_t5:T5Attention")


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    """The package."""
    module: ModuleType = pytest.importorskip("transformers")
    return module


@pytest.mark.usefixtures("transformers")
@pytest.mark.parametrize("target", SOUND)
def test_what_is_sound_passes(target: str) -> None:
    (loaded,) = load(f"transformers.models.{target}")
    bad = [record for record in check(loaded.implementation, select=RULES) if record.bad]
    assert not bad, bad[0].message


@pytest.mark.usefixtures("transformers")
@pytest.mark.parametrize("target", PASTED)
def test_a_script_runs_where_only_the_package_is_installed(target: str) -> None:
    (loaded,) = load(f"transformers.models.{target}")
    differences = largest_differences(loaded.implementation, "fp32", PLAIN)
    assert len(differences) == 4
    assert max(differences) < 1e-4


def test_every_class_that_is_named_exists(transformers: ModuleType) -> None:
    models = Path(str(transformers.__file__)).parent / "models"
    defined = {}
    for file in models.glob("*/modeling_*.py"):
        module = f"transformers.models.{file.parent.name}.{file.stem}"
        defined[module] = re.findall(r"^(?:class|def) (\w+)", file.read_text(), re.MULTILINE)
    places = [f"{module}:{name}" for module, names in defined.items() for name in names]
    patterns = {each.target for each in ADAPTERS if each.target.startswith("transformers.models.")}
    assert not {pattern for pattern in patterns if not any(fnmatchcase(place, pattern) for place in places)}
    importlib.import_module("transformers.integrations.sdpa_attention")
