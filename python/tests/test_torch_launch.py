"""Scripts that run unchanged with perturbed optimizers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import lastbit  # noqa: E402

LAUNCH = [sys.executable, "-m", "lastbit.torch.launch"]
# Prints a hash of the parameters, so that runs can be compared bit for bit.
HASH = """
import hashlib
def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]
"""
TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
"""


def run(
    command: list[str], folder: Path, perturb: str | None = None, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    package = str(Path(lastbit.__file__).resolve().parents[1])
    env = os.environ | {"PYTHONPATH": package, "OMP_NUM_THREADS": "1"} | environment
    env.pop("LASTBIT_PERTURB", None)
    if "LASTBIT_RUN" not in environment:
        env.pop("LASTBIT_RUN", None)
    if perturb is not None:
        env["LASTBIT_PERTURB"] = perturb
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(HASH + TRAIN + "print(digest(model))\n")
    return path


def test_seed_0_is_the_script_itself_and_other_seeds_are_not(script: Path) -> None:
    plain = run([sys.executable, "train.py"], script.parent).stdout
    outputs = {seed: run([*LAUNCH, "train.py"], script.parent, seed).stdout for seed in (None, "", "0", "1", "2")}
    assert outputs[None] == outputs[""] == outputs["0"] == plain
    assert len({plain, outputs["1"], outputs["2"]}) == 3
    assert run([*LAUNCH, "train.py"], script.parent, "1").stdout == outputs["1"]


def test_kinds(script: Path) -> None:
    def of(kind: str) -> str:
        return run([*LAUNCH, "train.py"], script.parent, "1", LASTBIT_PERTURB_KIND=kind).stdout

    plain = run([sys.executable, "train.py"], script.parent).stdout
    assert len({plain, of("k"), of("ulp"), of("ulps")}) == 4
    assert of("ulps") == of("")


def test_the_perturbation_is_that_of_perturb(script: Path) -> None:
    # By hand, in a script without the launcher.
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n"
    perturbed = script.read_text().replace(made, made + "import lastbit.torch\nlastbit.torch.perturb(optimizer, 'ulps', seed=5)\n")
    (script.parent / "by_hand.py").write_text(perturbed)
    assert run([sys.executable, "by_hand.py"], script.parent).stdout == run([*LAUNCH, "train.py"], script.parent, "5").stdout


WORLD = """
import sys, os, json, __main__
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "doc": __doc__, "package": __package__,
    "spec": __spec__ and __spec__.name, "main": __main__.__dict__ is globals(),
    "imported": [name for name in ("torch", "numpy", "multiprocessing", "lastbit._lastbit") if name in sys.modules],
}))
"""


@pytest.mark.parametrize("command", [["sub/what.py"], ["-m", "sub.what"], ["-m", "sub"]], ids=" ".join)
def test_the_script_sees_what_python_shows_it(command: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    for name in ("what.py", "__main__.py"):
        (folder / name).write_text(WORLD)
    (folder / "__init__.py").write_text("")
    arguments = [*command, "--lr", "0.1", "-m", "x y"]
    plain = run([sys.executable, *arguments], tmp_path).stdout
    assert '"imported": []' in plain
    for seed in ("0", "1"):
        assert run([*LAUNCH, *arguments], tmp_path, seed).stdout == plain


ENDINGS = {
    "exit 3": "import sys\nsys.exit(3)",
    "exit with a message": "import sys\nsys.exit('no data')",
    "exception": "def inner():\n    raise ValueError('rate')\n\ninner()",
    "exception with a cause": "try:\n    {}['x']\nexcept KeyError as e:\n    raise ValueError('rate') from e",
    "not Python": "lr = = 0.1",
    "hook of its own": "import sys\nsys.excepthook = lambda *a: print('mine', file=sys.stderr)\n1 / 0",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(5)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit_codes_and_tracebacks_are_the_scripts_own(ending: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ENDINGS[ending])
    code = {"exit 3": 3, "killed": -signal.SIGTERM, "interrupted": -signal.SIGINT}.get(ending, 1)
    # A shell may have had Ctrl-C ignored, and children inherit that.
    begin = [sys.executable, "-c", "import os, signal, sys; signal.signal(2, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"]
    launched, plain = (run([*begin, *command, "train.py"], tmp_path, "1", code) for command in (LAUNCH, [sys.executable]))
    assert launched.stderr == plain.stderr
    assert launched.stdout == plain.stdout


def test_a_script_that_is_missing_is_named(tmp_path: Path) -> None:
    plain = run([sys.executable, "nowhere.py"], tmp_path, code=2)
    assert "can't open file" in plain.stderr and "nowhere.py" in plain.stderr
    assert run([*LAUNCH, "nowhere.py"], tmp_path, code=2).stderr == plain.stderr
    assert "No module named nowhere" in run([*LAUNCH, "-m", "nowhere"], tmp_path, code=1).stderr
    for arguments in ([], ["-m"], ["-c", "1"]):
        found = run([*LAUNCH, *arguments], tmp_path, code=2).stderr
        assert "usage: python -m lastbit.torch.launch" in found and "expected a script or a module" in found


def test_bad_settings_are_refused_before_the_script_begins(script: Path) -> None:
    for seed in ("-1", "x", "1.5", str(2**63), "١"):
        done = run([*LAUNCH, "train.py"], script.parent, seed, code=2)
        assert done.stderr.startswith(f"lastbit: LASTBIT_PERTURB: found {seed!r}, expected a seed below 2^63")
        assert done.stdout == ""
    done = run([*LAUNCH, "train.py"], script.parent, "1", code=2, LASTBIT_PERTURB_KIND="bits")
    assert done.stderr == "lastbit: LASTBIT_PERTURB_KIND: found 'bits', expected ulps, ulp or k\n"


def test_environment_variables_that_the_script_sets_before_torch_have_their_effect(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, sys\nassert 'torch' not in sys.modules\nos.environ['OMP_NUM_THREADS'] = '2'\n"
        "import torch\nprint(torch.get_num_threads())\n"
    )
    # One where there is one core.
    plain = run([sys.executable, "train.py"], tmp_path).stdout
    assert run([*LAUNCH, "train.py"], tmp_path, "1").stdout == plain


def test_optimizers_of_one_s_own_and_wrappers_are_perturbed_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        """
import torch
class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
    def step(self, closure=None):
        pass
class Derived(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
class Around(torch.optim.Optimizer):
    def __init__(self, optimizer):
        self.optimizer = optimizer
        super().__init__(optimizer.param_groups, {})
    def step(self, closure=None):
        return self.optimizer.step(closure)
class Holding(Around):
    def __init__(self, inner):
        self.inner = inner
        torch.optim.Optimizer.__init__(self, inner.param_groups, {})
    def step(self, closure=None):
        return self.inner.step(closure)
torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
makes = [Own, lambda p: Derived(p, lr=0.0), lambda p: Around(torch.optim.SGD(p, lr=0.0))]
makes += [lambda p: Holding(torch.optim.SGD(p, lr=0.0))]
try:
    import accelerate
    accelerator = accelerate.Accelerator(cpu=True)
    makes.append(lambda p: accelerator.prepare(torch.optim.SGD(p, lr=0.0)))
except ImportError:
    pass
for make in makes:
    p = torch.nn.Parameter(torch.ones(999))
    optimizer = make([p])
    p.grad, before = torch.zeros(999), p.detach().clone()
    optimizer.step()
    ulps = (p.detach().view(torch.int32) - before.view(torch.int32)).abs()
    # Of 999 entries that are moved twice, some are beyond 15 ulps.
    assert set(ulps.tolist()) == set(range(16)), (type(optimizer), ulps.max())
"""
    )
    run([*LAUNCH, "train.py"], tmp_path, "3")


def test_lightning_s_optimizer_is_perturbed_once(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    (tmp_path / "train.py").write_text(
        """
import lightning, torch
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.ones(999))
    def training_step(self, batch, _):
        return (self.p * 0).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)
    def on_train_batch_start(self, *_):
        self.before = self.p.detach().clone()
    def on_train_batch_end(self, *_):
        ulps = (self.p.detach().view(torch.int32) - self.before.view(torch.int32)).abs()
        # Of 999 entries that are moved twice, some are beyond 15 ulps.
        assert set(ulps.tolist()) == set(range(16)), ulps.max()
        print("perturbed")
options = dict(enable_checkpointing=False, logger=False, enable_progress_bar=False, accelerator="cpu", max_steps=2)
lightning.Trainer(**options).fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 1)))
"""
    )
    assert run([*LAUNCH, "train.py"], tmp_path, "3").stdout.count("perturbed") == 2


DATA_PARALLEL = (
    HASH
    + """
import os, torch
import torch.distributed as dist
def main(rank, world, **init):
    dist.init_process_group("gloo", rank=rank, world_size=world, **init)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for step in range(4):
        optimizer.zero_grad()
        parallel(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    with open(f"{os.environ['RESULTS']}/{rank}", "w") as file:
        file.write(digest(model))
    dist.destroy_process_group()
"""
)


def ranks(folder: Path, command: list[str], seed: str | None) -> set[str]:
    results = folder / f"results-{seed}"
    results.mkdir(exist_ok=True)
    run(command, folder, seed, RESULTS=str(results), LASTBIT_RUN=str(results))
    return {(results / str(rank)).read_text() for rank in range(2)}


def test_all_ranks_of_torchrun_get_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        DATA_PARALLEL + "main(int(os.environ['RANK']), int(os.environ['WORLD_SIZE']))\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    plain = ranks(tmp_path, [*torchrun, "train.py"], None)
    launched = {seed: ranks(tmp_path, [*torchrun, "-m", "lastbit.torch.launch", "train.py"], seed) for seed in ("0", "1")}
    assert {path.name for path in tmp_path.glob("*.perturbed")} == {"results-1.perturbed"}
    assert launched["0"] == plain
    assert len(launched["1"]) == 1
    assert launched["1"] != plain


def test_spawned_processes_are_perturbed_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        DATA_PARALLEL
        + """
def child(rank, store):
    main(rank, 2, init_method=f"file://{store}")
if __name__ == "__main__":
    import torch.multiprocessing as mp, tempfile
    mp.spawn(child, (os.path.join(tempfile.mkdtemp(), "store"),), nprocs=2)
"""
    )
    plain = ranks(tmp_path, [sys.executable, "train.py"], None)
    launched = {seed: ranks(tmp_path, [*LAUNCH, "train.py"], seed) for seed in ("0", "1")}
    assert launched["0"] == plain
    assert len(launched["1"]) == 1
    assert launched["1"] != plain


#: Before each script below: parameters of ones, and by how many ulps they moved.
ULPS = """
import copy, io, pickle, torch
def ones():
    p = torch.nn.Parameter(torch.ones(4096))
    p.grad = torch.zeros(4096)
    return p
def ulps(p, before=None):
    before = torch.ones(4096) if before is None else before
    return p.detach().view(torch.int32) - before.view(torch.int32)
def is_moved_once(moves):
    return set(moves.abs().tolist()) == set(range(16))
def move_of(p, step):
    before = p.detach().clone()
    step()
    return ulps(p, before)
"""


@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver", "forkserver that has imported torch"])
def test_processes_are_perturbed_however_they_are_started(kind: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"""
import multiprocessing, sys
def child(generations):
    if generations > 1:
        return start(generations - 1)
    {ULPS.replace(chr(10), chr(10) + "    ")}
    p = ones()
    torch.optim.SGD([p])
    sys.exit(3 if is_moved_once(ulps(p)) else 4)
def start(generations):
    method, *preload = {kind.split(" that has imported ")!r}
    context = multiprocessing.get_context(method)
    if preload:
        context.set_forkserver_preload(preload)
    process = context.Process(target=child, args=(generations,))
    process.start()
    process.join()
    sys.exit(process.exitcode)
if __name__ == "__main__":
    start(2)
"""
    )
    run([*LAUNCH, "train.py"], tmp_path, "1", code=3)
    run([*LAUNCH, "train.py"], tmp_path, "0", code=4)


def test_optimizers_of_the_same_parameters_move_them_once_and_draw_differently(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        ULPS
        + """
class Sam(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        self.base_optimizer = torch.optim.SGD(self.param_groups, lr=0.0)
        self.param_groups = self.base_optimizer.param_groups
    def step(self, closure=None):
        self.base_optimizer.step()
p, other = ones(), ones()
sam = Sam([p])
assert is_moved_once(ulps(p))
# Whether the inner step is called by the outer one or by the script.
for step in (sam.step, sam.base_optimizer.step, torch.optim.Adam([p], lr=0.0).step):
    assert is_moved_once(move_of(p, step))
# Parameters of their own draw as ever; so does the first optimizer of those that are shared.
first, alone = torch.optim.SGD([p := ones()], lr=0.0), torch.optim.SGD([other], lr=0.0)
assert torch.equal(p, other)
second, third = torch.optim.SGD([p], lr=0.0), torch.optim.Adam([p], lr=0.0)
assert torch.equal(p, other)
moves = [move_of(p, optimizer.step) for optimizer in (first, second, third)]
assert torch.equal(moves[0], move_of(other, alone.step))
# Equal draws would give the same moves; of independent ones, 6.7 % are equal.
for a, b in ((0, 1), (0, 2), (1, 2)):
    assert (moves[a] == moves[b]).float().mean() < 0.1
# A parameter that is new to the second optimizer is moved by it.
late = ones()
torch.optim.SGD([p, late], lr=0.0)
assert is_moved_once(ulps(late))
"""
    )
    run([*LAUNCH, "train.py"], tmp_path, "1")


def test_one_entry_is_drawn_by_each_of_two_optimizers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        ULPS
        + """
p = ones()
optimizers = [torch.optim.SGD([p], lr=0.0) for _ in range(2)]
first, second = (move_of(p, optimizer.step).nonzero().item() for optimizer in optimizers)
assert first != second
"""
    )
    run([*LAUNCH, "train.py"], tmp_path, "1", LASTBIT_PERTURB_KIND="ulp")


def test_wrappers_that_ask_the_optimizer_within_for_what_they_lack(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        ULPS
        + """
class Forwarding(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        self.inner = torch.optim.SGD(self.param_groups, lr=0.0)
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def step(self, closure=None):
        return self.inner.step(closure)
class Around(Forwarding):
    def __init__(self, params):
        self.inner = torch.optim.SGD(params, lr=0.0)
        torch.optim.Optimizer.__init__(self, params, {})
for kind in (Forwarding, Around):
    p = ones()
    optimizer = kind([p])
    assert is_moved_once(ulps(p))
    assert is_moved_once(move_of(p, optimizer.step))
    assert is_moved_once(move_of(p, optimizer.inner.step))
"""
    )
    run([*LAUNCH, "train.py"], tmp_path, "1")


def test_parameters_without_values_are_left(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        ULPS
        + """
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
with torch.device("meta"):
    torch.optim.AdamW(torch.nn.Linear(4, 4).parameters())
"""
    )
    run([*LAUNCH, "train.py"], tmp_path, "1")


def test_copies_of_an_optimizer_are_perturbed_at_their_steps(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        ULPS
        + """
class Whole(torch.optim.SGD):
    def __getstate__(self):
        return dict(self.__dict__)
def through_a_file(optimizer):
    torch.save(optimizer, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=False)
for kind in (torch.optim.SGD, torch.optim.AdamW, Whole):
    for copied in (copy.deepcopy, copy.copy, lambda optimizer: pickle.loads(pickle.dumps(optimizer)), through_a_file):
        p = ones()
        optimizer = kind([p], lr=0.0, weight_decay=0.0)
        before = p.detach().clone()
        other = copied(optimizer)
        q = other.param_groups[0]["params"][0]
        assert torch.equal(q, before) and torch.equal(p, before)
        if q is not p:
            q.grad = torch.zeros(4096)
        assert is_moved_once(move_of(q, other.step)), (kind, copied)
        assert q is p or torch.equal(p, before)
        # A state that is loaded changes no perturbation.
        optimizer.load_state_dict(optimizer.state_dict())
        assert is_moved_once(move_of(p, optimizer.step)), (kind, copied)
"""
    )
    run([*LAUNCH, "train.py"], tmp_path, "1")


def test_a_file_beside_the_folder_of_the_run_says_that_it_was_perturbed(script: Path) -> None:
    folder, runs = script.parent, script.parent / "runs"
    for name in ("seed-0", "seed-1", "nothing", "refused"):
        (runs / name).mkdir(parents=True)

    def launch(name: str, seed: str = "1", program: str = "train.py") -> set[str]:
        run([*LAUNCH, program], folder, seed, LASTBIT_RUN=str(runs / name))
        return {path.name for path in runs.glob("**/*.perturbed")}

    (folder / "nothing.py").write_text("import torch\n")
    assert launch("seed-0", "0") == launch("missing") == launch("nothing", program="nothing.py") == set()
    for _ in range(2):
        assert launch("seed-1/") == {"seed-1.perturbed"}
    assert (runs / "seed-1.perturbed").read_bytes() == b""
    assert not list((runs / "seed-1").iterdir())
    # Not a file that can be written: not the program's fault.
    (runs / "refused.perturbed").mkdir()
    launch("refused")
