"""What a name says by itself."""

from __future__ import annotations

import pytest

from attention_conformance.parameters.names import spoken

SAYS = {
    "q": "W_q.weight wq q_proj.bias attn.to_q.0.weight inner.query_projection.weight in_proj_q queryProj.weight bq b_Q",
    "k": "W_K key_dense.weight tokeys.weight k_lin linear_keys.weight self.key.weight k_proj_weight",
    "v": "values.3.weight v_net.weight fc_v.weight value_layer.weight v_bias",
    "o": "out_proj.weight to_out.0.weight attn.output.dense.weight unifyheads.weight wo linear_final.weight proj_out",
    "qkv": "in_proj_weight qkv.weight query_key_value.weight Wqkv.weight to_qkv.0.weight c_attn.weight attn_qkv QKVProj",
    "kqv": "kqv.weight key_query_value.weight",
    "kv": "to_kv.weight key_value.weight kv_proj.weight",
    "qk": "to_qk.weight qk_proj.weight",
    "": "proj.weight c_proj.weight fc.weight rel_pos_k add_k_proj.weight lambda_q1 kv_a_proj_with_mqa.weight temperature "
    "q_a_proj.weight mem_kv pos_proj.weight gate_proj.weight relative_attention_bias.weight sinks query_norm.weight "
    "attention_weights.weight linear1.weight input_proj.weight token.weight inv_freq",
}


@pytest.mark.parametrize(
    ("letters", "name"), [(letters, name) for letters, names in SAYS.items() for name in names.split()]
)
def test_a_name_says_which_projections_it_holds(letters: str, name: str) -> None:
    assert spoken(name) == letters
