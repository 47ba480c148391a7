"""A real Slurm on this machine: one node, munge and all, in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.harness import wait_until

PATIENCE = 240  # seconds: Slurm looks at its queue now and then
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
CONF = """\
ClusterName=medley
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=2,requeue_delay=1
KillWait=20
MinJobAge=600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=3 Gres=gpu:1 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None and not Path("/usr/sbin", name).exists()]


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []  # type: ignore[var-annotated]
        for name in ("state", "spool"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        conf = CONF.format(host=socket.gethostname().split(".")[0], folder=folder, ports=_free_ports(2))
        (folder / "slurm.conf").write_text(conf)
        (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")  # one that Slurm counts and nobody uses
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self) -> Cluster:
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        f = self.folder
        self._start(
            *("munged", "--foreground", "--force", f"--key-file={f / 'munge.key'}"),
            *(f"--socket={f / 'munge.socket'}", f"--pid-file={f / 'munge.pid'}"),
            *(f"--log-file={f / 'munge.log'}", f"--seed-file={f / 'munge.seed'}"),
        )
        self._wait(lambda: (f / "munge.socket").exists(), "munge")
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        self._wait(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%t"), "Slurm")

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
        return done.stdout

    def start_now(self) -> None:
        """Slurm lets jobs that were requeued wait for two minutes."""
        for job in self.ask("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i %r").splitlines():
            number, _, reason = job.partition(" ")
            if reason == "BeginTime":
                self.ask("scontrol", "update", f"JobId={number}", "StartTime=now")

    def finish(self, over: Callable[[], bool]) -> None:
        def look() -> bool:
            self.start_now()
            return over()

        wait_until(look, "they do not end", 1500)

    def __exit__(self, *error: object) -> None:
        self.ask("scancel", "--state=RUNNING", "--signal=KILL", "--full", "-u", "root")
        self.ask("scancel", "-u", "root")
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self, name: str, *words: str) -> None:
        program = shutil.which(name) or f"/usr/sbin/{name}"
        log = (self.folder / f"{name}.out").open("w")
        self.processes.append(subprocess.Popen([program, *words], env=self.env, stdout=log, stderr=log))

    def _wait(self, ready, what: str) -> None:  # type: ignore[no-untyped-def]
        until = time.monotonic() + 40
        while not ready():
            if time.monotonic() > until:
                logs = "\n".join(p.read_text(errors="replace")[-800:] for p in self.folder.glob("*.out"))
                raise RuntimeError(f"{what} did not start:\n{logs}")
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    """Below those that the system itself gives away: between this look and Slurm's it might, to anybody."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            found += [port] if port not in found else []
    return found


def steps(run: Path) -> int:
    return max((int(p.name) for p in (run / "checkpoints").glob("*") if p.name.isdigit()), default=0)


def preempt_and_cancel(cluster: Cluster, first: Path, second: Path) -> None:
    """Somebody more important needs the whole node for a moment; and once the second is back, it is cancelled."""

    def said(run: Path, what: str) -> int:
        return (run / "stdout").read_text().count(what)

    def back() -> bool:
        cluster.start_now()
        return said(second, "Going on from step") == 1

    wait_until(lambda: steps(first) >= 40 and steps(second) >= 40, "they did not start", PATIENCE)
    cluster.ask("sbatch", "-p", "high", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1")
    wait_until(lambda: said(first, "Stopped and saved") == 1, "it was not preempted", PATIENCE)
    wait_until(back, "it was not requeued", PATIENCE)
    job = (second / "id").read_text().strip()
    cluster.ask("scancel", job)
    wait_until(lambda: said(second, "Stopped and saved") == 2, "it was not cancelled", PATIENCE)
    wait_until(lambda: not cluster.ask("squeue", "-h", "-j", job).strip(), "it is still there", 60)
