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
MINUTES = 20


def add_arguments(attacks) -> None:
    parser = attacks.add_parser("cluster", help=__doc__.splitlines()[0], description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="tables to compute; default: %(default)s")
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
            lines = Cluster(arguments.program, folder, chance, killed).compute(expected)
            wrong += [f"round {number}: {line}" for line in lines]
            print(f"round {number}: {len(lines)} wrong", flush=True)
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
            while not all(machine.is_done for machine in self.machines):
                if time.monotonic() > deadline:
                    return [f"not finished after {MINUTES} minutes: {[m.output() for m in self.machines]}"]
                time.sleep(self.chance.uniform(0.5, 3.0))
                self.disturb()
                for machine in self.machines:
                    machine.look()
            return work.differences(expected, work.results(self.shared))
        finally:
            for machine in self.machines:
                machine.kill()
            self.kill_server()

    def disturb(self) -> None:
        """Kills a machine one time in fifteen, the server one time in sixty; they start again at once.

        Others wait 30 s for the lock of a machine that was killed, so that more kills would only be more waiting.
        """
        if self.chance.random() < 1 / 15:
            self.chance.choice(self.machines).kill()
            self.killed["a machine"] += 1
        if self.chance.random() < 1 / 60:
            self.kill_server()
            self.start_server()
            self.killed["the server"] += 1

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
        self.mount, self.process, self.failures = cluster.folder / f"machine{number}", None, 0
        self.log = cluster.folder / f"machine{number}.log"
        self.mount.mkdir()

    def start(self) -> None:
        options = f"directport={PORT},{CACHE}"
        mount = f"sshfs -f -o {options} 127.0.0.1:{self.cluster.shared} {self.mount} & sleep 0.5"
        run = f"cd {self.mount} && {self.cluster.program} {COMMAND} --threads 1"
        # A process group of its own, in its own name spaces of mounts, host name and process numbers.
        script = f"hostname machine{self.number}; {mount}; {run}"
        words = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def look(self) -> None:
        """Starts the program again where it was killed or failed."""
        if self.is_done:
            return
        if self.process is not None and self.process.poll() is None:
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
