from attention_conformance import register

from jaxattention import attend

attention = register(
    attend,
    framework="jax",
    layout="BLHD",
    leading="equal",
    # The models that call it leave JAX's 64 bits off and have no parameters in bf16.
    dtypes=("fp32",),
)
