"""Every usual way to store the projections is recognised, and the module passes with nothing declared."""

from __future__ import annotations

import pytest

from attention_conformance import Outcome, check

from .habits import Habitual, Stored, bare, habit, linears, packed

RULES = ("PROJECTION-001", "PROJECTION-003")

NAMES = (
    "q k v o", "Q K V O", "wq wk wv wo", "Wq Wk Wv Wo", "W_q W_k W_v W_o", "W_Q W_K W_V W_O", "w_qs w_ks w_vs fc",
    "w_q w_k w_v w_concat", "q_w k_w v_w o_w", "q_proj k_proj v_proj out_proj", "q_proj k_proj v_proj o_proj",
    "proj_q proj_k proj_v proj_out", "proj_q proj_k proj_v proj", "query_proj key_proj value_proj output_proj",
    "q_lin k_lin v_lin out_lin", "q_linear k_linear v_linear out", "linear_q linear_k linear_v linear_out",
    "query_linear key_linear value_linear output_linear", "linear_query linear_key linear_value linear_final",
    "query key value dense", "query key value projection", "query key value output.dense", "query key value linear",
    "attn.q attn.k attn.v attn.o", "self.query self.key self.value output.dense", "to_q to_k to_v to_out.0",
    "to_query to_key to_value to_out", "toqueries tokeys tovalues unifyheads", "queries keys values fc_out",
    "fc_q fc_k fc_v fc_o", "in_proj_q in_proj_k in_proj_v out_proj", "query_layer key_layer value_layer output_layer",
    "query_dense key_dense value_dense combine_heads", "query_projection key_projection value_projection out_projection",
    "query_linear.w key_linear.w value_linear.w out_proj.w", "q.linear k.linear v.linear proj.linear",
    "queryProj keyProj valueProj outputProj", "q_net k_net v_net o_net", "c_q c_k c_v c_proj",
    "attention.query_transform attention.key_transform attention.value_transform attention.output",
    "linears.0 linears.1 linears.2 linears.3", "linear_layers.0 linear_layers.1 linear_layers.2 output_linear",
    "layers.0 layers.1 layers.2 layers.3", "projections.0 projections.1 projections.2 projections.3",
    "qkv.0 qkv.1 qkv.2 out", "in_proj.0 in_proj.1 in_proj.2 out_proj", "a b c d", "lin1 lin2 lin3 lin4",
    "query key value mixing",
)  # fmt: skip

CLASSES = (
    *(linears(names) for names in NAMES),
    linears("q k v proj_out", how="conv1d"),
    linears("to_q to_k to_v to_out", how="conv2d", bias=None),
    linears("q_proj k_proj v_proj c_proj", how="turned"),
    linears("layers.1 layers.0 layers.3 layers.2"),
    linears("wa wb wc wd", how="turned"),
    packed("qkv proj"),
    packed("Wqkv out_proj"),
    packed("qkv_proj o_proj", packing="by head"),
    packed("query_key_value dense", packing="by head"),
    packed("to_qkv to_out", packing="by feature"),
    packed("kqv proj", letters="kqv"),
    packed("c_attn c_proj", how="turned"),
    packed("mix out"),
    packed("to_kv to_q to_out", letters="kv"),
    packed("kv_proj q_proj out_proj", letters="kv", packing="by head"),
    packed("key_value query output", letters="kv"),
    packed("to_qk to_v to_out", letters="qk"),
    packed("qkv proj_out", how="conv1d", packing="by head"),
    packed("qkv proj", how="3EHD"),
    packed("qkv proj", how="E3HD"),
    packed("qkv proj", how="EH3D"),
    packed("qkv_kernel proj", how="3HDE"),
    packed("qkv_weight proj", how="3EE"),
    bare("W_Q W_K W_V W_O", "HED", "HDE", biases="b_Q b_K b_V b_O"),
    bare("query_kernel key_kernel value_kernel output_kernel", "EHD", "HDE"),
    bare("wq wk wv wo", "HDE", "EHD"),
    bare("W_q W_k W_v W_o", "raw turned", "raw turned", biases="bq bk bv bo"),
    bare("W_q W_k W_v W_o", "raw", "raw"),
    bare("q_proj_weight k_proj_weight v_proj_weight out_proj_weight", "raw", "raw"),
    habit(
        "BiasesBesideAPackedLayer", Stored("qkv", "in_proj_weight", "raw", bias="in_proj_bias"), Stored("o", "out_proj")
    ),
    linears("query key value"),
    packed("qkv", packing="by head"),
    linears("q_proj k_proj v_proj o_proj", group=2),
    linears("q_proj k_proj v_proj o_proj", group=8),
    linears("wq wk wv", group=2),
    packed("qkv_proj o_proj", group=2),
    packed("query_key_value dense", packing="by head", group=2),
    packed("to_kv to_q to_out", letters="kv", group=4),
)


def _id(kind: type[Habitual]) -> str:
    return f"{kind.__name__}-{kind.stored[0].how}-{kind.stored[0].packing}-{kind.group}".replace(" ", "_")


@pytest.mark.parametrize("kind", CLASSES, ids=_id)
def test_a_habit_is_recognised_and_passes(kind: type[Habitual]) -> None:
    records = list(check(kind, select=[*RULES, "fp64"], second=None))
    assert len([record for record in records if record.outcome is Outcome.PASSED]) == len(RULES)
    assert not [(str(record.key), record.message) for record in records if record.bad]
