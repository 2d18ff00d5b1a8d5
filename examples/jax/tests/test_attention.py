from attention_conformance import register

from jaxattention import attend

attention = register(attend, framework="jax", layout="BLHD", leading="equal")
