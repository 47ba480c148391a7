"""Every option outside `agent` and `env`, with its default and its meaning."""

from __future__ import annotations

from dataclasses import dataclass

from medley.agents.api import AgentConfig
from medley.config.options import opt
from medley.envs.registry import EnvConfig
from medley.training.scheduler import SchedulerConfig


@dataclass
class DebugConfig:
    should_enable: bool = opt(False, "check every update for non-finite numbers, not only every log line (slow)")


@dataclass
class SetupConfig:
    setup: str = opt("", "name of the setup: it selects metrics, optimisers and agent components")
    seed: int = opt(1, "the one seed that decides everything")
    device: str = opt("auto", "cpu | cuda | cuda:1 | auto")
    precision: str = opt(
        "tf32",
        "matrix products on a GPU: tf32 | fp32 | bf16 (between hidden layers; for wide networks). bf16 also for "
        "convolutions, there on a CPU too",
    )
    deterministic: bool = opt(
        False, "refuse GPU operations that may round differently from run to run (see docs/speed.md for the cost)"
    )
    threads: int | None = opt(None, "CPU threads of the learner; null: all cores. Part of a run's exact arithmetic")
    id: str | None = opt(None, "name of this configuration in the run folder; null: made from what was asked for")
    base_path: str = opt(".", "folder that holds `runs/`")
    save_dir: str | None = opt(None, "run folder; null: <base_path>/runs/<env>/<id>/seed_<seed>")
    description: str | None = opt(None, "free text, kept in config.yaml")
    tags: list[str] = opt([], "free words, kept in config.yaml")
    debug: DebugConfig = opt(DebugConfig(), "")


@dataclass
class SaveModelConfig:
    retain_last_n: int = opt(2, "checkpoints kept; -1 keeps all. Two, so that a damaged one has one before it")
    long_term_freq: int | None = opt(None, "keep for ever the first checkpoint after every so many steps")


@dataclass
class SaveBufferConfig:
    should_save: bool = opt(True, "save replay in checkpoints; without it a resumed run starts with an empty one")


@dataclass
class SaveConfig:
    model: SaveModelConfig = opt(SaveModelConfig(), "")
    buffer: SaveBufferConfig = opt(SaveBufferConfig(), "")


@dataclass
class VideoConfig:
    at_eval: bool = opt(False, "film the first episode of every task in each evaluation, instead of one at the end")
    size: list[int] = opt([320, 240], "width and height in pixels")
    every: int = opt(2, "steps between two pictures")
    fps: int | None = opt(None, "pictures per second; null: the env's own")


@dataclass
class ExperimentConfig:
    num_train_steps: int = opt(2_000_000, "length of the run in steps: one step is one transition in every task")
    max_minutes: float | None = opt(None, "stop after so many minutes of training, then evaluate and report as usual")
    init_steps: int = opt(4000, "steps taken with uniformly random actions before learning starts")
    collect_steps: int | None = opt(
        None, "steps of every slot per chunk of the loop; null: as the agent has it, mostly 1"
    )
    updates: int | None = opt(None, "updates per chunk; null: one per step of a task")
    update_when: str = opt(
        "at_step",
        "at_step: collect, then learn | between_episodes: learn when an episode is over | during_step: learn while the "
        "arm carries out an action, as far as there is time, and the rest between episodes. As many updates in all",
    )
    learner: str = opt(
        "auto",
        "how updates run. CPU: native (compiled code) | eager. GPU: compiled (and captured) | graph (captured) | "
        "eager. auto: the first that works",
    )
    overlap: bool | None = opt(
        None,
        "learn from one chunk while the next is collected, with the policy from before; null: on a GPU only. "
        "Part of what is learnt, not of how fast the machine is",
    )
    scheduler: SchedulerConfig = opt(SchedulerConfig(), "")
    seeds_together: int = opt(1, "so many of the seeds in `setup.seed=1,2,...` are trained at once in one program")
    eval_freq: int | None = opt(None, "steps between evaluations; null: about 20 per run; 0: only at the end")
    eval_at_start: bool = opt(True, "evaluate the untrained agent too")
    protocol: str | None = opt(
        None, "evaluation protocol: metaworld+ | held-out | mtrl | tdmpc2 | episodes; null: the env's own"
    )
    num_eval_episodes: int | None = opt(None, "episodes per task in an evaluation; null: the protocol's number")
    num_final_eval_episodes: int | None = opt(None, "episodes per task in the last evaluation; null: the same number")
    eval_slots_per_task: int | None = opt(
        None, "evaluation episodes of a task that run side by side; null: all of them, up to 500 over all tasks"
    )
    eval_in_background: bool | None = opt(None, "evaluate while training goes on; null: on a GPU only")
    eval_explore: str = opt(
        "deterministic", "actions of evaluations: deterministic (the policy's best) | stochastic (drawn from it)"
    )
    eval_schedule: list[str] = opt(
        [],
        "agents with intentions: evaluations carry out these, by name, one after the other, agent.scheduler.period "
        "steps each, the last to the end; empty: every intention by itself",
    )
    save_freq: int | None = opt(None, "steps between checkpoints; null: at every evaluation; 0: only at the end")
    save_minutes: float | None = opt(10.0, "a checkpoint also after so many minutes without one; null: never")
    save: SaveConfig = opt(SaveConfig(), "")
    should_resume: bool = opt(True, "`train` on an unfinished run folder with the same options goes on with it")
    save_video: bool = opt(True, "record an episode per task at the end, or in every evaluation (video.at_eval)")
    video: VideoConfig = opt(VideoConfig(), "")
    save_report: bool = opt(True, "report.html at the end; without it a short run ends some seconds earlier")
    init_from: str | None = opt(None, "run folder whose trained weights this run starts from (also --init-from)")


@dataclass
class CollectConfig:
    on: str = opt("local", "where simulators run: local (this process) | ray (workers on a Ray cluster)")
    workers: int = opt(2, "ray: processes that have env.slots_per_task / workers slots of every task each")
    lag: int = opt(
        1,
        "ray: chunks that workers are ahead of learning. 0: they wait | 1: they collect while the chunk before is "
        "learnt, like experiment.overlap | more: hides a slow network. Part of what is learnt",
    )
    cpus: float = opt(1.0, "ray: CPUs that one worker takes of the cluster")


@dataclass
class ReplayConfig:
    capacity: int | None = opt(None, "transitions in all; null: 100,000 per task")
    batch_size: int | None = opt(None, "transitions per update, split equally between tasks; null: 128 per task")
    sampling: str = opt("stratified", "stratified: equal shares of tasks | uniform: random shares")
    frames: str = opt(
        "memory",
        "where pictures are kept: memory (of the training device) | host (CPU memory) | compressed (there, losslessly) "
        "| disk",
    )
    frames_dir: str | None = opt(None, "folder for the nameless file of frames=disk; null: the run folder")
    nstep_mode: str = opt(
        "shorter",
        "pictures, agent.n_step > 1, where an episode has fewer steps left: shorter (sum what there is) | full (never "
        "start there, as DrQ-v2)",
    )


@dataclass
class MetricsConfig:
    train: dict[str, str] = opt({}, "columns of a training line on the console: statistic -> abbreviation")
    eval: dict[str, str] = opt({}, "columns of an evaluation line on the console: statistic -> abbreviation")


@dataclass
class LoggerConfig:
    console: str = opt("auto", "auto: live panel on a terminal, lines elsewhere | panel | lines | none")
    train_freq: int | None = opt(
        None, "steps between training lines; null: one episode of every slot, within 200 and 1000"
    )
    per_episode: bool = opt(False, "a training line whenever an episode ends, however short, instead of train_freq")
    episodes: bool | None = opt(
        None, "a line in episodes.jsonl for every episode; null: for agents with intentions and in real time only"
    )
    use_tb: bool = opt(True, "TensorBoard files in tb/")
    use_wandb: bool = opt(False, "Weights & Biases too (pip install 'medley[wandb]')")
    wandb_project: str = opt("medley", "project name at Weights & Biases")


@dataclass
class Config:
    setup: SetupConfig = opt(SetupConfig(), "")
    agent: AgentConfig = opt(AgentConfig(), "")
    env: EnvConfig = opt(EnvConfig(), "")
    experiment: ExperimentConfig = opt(ExperimentConfig(), "")
    collect: CollectConfig = opt(CollectConfig(), "")
    replay_buffer: ReplayConfig = opt(ReplayConfig(), "")
    metrics: MetricsConfig = opt(MetricsConfig(), "")
    logger: LoggerConfig = opt(LoggerConfig(), "")
