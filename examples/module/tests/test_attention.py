from attention_conformance import register

from tinymodel.attention import CausalSelfAttention

attention = register(
    CausalSelfAttention,
    inputs="self",
    parameters={"qkv": "c_attn", "output": "c_proj"},
    causal="always top-left",
)
