"""Records: the paper's exhibits, the report, and whether files are as they were written."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lastbit import _lastbit
from lastbit._arguments import PathLike
from lastbit._json import loads, table
from lastbit._progress import Progress, Shower
from lastbit._result import Result

Rows = list[dict[str, Any]]
Show = bool | Callable[[Progress], object]


@dataclass(frozen=True)
class Exhibit(Result):
    """A figure or table that was reproduced.

    Attributes
    ----------
    id, title, claim
        Its name, one line about it, and what is claimed.
    status
        ``"holds"``, ``"fails"``, ``"undecided"``, ``"not-tested"`` (the scale is too small for the claim) or
        ``"no-claim"``.
    not_tested
        Why the claim cannot be tested at this scale; otherwise None.
    scale
        ``"smoke"``, ``"desk"`` or ``"paper"``.
    checks
        Comparisons with the paper or with closed forms, one row each, as ``pandas.DataFrame`` takes them: ``name``,
        ``expected``, ``found``, ``outcome`` and others.
    figures
        Paths of its figures (SVG and PNG).
    folder
        Folder of its record.
    """

    id: str
    title: str
    claim: str
    status: str
    not_tested: str | None
    scale: str
    checks: Rows = field(repr=False)
    figures: list[Path] = field(repr=False)
    folder: Path

    def __str__(self) -> str:
        why = "" if self.not_tested is None else f" ({self.not_tested})"
        columns = {"outcome": "", "name": "check", "expected": "expected", "found": "found"}
        lines = [f"{self.id}: {self.title}", f"{self.status}{why}; record in {self.folder}"]
        return "\n".join([*lines, table(self.checks, columns)] if self.checks else lines)


def run(
    exhibits: str | Sequence[str],
    *,
    scale: str = "desk",
    device: str = "cpu",
    out: PathLike = "lastbit-out",
    fresh: bool = False,
    progress: Show = True,
) -> list[Exhibit]:
    """Reproduce figures and tables of the paper, as ``lastbit run`` does.

    Finished cells are saved: the same call resumes after Ctrl-C, and takes finished exhibits from ``out``.

    Parameters
    ----------
    exhibits
        Names of figures and tables (``lastbit list`` shows them), or ``"all"``.
    scale
        ``"smoke"`` (seconds), ``"desk"`` (minutes) or ``"paper"`` (the paper's settings).
    device
        Device for trainings: ``"cpu"`` or ``"cuda"``.
    out
        Folder of records.
    fresh
        Whether to compute again what is in ``out``.
    progress
        Whether to show a line on stderr while it runs; or a function that is called with a :class:`Progress`.

    Returns
    -------
    list of Exhibit

    Examples
    --------
    >>> import lastbit, tempfile
    >>> with tempfile.TemporaryDirectory() as out:
    ...     (heat,) = lastbit.run("fig-heat", scale="smoke", out=out)
    >>> heat.status, len(heat.checks) > 0
    ('holds', True)
    """
    ids = [exhibits] if isinstance(exhibits, str) else list(exhibits)
    with Shower(progress) as shower:
        found = loads(_lastbit.run(ids, scale, device, out, fresh, shower.show))
    return [_exhibit(record) for record in found]


def _exhibit(record: dict[str, Any]) -> Exhibit:
    summary = record["summary"]
    return Exhibit(
        id=summary["id"],
        title=record["title"],
        claim=record["claim"],
        status=summary["status"],
        not_tested=summary["not_tested"],
        scale=summary["scale"],
        checks=summary["checks"],
        figures=[Path(path) for path in record["figures"]],
        folder=Path(summary["folder"]),
    )


def report(folder: PathLike = "lastbit-out", *, out: PathLike | None = None) -> Path:
    """Write one self-contained HTML report of all records below a folder.

    A damaged record is listed in the report without its numbers, and a warning says what is wrong with it.

    Parameters
    ----------
    folder
        Folder of records: of :func:`lastbit.run`, :func:`lastbit.train` and :func:`lastbit.edge`, and of
        :mod:`lastbit.pde` with ``out``.
    out
        The file to write. Default: ``report.html`` in the folder.

    Returns
    -------
    Path
        The report.

    Examples
    --------
    >>> import lastbit, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = lastbit.pde.heat(steps=100, out=folder)
    ...     lastbit.report(folder).name
    'report.html'
    """
    path, damaged = _lastbit.report(folder, out)
    for line in damaged:
        warnings.warn(f"not shown: {line}", stacklevel=2)
    return Path(path)


@dataclass(frozen=True)
class VerifyResult(Result):
    """Whether the files of a folder are as they were written.

    Attributes
    ----------
    records, cells, runs, data_sets, envelopes
        What was found: records, their finished cells, training runs, data sets, envelopes.
    whole
        Number of files that are as they were written.
    damaged
        Files that are not: rows with ``path``, ``message`` and ``mend``.
    notes
        Files that no record names, and work that is not finished: rows likewise.
    """

    records: int
    cells: int
    runs: int
    data_sets: int
    envelopes: int
    whole: int
    damaged: Rows
    notes: Rows

    def __str__(self) -> str:
        lines = [f"damaged: {row['path']}: {row['message']}; {row['mend']}" for row in self.damaged]
        checked = self.whole + len(self.damaged)
        return "\n".join([*lines, f"{checked} files checked, {len(self.damaged)} damaged"])


def verify(folder: PathLike = "lastbit-out", *, progress: Show = True) -> VerifyResult:
    """Check that no file of records, training runs and data sets below a folder is damaged.

    Parameters
    ----------
    folder
        The folder.
    progress
        Whether to show a line on stderr while it runs; or a function that is called with a :class:`Progress`.

    Returns
    -------
    VerifyResult

    Examples
    --------
    >>> import lastbit, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = lastbit.pde.heat(steps=100, out=folder)
    ...     lastbit.verify(folder).damaged
    []
    """
    with Shower(progress) as shower:
        return VerifyResult(**loads(_lastbit.verify(folder, shower.show)))
