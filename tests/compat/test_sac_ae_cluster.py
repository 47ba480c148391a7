"""SAC+AE's cluster scripts, notebook and environment."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.compat.commands import ROOT, printed_words, start
from tests.compat.sac_ae import FOLDER, TESTBED, TINY
from tests.faults.harness import wait_until

STAND_IN = """#!/usr/bin/env bash
# In the place of Python: notes how many are at work, then says that the run is finished.
while [ $# -gt 0 ]; do
  [ "$1" = --work_dir ] && folder=$2
  [ "$1" = --seed ] && seed=$2
  shift
done
echo at-work $(ls -d "$folder"/../seed_*/busy 2>/dev/null | wc -l)
touch "$folder/busy"
sleep 0.7
rm "$folder/busy"
[ "$seed" = 13 ] && echo "bad luck" >&2 && exit 1
echo '{"status": "finished"}' > "$folder/run.json"
"""


@cache
def _without_slurm() -> str:
    """A PATH with everything but sbatch: folders where there is one are copied as links."""
    found = []
    for folder in os.environ["PATH"].split(os.pathsep):
        if Path(folder, "sbatch").exists():
            links = Path(tempfile.mkdtemp(prefix="without-slurm-"))
            atexit.register(shutil.rmtree, links, ignore_errors=True)
            for program in Path(folder).iterdir():
                if program.name != "sbatch":
                    (links / program.name).symlink_to(program)
            folder = str(links)
        found.append(folder)
    return os.pathsep.join(found)


def _script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def _cluster(folder: Path, *words: str, script: str = "run_cluster.sh", **settings: str) -> Any:
    env = {**os.environ, "PATH": _without_slurm(), "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, **settings}
    return subprocess.run(
        [str(FOLDER / script), *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )


def test_without_slurm_seeds_run_here_a_few_at_a_time(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", STAND_IN)
    settings = {"PYTHON": str(python), "JOBS": "2", "SEEDS": "1 2 3"}
    done = _cluster(tmp_path, "walker", "walk", "--batch_size", "9", "agent.burst=false", **settings)
    assert done.returncode == 0, done.stderr
    config = tmp_path / "runs" / "walker_walk" / "sac_ae"
    assert sorted(p.name for p in config.iterdir()) == ["seed_1", "seed_2", "seed_3"]
    for seed in (1, 2, 3):
        run = config / f"seed_{seed}"
        assert {p.name for p in run.iterdir()} == {"id", "stdout", "stderr", "run.sh", "run.slrm", "run.json"}
        assert f"process {(run / 'id').read_text().strip()}\n" in done.stdout
        text = (run / "run.sh").read_text()
        assert f"--seed {seed} --work_dir {run} setup.id=sac_ae --batch_size 9 agent.burst=false" in text
        assert (
            "--domain_name walker --task_name walk --encoder_type pixel --decoder_type pixel --action_repeat 2" in text
        )
        assert int((run / "stdout").read_text().split()[1]) <= 1
    # Once more: nothing is left to do.
    again = _cluster(tmp_path, "walker", "walk", **settings)
    assert again.stdout.count(": finished") == 3


def test_a_seed_that_fails_is_said_and_the_others_run(tmp_path: Path) -> None:
    python = _script(tmp_path / "python", STAND_IN)
    done = _cluster(tmp_path, "cheetah", "run", PYTHON=str(python), SEEDS="13 2", CONFIG="sac_states", JOBS="1")
    assert done.returncode == 1
    assert "seed_13: failed, see stderr there: bad luck" in done.stderr
    config = tmp_path / "runs" / "cheetah_run" / "sac_states"
    assert (config / "seed_2" / "run.json").exists()
    assert "--encoder_type identity --action_repeat 4" in (config / "seed_2" / "run.sh").read_text()


@pytest.mark.parametrize("words", [("run_cluster.sh", "cartpole", "swingup"), ("run_all.sh",)], ids=lambda w: w[0])
def test_stopping_stops_what_it_started(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The signal is for the script alone, as that of Slurm's `--signal=B:` is."""
    python = _script(tmp_path / "python", "#!/usr/bin/env bash\nexec sleep 600\n")
    settings = {**os.environ, "PATH": _without_slurm(), "PYTHON": str(python), "SEEDS": "1"}
    process = subprocess.Popen([str(FOLDER / words[0]), *words[1:]], cwd=tmp_path, env=settings)
    path = tmp_path / "runs" / "cartpole_swingup" / "sac_ae" / "seed_1" / "id"
    wait_until(lambda: path.exists() and path.read_text().strip(), "it did not start")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)
    assert [run.name for run in (tmp_path / "runs").iterdir()] == ["cartpole_swingup"]


WAITING = """#!/usr/bin/env bash
# In the place of Python: at work until it is stopped, with the lock of its folder if it is told to take it.
while [ "$1" != --work_dir ]; do shift; done
if [ "$LOCKS" = yes ]; then
  exec 9>"$2/.lock"
  flock 9
fi
echo at work
for _ in {1..6000}; do sleep 0.1 9>&-; done
"""


@pytest.mark.parametrize("locks", ["no", "yes"])
def test_a_seed_that_is_under_way_is_left_alone(tmp_path: Path, locks: str) -> None:
    """By its process, before it holds the lock of its folder; by the lock, whatever `id` says."""
    python = _script(tmp_path / "python", WAITING)
    settings = {"PATH": _without_slurm(), "PYTHON": str(python), "SEEDS": "1", "LOCKS": locks}
    command = [str(FOLDER / "run_cluster.sh"), "walker", "walk"]
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **settings}, stdout=subprocess.PIPE)
    run = tmp_path / "runs" / "walker_walk" / "sac_ae" / "seed_1"
    try:
        wait_until(lambda: (run / "stdout").exists() and "at work" in (run / "stdout").read_text(), "it did not start")
        wait_until(lambda: (run / "id").exists() and (run / "id").read_text().strip(), "nobody knows its number")
        if locks == "yes":
            (run / "id").write_text("1\n")
        before = {name: (run / name).read_text() for name in ("id", "run.sh", "run.slrm", "stdout", "stderr")}
        done = _cluster(tmp_path, "walker", "walk", "--batch_size", "9", **settings)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{run}: a process is at work there already\n"
        assert not done.stderr
        assert {name: (run / name).read_text() for name in before} == before
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    # Stopped, it is started again: neither the old lock nor the number of a dead process is in the way.
    python = _script(tmp_path / "python", STAND_IN)
    assert _cluster(tmp_path, "walker", "walk", **settings).returncode == 0
    assert (run / "run.json").exists()


SBATCH = """#!/usr/bin/env bash
[ "$1" = --parsable ] && cp "$2" "$(dirname "$2")/submitted"
echo "41$(date +%N);cluster"
"""


def test_with_slurm_every_seed_is_a_job(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin" / "sbatch", SBATCH)
    place = tmp_path / "with space"
    place.mkdir()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = _cluster(place, "walker", "walk", PATH=path)
    assert done.returncode == 0, done.stderr
    seeds = sorted((place / "runs" / "walker_walk" / "sac_ae").iterdir())
    assert sorted(p.name for p in seeds) == sorted(f"seed_{i}" for i in range(1, 11))
    for run in seeds:
        assert re.fullmatch(r"41\d+\n", (run / "id").read_text())
        script = (run / "submitted").read_text()
        assert script == (run / "run.slrm").read_text()
        assert f'#SBATCH --output="{run}/stdout"\n' in script
        assert f'#SBATCH --error="{run}/stderr"\n' in script
        assert subprocess.run(["bash", "-n", run / "run.slrm"]).returncode == 0
        # The job does what run.sh says.
        assert f" bash {str(run / 'run.sh').replace(' ', chr(92) + ' ')} &\n" in script
        assert (run / "run.sh").read_text().splitlines()[-1].startswith("exec ")
    # It starts as written, from a folder whose name has a space.
    text = (seeds[0] / "run.sh").read_text().rstrip() + " --print-only\n"
    assert f"save_dir='{seeds[0]}'" in " ".join(printed_words(start(["bash", "-c", text], tmp_path)))


NO_ANSWER = """#!/usr/bin/env bash
[ "$1" = --version ] && echo "slurm-wlm 22.05.8" && exit 0
echo "sbatch: error: Batch job submission failed: Unable to contact slurm controller" >&2
exit 1
"""


def test_a_slurm_that_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin" / "sbatch", NO_ANSWER)
    python = _script(tmp_path / "python", STAND_IN)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    settings = {"PATH": path, "PYTHON": str(python), "SEEDS": "1 2"}
    done = _cluster(tmp_path, "walker", "walk", **settings)
    assert done.returncode == 1
    assert "Unable to contact slurm controller" in done.stderr
    assert "ON=local" in done.stderr
    run = tmp_path / "runs" / "walker_walk" / "sac_ae" / "seed_1"
    assert not (run / "id").exists()

    done = _cluster(tmp_path, "walker", "walk", ON="local", **settings)
    assert done.returncode == 0, done.stderr
    assert (run / "run.json").exists()
    assert f"process {(run / 'id').read_text()}" in done.stdout

    done = _cluster(tmp_path, "walker", "walk", ON="lokal", **settings)
    assert done.returncode == 2
    assert "ON=lokal does not exist; there is local, slurm." in done.stderr


NO_CLUSTER = """#!/usr/bin/env bash
echo "sbatch: fatal: Could not establish a configuration source" >&2
exit 1
"""


def test_an_sbatch_that_belongs_to_no_cluster_is_none(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin" / "sbatch", NO_CLUSTER)
    settings = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "SEEDS": "1"}
    done = _cluster(tmp_path, "walker", "walk", PYTHON=str(_script(tmp_path / "python", STAND_IN)), **settings)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "walker_walk" / "sac_ae" / "seed_1" / "run.json").exists()


SQUEUE = """#!/usr/bin/env bash
echo "411 {0}/seed_1/run.slrm"
echo "412 /somewhere/else.sh"
"""


def test_what_is_in_the_queue_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    config = tmp_path / "runs" / "walker_walk" / "sac_ae"
    _script(tmp_path / "bin" / "sbatch", SBATCH)
    _script(tmp_path / "bin" / "squeue", SQUEUE.format(config))
    for seed, job in ((1, "411"), (2, "412"), (3, "41")):
        (config / f"seed_{seed}").mkdir(parents=True)
        (config / f"seed_{seed}" / "id").write_text(f"{job}\n")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = _cluster(tmp_path, "walker", "walk", PATH=path, SEEDS="1 2 3")
    assert done.returncode == 0, done.stderr
    assert f"{config}/seed_1: job 411 is in the queue already\n" in done.stdout
    assert not (config / "seed_1" / "run.sh").exists()
    for seed in (2, 3):  # 412 is somebody else's, and there is no 41
        assert (config / f"seed_{seed}" / "submitted").exists()


@pytest.mark.parametrize("place", [".", "../.."])
def test_slurm_runs_a_copy_of_a_script(tmp_path: Path, place: str) -> None:
    """In a folder of its own, under another name; SLURM_SUBMIT_DIR is where sbatch was called."""
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin" / "sbatch", SBATCH)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    copy = tmp_path / "slurm_script"
    for name, words in (("run_cluster.sh", ["fish", "swim"]), ("run_all.sh", [])):
        shutil.copy(FOLDER / name, copy)
        env = {**os.environ, "PATH": path, "SEEDS": "1", "SLURM_SUBMIT_DIR": str((FOLDER / place).resolve())}
        done = subprocess.run(["bash", str(copy), *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        env["SLURM_SUBMIT_DIR"] = str(tmp_path)
        for foreign in ("train.py", "run_cluster.sh"):  # as in the project that these come from
            _script(tmp_path / foreign, "exit 0\n")
        done = subprocess.run(["bash", str(copy), *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 2
        assert "submit it from the folder it is in" in done.stderr
    assert len(list((tmp_path / "runs").iterdir())) == len(TESTBED) + 1
    assert f" {FOLDER}/train.py " in (tmp_path / "runs/fish_swim/sac_ae/seed_1/run.sh").read_text()


def test_the_whole_testbed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin" / "sbatch", SBATCH)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = _cluster(tmp_path, "--save_model", script="run_all.sh", PATH=path, SEEDS="4")
    assert done.returncode == 0, done.stderr
    runs = {p.name for p in (tmp_path / "runs").iterdir()}
    assert runs == {task.replace(" ", "_") for task in TESTBED}
    repeats = {
        task: re.findall(r"--action_repeat (\d)", (tmp_path / "runs" / task / "sac_ae/seed_4/run.sh").read_text())
        for task in runs
    }
    assert {task: r for task, r in repeats.items() if r != ["2"]} == {
        **{"cartpole_swingup": ["8"], "reacher_easy": ["4"], "cheetah_run": ["4"], "ball_in_cup_catch": ["4"]},
    }
    assert "--save_model" in (tmp_path / "runs/hopper_hop/sac_ae/seed_4/run.sh").read_text()


def test_how_it_is_used_is_said(tmp_path: Path) -> None:
    for words in ([], ["walker"], ["--seed", "1"]):
        done = _cluster(tmp_path, *words)
        assert done.returncode == 2
        assert "run_cluster.sh DOMAIN TASK" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_the_cluster_script_trains(tmp_path: Path) -> None:
    done = _cluster(tmp_path, "walker", "walk", *TINY, SEEDS="1 2", CONFIG="sac_states", JOBS="2")
    assert done.returncode == 0, done.stdout + done.stderr
    for seed in ("seed_1", "seed_2"):
        run = tmp_path / "runs" / "walker_walk" / "sac_states" / seed
        named = {"id", "stdout", "stderr", "run.sh", "run.slrm", "eval.log", "train.log", "tb", "video"}
        assert named <= {p.name for p in run.iterdir()}
        assert (run / "video" / "40.mp4").is_file()
        assert "| eval | S: 0 | ER: " in (run / "stdout").read_text()
        assert json.loads((run / "run.json").read_text())["config_name"] == "sac_states"


def test_the_environment_has_the_seeds_name() -> None:
    made = yaml.safe_load((FOLDER / "conda_env.yml").read_text())
    assert made["name"] == "pytorch_sac_ae"
    (pip,) = [entry for entry in made["dependencies"] if isinstance(entry, dict)]
    assert pip == {"pip": ["-e ../.."]}
