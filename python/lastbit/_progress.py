"""Progress of long work: one line on stderr, in a terminal and in a notebook."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lastbit._result import Result

Show = Callable[[str, int, int, dict[str, Any] | None, list[str]], None]

#: Seconds before the first line, and between two lines.
QUIET_FOR = 1.0
LINE_EVERY = 0.5


@dataclass(frozen=True)
class Progress(Result):
    """How far work is; what a function given as ``progress`` is called with.

    Attributes
    ----------
    label
        Name of the work, such as ``"train"``.
    done, total
        Steps done, and steps in all; the total may change.
    status
        Of a training: ``step``, ``train_loss``, ``test_accuracy`` (percent) and ``rel_l1`` of the last row of metrics;
        otherwise None.
    """

    label: str
    done: int
    total: int
    status: dict[str, Any] | None

    def __str__(self) -> str:
        share = 100 * self.done // self.total if self.total else 0
        line = f"{self.label}: {min(share, 100)} % ({self.done} of {self.total})"
        if self.status is None:
            return line
        line += f", loss {self.status['train_loss']:.4f}"
        if self.status["test_accuracy"] is not None:
            line += f", test accuracy {self.status['test_accuracy']:.2f} %"
        if self.status["rel_l1"] is not None:
            line += f", RelL1 {self.status['rel_l1']:.1e}"
        return line


class Shower:
    """Shows progress while it is the context of a ``with`` statement.

    ``progress`` is True (a line on stderr), False (nothing) or a function of a :class:`Progress`.
    """

    def __init__(self, progress: bool | Callable[[Progress], object]) -> None:
        self._own = progress if callable(progress) else None
        self.show: Show | None = self._show if progress else None
        self._started = self._last = time.monotonic()
        self._width = 0

    def _show(self, label: str, done: int, total: int, status: dict[str, Any] | None, notes: list[str]) -> None:
        found = Progress(label, done, total, status)
        if self._own is not None:
            self._own(found)
            return
        for note in notes:
            self._clear()
            print(note, file=sys.stderr)
        now = time.monotonic()
        if now - self._started < QUIET_FOR or now - self._last < LINE_EVERY:
            return
        self._last = now
        line = str(found)
        # Blanks hide the rest of a longer line.
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def _clear(self) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0

    def __enter__(self) -> "Shower":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
