"""When a probe measures."""

import time
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Wall time of a training from its first step, and the part of it that measurements took."""

    #: Those of sessions before this one.
    elapsed_before: float = 0.0
    measuring_before: float = 0.0
    #: Of this session.
    measuring: float = 0.0
    _began: float = field(default_factory=time.perf_counter)

    def elapsed(self) -> float:
        """Seconds since the first step of this session."""
        return time.perf_counter() - self._began

    def totals(self) -> tuple[float, float]:
        """Elapsed and measuring seconds of all sessions."""
        return self.elapsed_before + self.elapsed(), self.measuring_before + self.measuring


@dataclass(frozen=True)
class EverySteps:
    """At the multiples of a number of steps."""

    steps: int

    def is_due(self, step: int, clock: Clock, expected_cost: float | None) -> bool:
        return step % self.steps == 0


@dataclass(frozen=True)
class ShareOfTime:
    """As often as a share of the wall time permits: at the first step, and then whenever a measurement as long as the longest
    of the last ones leaves the total below the share."""

    share: float

    def is_due(self, step: int, clock: Clock, expected_cost: float | None) -> bool:
        return expected_cost is None or clock.measuring + expected_cost < self.share * clock.elapsed()
