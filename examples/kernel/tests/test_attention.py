from attention_conformance import register

from blockwise import attend

flash = register(attend, mask=("bool",), empty_row="zeros", second="lse", precision="upcast")
