from attention_conformance import Deviation, register

from blockwise import attend

flash = register(
    attend,
    mask=("bool",),
    empty_row="zeros",
    second="lse",
    precision="upcast",
    deviations=[
        Deviation("ERRORS-005", reason="a mask's length is checked once, by the model, and not in every layer")
    ],
)
