from attention_conformance import register

from tinymodel.attention import CausalSelfAttention

attention = register(
    CausalSelfAttention,
    inputs="self",
    parameters={"qkv": "c_attn", "output": "c_proj"},
    # It is a language model's: there is no call without the triangle.
    causal="always top-left",
)
