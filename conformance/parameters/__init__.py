"""Where a module keeps its projections: recognised by name, shape and a small call, or given as `parameters=`.

parameters={"query": "W_q", "key": "W_k", "value": "W_v", "output": "W_o"}      names of submodules or parameters
parameters={"qkv": "attn.in_proj_weight attn.in_proj_bias", "output": "out"}    packed: rows of query, key, value
parameters={"query": "to_q", "kv": "to_kv", "output": "to_out.0"}               packed key and value
parameters={"kqv": "mix", "output": "out"}                                      packed in another order
parameters={"qkv": "query_key_value by head", "output": "dense"}                packed head by head: (H, 3, D) rows
parameters={"qkv": "to_qkv by feature", "output": "out"}                        packed as (H, D, 3) rows
parameters={"qkv": "c_attn.T", "output": "c_proj.T"}                            stored transposed, (in, out)
parameters={"qkv": "linears.0 linears.1 linears.2", "output": "linears.3"}      one parameter for each of them
parameters={"output": None}                                                     no output projection

Kernels of three axes - (E, H, D), (H, D, E), (H, E, D) -, 1 x 1 convolutions, absent biases, heads in lists, and key and
value projections of fewer heads (grouped, multi-query) are told by their shapes. Where names leave something open, a
small call decides: the reading under which it gives what the definition gives is taken. What is declared is believed, and
roles that are not are recognised as without it.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..errors import UnknownParameters
from .assigning import assignments
from .candidates import Unfit, candidates
from .deciding import Experiment, Undecided, decide, experiment
from .declared import read
from .names import find
from .storage import Layout, Slot, rows_of
from .telling import explain

__all__ = ["Experiment", "Layout", "Slot", "experiment", "recognise", "rows_of"]


def recognise(
    module: nn.Module,
    d_model: int,
    heads: int,
    given: Mapping[str, str | None] | None = None,
    trying: Experiment | None = None,
) -> Layout:
    """Return where the projections of `module` are.

    Without `trying`, an experiment, the most usual reading of names and shapes is returned.

    Raises UnknownParameters, with the names and shapes found and the line to write, when a role is missing, occurs
    twice, has a shape that fits neither d_model nor the width of a head, or is in doubt and no reading agrees;
    OtherParameters when parameters besides the projections change the result.
    """
    named: dict[str, Tensor] = {**dict(module.named_parameters())} or {**dict(module.named_buffers())}
    lazy = [name for name, tensor in named.items() if is_lazy(tensor)]
    if lazy:
        raise UnknownParameters(
            f"{lazy[0]} has no shape before the first call. Register a factory that builds the module and calls it once."
        )
    tensors = {name: tensor for name, tensor in named.items() if tensor.is_floating_point()}
    named_roles = read(module, tensors, given) if given else find(module, tensors)
    assigned = assignments(named_roles, d_model)
    try:
        found = candidates(assigned, d_model, heads)
        if trying is None:
            return found[0].layout
        others = [name for name in tensors if name not in found[0].layout.names]
        return decide(found, others, trying)
    except (Unfit, Undecided) as problem:
        doubt = problem.doubt if isinstance(problem, Undecided) else ()
        raise UnknownParameters(explain(str(problem), tensors, assigned[0].guess(), doubt)) from None
