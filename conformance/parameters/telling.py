"""What is said where projections are not recognised: what is there, and the line to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

SYNTAX = (
    'Names are those of submodules or parameters; "qkv", "kv", "kqv" ... is a packed one, ".T" after a name means stored '
    'as (in, out), " by head" packed head by head, and "output": None that there is no output projection.'
)


def explain(
    problem: str,
    tensors: Mapping[str, Tensor],
    guess: Mapping[str, str | None] | None = None,
    doubt: Sequence[str] = (),
) -> str:
    """Return the text of an error: the problem, every name with its shape, and the line to write."""
    if not tensors:
        return (
            "the module has no parameters, and so no projections. If it is a kernel, register an instance of it, "
            "register(Kernel()), rather than the class or factory."
        )
    names = "\n".join(f"    {name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
    return (
        f"the projections of the module were not recognised: {problem}.\nIts parameters are:\n{names}\n"
        f"Say where they are, with\n    {line(guess or {}, doubt)}\n{SYNTAX}"
    )


def line(guess: Mapping[str, str | None], doubt: Sequence[str] = ()) -> str:
    """Return the keyword to write, with the best guess filled in and what is in doubt marked."""
    filled = dict(guess)
    covered = {role for role in filled if len(role) > 3} | {
        letter for role in filled if len(role) <= 3 for letter in role
    }
    for letter, role in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
        if role not in covered and letter not in covered:
            filled[role] = "..."
    uncertain = list(dict.fromkeys([*doubt, *(role for role, name in filled.items() if name == "...")]))
    told = ", ".join(
        f'"{role}": {"None" if name is None else chr(34) + name + chr(34)}' for role, name in filled.items()
    )
    return f"parameters={{{told}}}" + (f"    # in doubt: {', '.join(uncertain)}" if uncertain else "")
