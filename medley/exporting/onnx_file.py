"""`medley export`: the policy of a run as an ONNX file that needs neither medley nor PyTorch."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import medley
from medley.errors import ConfigError, MedleyError
from medley.exporting.network import PolicyNetwork
from medley.files import replacing
from medley.training.build import evaluation_env, spaces_of
from medley.training.device import prepare_device
from medley.training.policy_file import build_agent, load_policy, policy_folder, step_of
from medley.training.run import Run

OPSET = 17  # onnxruntime 1.13 and newer read it
TOLERANCE = 1e-4  # of actions in [-1, 1]: runtimes sum in other orders, and agree to 1e-6 as a rule
_CHECKED = (1, 3, 8)  # rows at a time


@dataclass(frozen=True)
class Exported:
    """What a file holds."""

    path: Path
    agent: str
    env: str
    step: int
    tasks: tuple[str, ...]
    shape: tuple[int, ...]  # of one observation
    action_dim: int
    gap: float = 0.0  # the largest difference to the agent's own actions that was seen


def export(run_folder: str | Path, out: str | Path | None = None, checkpoint: int | None = None) -> Exported:
    """Writes `policy.onnx` into the run folder, or to `out`, once its actions are seen to be the agent's own."""
    _need_packages()
    run = Run(Path(run_folder))
    config = run.config()
    config.setup.device = "cpu"  # wherever it was trained
    own_name = "policy.onnx" if checkpoint is None else f"policy_{checkpoint}.onnx"
    path = run.path / own_name if out is None else Path(out)
    if path.is_dir():
        raise ConfigError(f"--out {path} is a folder: name a file in it.")
    folder = policy_folder(run.path, checkpoint)
    env = evaluation_env(config, 1)
    agent = build_agent(config, env, prepare_device(config, or_cpu=True))
    load_policy(agent, folder)
    low, high = env.action_range()
    spaces, step = spaces_of(env), step_of(folder)
    env.close()
    shape = spaces.image or (spaces.obs_dim,)
    what = Exported(path, config.agent.name, config.env.name, step, env.tasks, shape, spaces.action_dim)
    network = PolicyNetwork(agent, low, high)
    content = to_onnx(network, what, {"action_low": low.tolist(), "action_high": high.tolist()})
    gap = compare(content, network, shape)
    if not gap < TOLERANCE:
        raise MedleyError(f"{what.agent} cannot be exported: the file would act otherwise, by up to {gap:.2g}.")
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as e:
        raise MedleyError(f"{path} cannot be written: {e.strerror}.") from None
    return dataclasses.replace(what, gap=gap)


def to_onnx(network: PolicyNetwork, what: Exported, more: dict[str, Any] | None = None) -> bytes:
    """The file's content: `observation`, and `task` where there are several, to `action`, for any number of rows."""
    import onnx

    example = _example(what.shape, 2, network.tasks)
    names = ["observation", "task"][: len(example)]
    try:
        with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")  # it is older than the one that needs more packages and takes far longer
            torch.onnx.export(
                network.eval(),
                example,
                draft := Path(folder, "policy.onnx"),
                dynamo=False,
                opset_version=OPSET,
                input_names=names,
                output_names=["action"],
                dynamic_axes={name: {0: "batch"} for name in (*names, "action")},
            )
            model = onnx.load_model(draft)
    except (RuntimeError, TypeError, torch.onnx.OnnxExporterError) as e:
        why = next(iter(str(e).strip().splitlines()), type(e).__name__)
        raise MedleyError(f"{what.agent} cannot be exported: ONNX cannot say what it does ({why}).") from None
    model.producer_name, model.producer_version = "medley", medley.__version__
    model.doc_string = f"{what.agent} on {what.env} after {what.step} steps: its policy without exploration"
    about = {"medley": medley.__version__, "agent": what.agent, "env": what.env, "step": what.step}
    for key, value in {**about, "tasks": list(what.tasks), **(more or {})}.items():
        model.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def compare(content: bytes, network: PolicyNetwork, shape: tuple[int, ...]) -> float:
    """The largest difference between what the file and the agent do in random states, for actions in [-1, 1]."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # its errors have no base class of their own
        raise MedleyError(f"ONNX Runtime refuses what was exported: {str(e).splitlines()[0]}") from None
    largest = 0.0
    for rows in (*_CHECKED, network.tasks):  # the last time, every task has a row
        obs, *task = _example(shape, rows, network.tasks)
        inputs = {"observation": obs.numpy(), **({"task": task[0].numpy()} if task else {})}
        (got,) = session.run(None, inputs)
        every = network.agent.act(obs.unsqueeze(0).expand(network.tasks, *obs.shape).contiguous(), None)
        own = network.scaled(every)[task[0] if task else 0, torch.arange(rows)].detach().numpy()
        if got.shape != own.shape or not np.isfinite(got).all():
            return float("inf")
        largest = max(largest, float(np.abs(got - own).max()))
    return largest / max(1.0, float(network.reach.max()))


def _example(shape: tuple[int, ...], rows: int, tasks: int) -> tuple[torch.Tensor, ...]:
    """Observations, and the tasks that they are of where there are several."""
    generator = torch.Generator().manual_seed(rows)
    if len(shape) > 1:
        obs = torch.randint(0, 256, (rows, *shape), generator=generator, dtype=torch.uint8)
    else:
        obs = torch.randn(rows, *shape, generator=generator)
    return (obs,) if tasks == 1 else (obs, torch.arange(rows) % tasks)


def _need_packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise MedleyError("exporting needs onnx and onnxruntime: pip install 'medley[export]'.") from None


def describe(done: Exported) -> str:
    """What was written, and how to act with it."""
    size, several = done.path.stat().st_size, len(done.tasks) > 1
    kind = "uint8" if len(done.shape) > 1 else "float32"
    task = ", task [batch] int64" if several else ""
    names = ", ".join(f"{i} {name}" for i, name in enumerate(done.tasks[:5])) + ", …" * (len(done.tasks) > 5)
    given = '{"observation": obs, "task": np.array([0])}' if several else '{"observation": obs}'
    return f"""\
Written: {done.path} ({_size(size)}): {done.agent} on {done.env}, step {done.step:,}.
observation {["batch", *done.shape]} {kind}{task} -> action [batch, {done.action_dim}]; tasks: {names}
Its actions differ from the agent's own by {done.gap:.0e} at most.

import numpy as np, onnxruntime
policy = onnxruntime.InferenceSession("{done.path}")
action = policy.run(None, {given})[0]  # obs: np.zeros({(1, *done.shape)}, np.{kind})""".replace("'batch'", "batch")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
