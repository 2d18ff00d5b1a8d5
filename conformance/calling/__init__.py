"""How a target is called, how its modules are built, and what comes back: recognised by names where that is safe."""

from .building import Construction, construction_of
from .form import Form
from .packing import settled
from .recognising import answers_of, form_of
from .returned import Found, split

__all__ = ["Construction", "Form", "Found", "answers_of", "construction_of", "form_of", "settled", "split"]
