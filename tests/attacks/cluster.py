"""Four machines compute one table in a folder that they share over a network; machines and the server are killed.

The server is an SFTP server on loopback, and each machine mounts it with sshfs: a real network file system whose clients
cache names and attributes, and whose flock excludes nobody on another machine. A machine has its own host name, process
numbers and mount. Killing it ends its processes and its mount at once; killing the server ends its connections. In the
end the table must be that of a single process, byte for byte.

Needs root, /dev/fuse, and the Debian packages sshfs, socat and openssh-sftp-server.
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import work

COMMAND = "run tab-relu fig-heat --scale smoke --out ."
MACHINES, PORT, SFTP = 4, 2522, Path("/usr/lib/openssh/sftp-server")
# Names and attributes may be this old.
CACHE = "dcache_timeout=3,entry_timeout=2,negative_timeout=2,attr_timeout=2"
# Seconds from one kill to the next. The others wait 30 s for a lock of the dead, so most kills interrupt work.
PAUSE = (10.0, 60.0)
MINUTES = 20


def add_arguments(attacks) -> None:
    parser = attacks.add_parser("cluster", help=__doc__.splitlines()[0], description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="tables to compute, some minutes each; default: %(default)s")
    parser.set_defaults(run=attack)


def attack(arguments) -> int:
    missing = [tool for tool in ("sshfs", "socat", str(SFTP)) if shutil.which(tool) is None]
    if missing or os.geteuid() != 0 or not Path("/dev/fuse").exists():
        print(f"skipped: needs root, /dev/fuse and sshfs, socat, openssh-sftp-server (missing: {missing})")
        return 0
    chance, wrong, killed = random.Random(arguments.seed), [], Counter()
    with tempfile.TemporaryDirectory() as name:
        alone = Path(name) / "alone"
        alone.mkdir()
        code, output = work.run(arguments.program, alone, COMMAND)
        assert code == 0, output
        expected = work.results(alone)
        for number in range(arguments.rounds):
            folder = Path(name) / f"round{number}"
            started = time.monotonic()
            lines = Cluster(arguments.program, folder, chance, killed).compute(expected)
            wrong += [f"round {number}: {line}" for line in lines]
            print(f"round {number}: {time.monotonic() - started:.0f} s, {len(lines)} wrong", flush=True)
    for line in wrong:
        print(line)
    kinds = ", ".join(f"{count} times {what}" for what, count in sorted(killed.items()))
    print(f"{arguments.rounds} tables of {len(expected)} files by {MACHINES} machines, killed: {kinds}: {len(wrong)} wrong")
    return 1 if wrong else 0


class Cluster:
    def __init__(self, program: Path, folder: Path, chance: random.Random, killed: Counter) -> None:
        self.program, self.folder, self.chance, self.killed = program, folder, chance, killed
        self.shared = folder / "server"
        self.shared.mkdir(parents=True)
        self.server, self.machines = None, []

    def compute(self, expected: dict[str, bytes]) -> list[str]:
        """What is wrong with the table in the end."""
        try:
            self.start_server()
            self.machines = [Machine(self, number) for number in range(MACHINES)]
            deadline = time.monotonic() + 60 * MINUTES
            next_kill = time.monotonic() + self.chance.uniform(*PAUSE)
            while not all(machine.is_done for machine in self.machines):
                if time.monotonic() > deadline:
                    return [f"not finished after {MINUTES} minutes: {[m.output() for m in self.machines]}"]
                time.sleep(0.5)
                if time.monotonic() >= next_kill:
                    self.disturb()
                    next_kill = time.monotonic() + self.chance.uniform(*PAUSE)
                for machine in self.machines:
                    machine.look()
            self.tidy_up()
            return work.differences(expected, work.results(self.shared))
        finally:
            for machine in self.machines:
                machine.kill()
            self.kill_server()

    def disturb(self) -> None:
        """Kills the server one time in three, else a machine that is at work; they start again at once."""
        at_work = [machine for machine in self.machines if machine.is_at_work()]
        if self.chance.random() < 1 / 3:
            self.kill_server()
            self.start_server()
            self.killed["the server"] += 1
        elif at_work:
            self.chance.choice(at_work).kill()
            self.killed["a machine"] += 1

    def tidy_up(self) -> None:
        """What killed machines left unfinished is removed by the next command, once it is an hour old."""
        for path in self.shared.rglob(".unfinished-*"):
            os.utime(path, (time.time() - 2 * 3600,) * 2)
        code, output = work.run(self.program, self.shared, COMMAND)
        assert code == 0, output

    def start_server(self) -> None:
        listen = f"TCP-LISTEN:{PORT},bind=127.0.0.1,reuseaddr,fork"
        self.server = subprocess.Popen(["socat", listen, f"EXEC:{SFTP}"], start_new_session=True)
        time.sleep(0.3)

    def kill_server(self) -> None:
        kill_group(self.server)


class Machine:
    """One that mounts the shared folder and gives the command until it succeeds."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster, self.number, self.is_done = cluster, number, False
        self.mount, self.process = cluster.folder / f"machine{number}", None
        self.log = cluster.folder / f"machine{number}.log"
        self.mount.mkdir()

    def start(self) -> None:
        options = f"directport={PORT},{CACHE}"
        mount = f"sshfs -f -o {options} 127.0.0.1:{self.cluster.shared} {self.mount} & sleep 0.5"
        # Without the mount, it would work in a folder of its own.
        run = f"mountpoint -q {self.mount} && cd {self.mount} && {self.cluster.program} {COMMAND} --threads 1"
        # A process group of its own, in its own name spaces of mounts, host name and process numbers.
        script = f"hostname machine{self.number}; {mount}; {run}"
        words = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def is_at_work(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def look(self) -> None:
        """Starts the program again where it was killed or failed."""
        if self.is_done or self.is_at_work():
            return
        if self.process is not None and self.process.returncode == 0:
            self.is_done = True
            return
        self.start()

    def kill(self) -> None:
        if self.process is not None and not self.is_done:
            kill_group(self.process)
            self.process = None

    def output(self) -> str:
        return self.log.read_text()[-500:] if self.log.exists() else ""


def kill_group(process: subprocess.Popen) -> None:
    if process is not None and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
