"""Sound implementations, each computed or declared in another way; the suite blames none of them."""

from .conventions import SOUND_CONVENTIONS
from .deliveries import SOUND_DELIVERIES
from .gradients import SOUND_GRADIENTS
from .kernels import SOUND_KERNELS
from .layouts import SOUND_LAYOUTS
from .library import SOUND_LIBRARY
from .masks import SOUND_MASKS
from .modules import SOUND_MODULES
from .options import SOUND_OPTIONS
from .packed_modules import SOUND_PACKED_MODULES
from .softmaxes import SOUND_SOFTMAXES
from .storage import SOUND_STORAGE
from .tiled import SOUND_TILED

SOUND = (
    *SOUND_KERNELS,
    *SOUND_SOFTMAXES,
    *SOUND_TILED,
    *SOUND_MASKS,
    *SOUND_GRADIENTS,
    *SOUND_LIBRARY,
    *SOUND_CONVENTIONS,
    *SOUND_LAYOUTS,
    *SOUND_DELIVERIES,
    *SOUND_OPTIONS,
    *SOUND_MODULES,
    *SOUND_PACKED_MODULES,
    *SOUND_STORAGE,
)

__all__ = ["SOUND"]
