"""The names of ``lastbit.torch``; importing them imports PyTorch."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "lastbit.torch: found no PyTorch, expected version 2.4 or later; `pip install lastbit[torch]` installs it"
    ) from error

from lastbit.torch._attribution import Attribution as Attribution
from lastbit.torch._critical_lr import CriticalLr as CriticalLr
from lastbit.torch._critical_lr import critical_lr as critical_lr
from lastbit.torch._fingerprint import Fingerprint as Fingerprint
from lastbit.torch._fingerprint import fingerprint as fingerprint
from lastbit.torch._growth import Growth as Growth
from lastbit.torch._growth import growth as growth
from lastbit.torch._perturb import Perturbation as Perturbation
from lastbit.torch._perturb import perturb as perturb
from lastbit.torch._probe import Probe as Probe
from lastbit.torch._problem import NotDeterministicError as NotDeterministicError
from lastbit.torch._sharpness import LayerSharpness as LayerSharpness
from lastbit.torch._sharpness import Sharpness as Sharpness
from lastbit.torch._sharpness import sharpness as sharpness
