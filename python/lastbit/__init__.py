"""A numerical-stability laboratory for neural-network training.

Which learning rate is stable, and why? How much of a result is decided by rounding? Is this difference between two
runs a bug, or rounding?

``lastbit.torch`` measures a PyTorch model of your own; it needs PyTorch, which is imported when it is first used.
"""

from lastbit._judge import Judgement, judge
from lastbit._lastbit import __version__

__all__ = ["Judgement", "__version__", "judge"]
