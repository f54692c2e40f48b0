"""Run a training script unchanged, with every optimizer that it creates perturbed at the level of rounding.

::

    LASTBIT_PERTURB=1 python -m lastbit.torch.launch train.py --lr 0.1
    LASTBIT_PERTURB=1 python -m lastbit.torch.launch -m package.train --lr 0.1
    LASTBIT_PERTURB=1 torchrun --nproc-per-node 2 -m lastbit.torch.launch train.py

``lastbit envelope`` starts Python programs this way. What the environment says:

``LASTBIT_PERTURB``
    The seed of the perturbation. Unset, empty or 0: none, and the run is bit-identical to one without the launcher.
``LASTBIT_PERTURB_KIND``
    ``ulps`` (the default), ``ulp`` or ``k``, as in :func:`lastbit.torch.perturb`; with ``k``, the factor is twice the seed
    plus one.
``LASTBIT_RUN``
    The folder of the run. If it exists, the empty file ``$LASTBIT_RUN.perturbed`` beside it says that an optimizer was perturbed.

Every instance of ``torch.optim.Optimizer`` is perturbed from its creation on, in all processes that torchrun starts, and in
those of ``multiprocessing`` and ``torch.multiprocessing``, however these are started; all ranks draw the same. Of several
optimizers of the same parameters the first alone moves them at its creation, and each draws its own numbers at its steps. A copy
of an optimizer is perturbed at its steps. A script that starts Python programs by itself (such as Lightning's strategy ``ddp``
outside of torchrun) starts them without the launcher. An optimizer that is no subclass of ``torch.optim.Optimizer`` is not
perturbed.

PyTorch and numpy are imported by the script and not before, so that environment variables set at its top have their effect.
"""

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from torch.optim import Optimizer

#: A command, and no function to call.
__all__: list[str] = []

SEED, KIND, RUN = "LASTBIT_PERTURB", "LASTBIT_PERTURB_KIND", "LASTBIT_RUN"
KINDS = ("ulps", "ulp", "k")
USAGE = "usage: python -m lastbit.torch.launch (SCRIPT | -m MODULE) [ARGUMENTS]"


def main(arguments: Sequence[str]) -> None:
    """Run ``SCRIPT ARGUMENTS`` or ``-m MODULE ARGUMENTS`` as the main module of this process."""
    named = arguments[1:] if arguments[:1] == ["-m"] else arguments
    if not named or named[0].startswith("-"):
        _refuse(f"{USAGE}\nfound {' '.join(arguments) or 'no arguments'}, expected a script or a module")
    install()
    sys.excepthook = _without_launcher
    if named is arguments:
        module, code = _script(named[0])
    else:
        module, code = _module(named[0])
    sys.argv[:] = [str(module.__file__) if named is not arguments else named[0], *named[1:]]
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def install() -> None:
    """Perturb every optimizer that this process will create, if the environment says so."""
    perturbation = _perturbation(os.environ.get(SEED, ""), os.environ.get(KIND, ""))
    if perturbation is None:
        return
    changes = {
        "torch.optim.optimizer": lambda module: _perturb_optimizers(module.Optimizer, perturbation),
        "multiprocessing.spawn": _install_in_processes,
    }
    for name, change in changes.items():
        if name in sys.modules:
            change(sys.modules[name])
        else:
            sys.meta_path.insert(0, _WhenImported(name, change))


def _perturbation(seed: str, kind: str) -> dict[str, Any] | None:
    """Keywords of :func:`lastbit.torch.perturb`."""
    kind = kind or KINDS[0]
    if kind not in KINDS:
        _refuse(f"lastbit: {KIND}: found {kind!r}, expected {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if not (seed or "0").isascii() or not (seed or "0").isdigit() or int(seed or "0") >= 2**63:
        _refuse(f"lastbit: {SEED}: found {seed!r}, expected a seed below 2^63; 0 for no perturbation")
    number = int(seed or "0")
    if number == 0:
        return None
    return {"kind": kind, "k": 2 * number + 1} if kind == "k" else {"kind": kind, "seed": number}


class _WhenImported:
    """A finder of modules that finds the one of this name, so as to change it once it is imported."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.change = change

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _perturb_optimizers(base: "type[Optimizer]", perturbation: dict[str, Any]) -> None:
    """Perturb optimizers when they are created, and copies when they get their state."""
    create, restore = base.__init__, base.__setstate__

    @functools.wraps(create)
    def create_perturbed(self: "Optimizer", *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        _perturb_now(self, perturbation)

    @functools.wraps(restore)
    def restore_perturbed(self: "Optimizer", state: dict[str, Any]) -> None:
        restore(self, state)
        _perturb_now(self, perturbation | {"is_copy": True})

    base.__init__ = create_perturbed  # type: ignore[method-assign]
    base.__setstate__ = restore_perturbed  # type: ignore[method-assign]


def _perturb_now(optimizer: "Optimizer", perturbation: dict[str, Any]) -> None:
    from lastbit.torch._perturb import perturb_created

    if perturb_created(optimizer, **perturbation):
        _say_that_the_run_is_perturbed()


@functools.cache
def _say_that_the_run_is_perturbed() -> None:
    """Leave a file beside the folder of the run; in it programs may remove, or mind, what is not theirs."""
    folder = os.environ.get(RUN, "").rstrip("/")
    # Whoever started the program notices that the file is missing.
    with contextlib.suppress(OSError):
        if os.path.isdir(folder):
            open(f"{folder}.perturbed", "ab").close()


def _install_in_processes(spawn: ModuleType) -> None:
    """New processes of Python, of the start methods spawn and forkserver, first load a dictionary: in them, too, perturb."""
    data = spawn.get_preparation_data

    @functools.wraps(data)
    def with_perturbation(name: str) -> dict[str, Any]:
        return {**data(name), "lastbit": _Installation()}

    spawn.get_preparation_data = with_perturbation  # type: ignore[attr-defined]


class _Installation:
    """Pickled, a call of :func:`install`; not by its name, since this module is the main one and the script takes its place."""

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str, dict[str, Any]]]:
        return exec, ("from lastbit.torch.launch import install; install()", {})


def _script(name: str) -> tuple[ModuleType, CodeType]:
    """The main module and its code as ``python SCRIPT`` makes them."""
    path = os.path.abspath(name)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        _refuse(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}")
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    module = ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    module.__dict__.update(__file__=path, __loader__=loader, __builtins__=__builtins__, __cached__=None)
    return module, compile(source, path, "exec", dont_inherit=True)


def _module(name: str) -> tuple[ModuleType, CodeType]:
    """The main module and its code as ``python -m MODULE`` makes them."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader = spec and spec.loader
    code: CodeType | None = loader.get_code(spec.name) if spec and isinstance(loader, importlib.abc.InspectLoader) else None
    if spec is None or code is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=spec.origin,
        __loader__=loader,
        __builtins__=__builtins__,
        __cached__=spec.cached,
        __package__=spec.parent,
        __spec__=spec,
    )
    return module, code


def _refuse(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)


def _without_launcher(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print an error of the script as Python would without the launcher."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        traceback = traceback.tb_next
    sys.__excepthook__(kind, error.with_traceback(traceback), traceback)


if __name__ == "__main__":
    main(sys.argv[1:])
