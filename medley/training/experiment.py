"""One run: counters, evaluations, logs, checkpoints and exact restart."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import torch
from safetensors import SafetensorError

from medley.config.load import to_dict
from medley.config.schema import Config
from medley.envs.api import FAULTS
from medley.envs.gl import software_note
from medley.errors import DamagedError, MedleyError, NonFiniteError
from medley.replay.ring import Step
from medley.reporting.console import Console, make_console
from medley.reporting.episodes import EpisodeRows
from medley.reporting.logger import Logger
from medley.training.build import Parts, build
from medley.training.checkpoints import Checkpoints
from medley.training.collector import Episode, episode_statistics
from medley.training.eval_acting import set_acting
from medley.training.evaluations import Evaluations
from medley.training.evaluator import Interrupted
from medley.training.filming import Filming
from medley.training.machine import peak_memory
from medley.training.run import Run
from medley.training.scheduler import Scheduler
from medley.training.snapshot import put_back, take
from medley.training.upkeep import Upkeep


class Experiment:
    """One run: its parts, its counters, its folder. `medley.training.loop` says what happens when."""

    def __init__(self, config: Config, run: Run, parts: Parts | None = None, console: bool = True) -> None:
        self.config, self.run = config, run
        self.parts = parts or build(config)
        save = config.experiment.save
        self.checkpoints = Checkpoints(run.path, save.model.retain_last_n, save.model.long_term_freq)
        self.step = self.last_log = self.episodes_ended = 0
        self.upkeep = Upkeep(config, self.parts.agent, self.parts.replay, self.parts.rewards)
        self.owed = 0  # updates still to be done for what is in replay
        self.missed = 0  # updates that were given up, since an arm left no time for them
        self.earlier_faults: dict[str, int] = {}  # before the run was resumed
        self.minutes = 0.0
        self.finished: list[Episode] = []  # since the last training line
        filming = Filming(config, run.path / "video", self._note)
        env, evaluator = self.parts.env, self.parts.evaluator
        self.rows = EpisodeRows(config, env, _chunks_behind(config, self.parts))  # of episodes.jsonl
        set_acting(evaluator, config)
        self.evaluations = Evaluations(config.experiment, evaluator, run.path / "results.json", filming, self.rows)
        self.log_lengths: dict[str, int] = {}
        # An episode of every slot, within reason: a world of short episodes would log all the time.
        episode = self.parts.env.horizon * self.parts.env.slots_per_task
        self.log_freq = config.logger.train_freq or min(max(episode, 200), 1000)
        self.notes: list[str] = []  # said before the console is there
        if note := software_note(self.parts.env.renderer, getattr(config.env, "render_profile", "") == "fast"):
            self.notes.append(note)
        steps, random = config.experiment.num_train_steps, config.experiment.init_steps
        if steps < random:
            self.notes.append(f"Nothing will be learnt: all {steps:,} steps are random (init_steps is {random:,}).")
        self._speaks = console
        self._save_seconds: list[float] = []  # since the last training line
        self._chunk: list[Step] = []
        self._ended: list[Episode] = []  # in that chunk
        self.scheduler = Scheduler(config.experiment.scheduler, len(self.parts.env.tasks), config.setup.seed)

    def train(self, should_stop: Callable[[], bool] = lambda: False) -> str:
        """From wherever the folder stands to the end. Returns "finished" or "stopped"."""
        from medley.training.loop import train_together

        return train_together([self], should_stop)

    # ---- what the loop asks for

    def begin(self, step: int | None = None) -> None:
        """Restore what the folder holds (its checkpoint of `step`, if given) and open the logs."""
        resumed = self.restore(step)
        self.console = self._open_console()
        self.logger = self._open_logger(self.console, resumed)
        self.parts.collector.tell(self._note)
        drawn = self.parts.env.renderer
        self._note_status("running", **({"renderer": drawn} if drawn else {}))
        self._clock = self._saved_at = self._logged_at = time.monotonic()
        self._logging = 0.0  # seconds, so that run.json can say what logging cost
        self._last_save = self.step if self.checkpoints.steps() else -1
        self._saved_updates = self.parts.learner.updates
        self._logged_env_step = self.parts.env.env_steps(self.step)
        self.evaluations.go_on(self.parts.eval_in_background)

    def is_done(self) -> bool:
        return self.step >= self.config.experiment.num_train_steps or self._time_is_up()

    def between_chunks(self, done: bool, should_stop: Callable[[], bool]) -> str | None:
        """Evaluate and save what is due; says how the run ended, if it did."""
        began = time.monotonic()
        try:
            return self._between_chunks(done, should_stop)
        finally:
            self._logged_at += time.monotonic() - began  # a training line's duration is that of training

    def _between_chunks(self, done: bool, should_stop: Callable[[], bool]) -> str | None:
        evaluations, background = self.evaluations, self.parts.eval_in_background and not done
        if done:
            evaluations.settle(self._log_evaluation, should_stop)
        else:
            evaluations.finish(self._log_evaluation, wait=False)
        due = evaluations.due(self.step, done)
        if due:
            self.parts.learner.check_finite(self.step)
        if done or (due and not background):
            self.rows.release()
        if due and not background:
            with contextlib.suppress(Interrupted):  # then it is saved as still to be done
                evaluations.make(self._so_far(), done, self._log_evaluation, self._show, should_stop)
        saving, stopping = done or self._save_due(self._last_save), should_stop()
        if saving or stopping or (due and background):
            evaluations.settle(self._log_evaluation, should_stop)
            stopping = should_stop()
        if saving or stopping:
            # A stop within many updates: the step is that of the last checkpoint, and yet much was learnt since.
            if self.step != self._last_save or self.parts.learner.updates != self._saved_updates or done:
                self.save()
            self._last_save, self._saved_at = self.step, time.monotonic()
            self._saved_updates = self.parts.learner.updates
            stopping = should_stop()  # not after this: only what is saved may stop
        self.rows.flush(self.logger.write_episode)
        if stopping:
            return "stopped"
        if done:
            return "finished"
        if due and background:
            # After saving: if the run is killed while this goes on, it begins again from that checkpoint.
            self.rows.release()
            evaluations.begin(self._so_far())
        return None

    def collect(self) -> None:
        """`collect_steps` steps in every slot, kept until `absorb`."""
        e, p = self.config.experiment, self.parts
        explore = "random" if self.step < e.init_steps else "policy"
        assert e.collect_steps is not None
        self._chunk, self._ended = [], []
        try:
            for tasks in self.scheduler.rounds(explore == "random"):
                steps, episodes = p.collector.collect(p.acting, e.collect_steps, explore, self.step, tasks)
                self._chunk += steps
                self._ended += episodes
        except NonFiniteError:
            p.learner.check_finite(self.step)  # if the network is what broke, say so
            raise

    def absorb(self) -> None:
        """Put the collected chunk into replay; updates are owed for it."""
        e, p = self.config.experiment, self.parts
        assert e.updates is not None
        assert e.collect_steps is not None
        for step in self._chunk:
            p.replay.add(step)
        before, self.step = self.step, self.step + e.collect_steps * p.env.slots_per_task
        self.upkeep.after(self._chunk, before, self.step, p.learner.updates)
        self.finished += self._ended
        self.rows.trained(self._ended, self.episodes_ended, before, self.step)
        self.episodes_ended += len(self._ended)
        self.scheduler.observe(self._ended)
        if not self.scheduler.uniform:
            p.replay.share.copy_(torch.from_numpy(self.scheduler.shares()).unsqueeze(1))
        self._chunk, self._ended = [], []
        self.owed += e.updates if self.step >= e.init_steps else 0
        if before < e.init_steps <= self.step and self.config.agent.burst:
            self.owed += self.step

    def take(self, step: Step, ended: list[Episode]) -> None:
        """Absorb a step that somebody else collected."""
        self._chunk, self._ended = [step], ended
        self.absorb()

    def report(self) -> None:
        if self.config.setup.debug.should_enable:
            self.parts.learner.check_finite(self.step)
        if self.finished if self.config.logger.per_episode else self._line_due():
            self._log_training()
        progress = self.evaluations.progress
        self._show("training" if progress is None else f"training, evaluating {progress}")

    def show_owed(self) -> None:
        self._show(f"learning, {self.owed:,} updates to go")

    def note_end(self, status: str) -> None:
        share = self._logging / max(time.monotonic() - self._clock, 1e-9)
        self._note_status(status, logging_share=round(share, 5), **peak_memory(self.parts.device))

    def rescue(self) -> None:
        """A checkpoint of what there is, after something outside the program broke."""
        if self.step != self._last_save:
            self.save()

    def note_failure(self, error: BaseException) -> None:
        """A second Ctrl-C is none: the run is where it was saved last."""
        self._note_status("stopped" if isinstance(error, KeyboardInterrupt) else "failed")

    def close(self) -> None:
        """Everything, whatever happens to one part of it; then the first error is raised."""
        with contextlib.ExitStack() as parts:
            parts.callback(self.parts.close)
            if hasattr(self, "logger"):  # not if it could not even begin
                parts.callback(self.logger.close)
            with contextlib.suppress(OSError):
                self.checkpoints.settle()
            self.evaluations.abandon()

    # ---- what is due

    def _line_due(self) -> bool:
        return self.step // self.log_freq > self.last_log // self.log_freq

    def _save_due(self, last_save: int) -> bool:
        e = self.config.experiment
        if self.step == 0:
            return last_save < 0  # so that there is always something to go back to
        if e.save_minutes is not None and time.monotonic() - self._saved_at > 60 * e.save_minutes:
            return True
        return bool(e.save_freq) and self.step // e.save_freq > max(last_save, 0) // e.save_freq  # type: ignore[operator]

    def _time_is_up(self) -> bool:
        limit = self.config.experiment.max_minutes
        return limit is not None and self.minutes_so_far() >= limit

    def minutes_so_far(self) -> float:
        return self.minutes + (time.monotonic() - self._clock) / 60

    # ---- numbers

    def counters(self) -> dict[str, int]:
        """`env_step` counts the simulator's control steps in a task: more than `step` where actions are repeated."""
        env = self.parts.env
        return {
            "step": self.step,
            "env_step": env.env_steps(self.step),
            "frames": self.step * len(env.tasks),
            "updates": self.parts.learner.updates,
        }

    def faults(self) -> dict[str, int]:
        """What went wrong in the simulators since the run began."""
        return {
            count: self.earlier_faults.get(count, 0) + int(getattr(self.parts.env, count).sum()) for count in FAULTS
        }

    def _so_far(self) -> dict[str, int]:
        return {**self.counters(), "episode": self.episodes_ended}

    def _log_training(self) -> None:
        now = time.monotonic()
        row: dict[str, Any] = {**self._so_far(), "duration": now - self._logged_at}
        row["fps"] = (row["env_step"] - self._logged_env_step) / max(row["duration"], 1e-9)
        if self.finished:
            row |= episode_statistics(self.finished, len(self.parts.env.tasks))
        row |= {count: total for count, total in self.faults().items() if total}
        if self.missed:
            row["missed_updates"] = self.missed
        if self._save_seconds:
            row["checkpoint_ms"], self._save_seconds = 1e3 * max(self._save_seconds), []
        if not self.scheduler.uniform:
            row |= {f"frames_env_index_{i}": int(n) for i, n in enumerate(self.parts.replay.counts)}
            row |= {f"share_env_index_{i}": float(x) for i, x in enumerate(self.scheduler.shares())}
        row |= self.parts.learner.drain(self.step) | self.parts.env.drain() | self.parts.collector.drain()
        self._logged_at, self._logged_env_step = now, row["env_step"]
        self.last_log, self.finished = self.step, []
        self.logger.write("train", row)
        self._logging += time.monotonic() - now

    def _log_evaluation(self, row: dict[str, Any]) -> None:
        self.logger.write("eval", row)

    def _note(self, text: str) -> None:
        self.console.note(text)

    def _show(self, doing: str) -> None:
        self.console.progress(self.step, self.parts.learner.updates, doing)

    def _note_status(self, status: str, **more: Any) -> None:
        minutes = self.minutes_so_far() if hasattr(self, "_clock") else self.minutes
        try:
            self.run.write_info(status=status, **self.counters(), minutes=round(minutes, 3), **more)
        except OSError as e:
            if status != "failed":  # a full disk: the error that led here says more
                raise MedleyError(f"{self.run.path / 'run.json'} cannot be written: {e.strerror}.") from None

    # ---- saving and restoring

    def save(self) -> None:
        """A checkpoint of this instant. What is not finite is never saved."""
        began = time.monotonic()
        self.parts.learner.check_finite(self.step)
        try:
            replay = self.parts.replay if self.config.experiment.save.buffer.should_save else None
            self.checkpoints.save(self.step, take(self), replay)
            self._save_seconds.append(time.monotonic() - began)
        except (OSError, SafetensorError) as e:
            steps = self.checkpoints.steps()
            stands = f"the checkpoint of step {steps[-1]} still stands" if steps else "there is no earlier checkpoint"
            raise MedleyError(f"step {self.step} could not be saved ({e}); {stands}.") from None
        self.rows.flush(self.logger.write_episode, checkpoint_ms=1e3 * self._save_seconds[-1])

    def restore(self, step: int | None = None) -> bool:
        """Continue from the newest undamaged checkpoint (up to `step`). False: there is none, the run begins."""
        self._clock = time.monotonic()
        path = self.checkpoints.latest(self.notes.append, step)
        if path is None:
            if self.checkpoints.steps():
                why = "\n  ".join(self.notes)
                raise DamagedError(f"none of the checkpoints in {self.checkpoints.folder} can be used:\n  {why}")
            return False
        put_back(self, self.checkpoints.load(path, self.parts.replay))
        self.notes.append(f"Going on from step {self.step:,}.")
        if not self.parts.replay.written and self.step:
            self.notes.append("Replay was not saved (experiment.save.buffer.should_save=false): it starts empty.")
        return True

    # ---- places to talk to

    def _open_console(self) -> Console:
        c, p = self.config, self.parts
        title = f"medley · {c.env.name} · {c.agent.name} · seed {c.setup.seed}"
        how = c.logger.console if self._speaks else "none"
        console = make_console(how, c.metrics, title, p.evaluator.env.tasks, c.experiment.num_train_steps, self.step)
        for note in self.notes:
            console.note(note)
        return console

    def _open_logger(self, console: Console, resumed: bool) -> Logger:
        step = self.step if resumed else None
        config = to_dict(self.config)
        try:
            return Logger(self.run.path, self.config.logger, config, self.log_lengths, step, console, self.rows.wanted)
        except OSError as e:
            console.close()
            raise MedleyError(f"the logs in {self.run.path} cannot be written: {e.strerror}.") from None


def _chunks_behind(config: Config, parts: Parts) -> int:
    """Of the newest policy, the one that acts."""
    return config.collect.lag if config.collect.on == "ray" else int(parts.overlap)
