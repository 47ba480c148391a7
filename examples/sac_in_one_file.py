"""Soft actor-critic in one file, in CleanRL's style, on a Gymnasium vector env: nothing of medley but the simulator.

python examples/sac_in_one_file.py                                 # our simulator
python examples/sac_in_one_file.py --env-id Meta-World/MT10        # the package's, by the same code
python examples/sac_in_one_file.py --env-id medley/MT50 --steps 20000
"""

import argparse
import time

import gymnasium as gym
import metaworld  # noqa: F401  (registers Meta-World/...)
import numpy as np
import torch
import torch.nn.functional as F

import medley  # noqa: F401  (registers medley/...)

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--env-id", default="medley/MT10")
parser.add_argument("--steps", type=int, default=2000, help="steps in every slot")
parser.add_argument("--learning-starts", type=int, default=100)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)
envs = gym.make_vec(args.env_id, seed=args.seed, use_one_hot=True, vector_strategy="sync")
obs_dim, act_dim, n = envs.single_observation_space.shape[0], envs.single_action_space.shape[0], envs.num_envs


def mlp(inputs: int, outputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, outputs),
    )


actor = mlp(obs_dim, 2 * act_dim)
critics = [mlp(obs_dim + act_dim, 1) for _ in range(2)]
targets = [mlp(obs_dim + act_dim, 1) for _ in range(2)]
for target, critic in zip(targets, critics, strict=True):
    target.load_state_dict(critic.state_dict())
log_alpha = torch.zeros(1, requires_grad=True)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
critic_optimizer = torch.optim.Adam([p for critic in critics for p in critic.parameters()], lr=3e-4)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=3e-4)


def act(obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean, log_std = actor(obs).chunk(2, dim=-1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
    raw = normal.rsample()
    action = torch.tanh(raw)
    return action, (normal.log_prob(raw) - torch.log(1 - action.square() + 1e-6)).sum(-1, keepdim=True)


rows = args.steps * n
memory = {
    name: np.zeros((rows, width), np.float32)
    for name, width in (("obs", obs_dim), ("next", obs_dim), ("action", act_dim), ("reward", 1), ("terminated", 1))
}
stored, episodes, start = 0, [], time.time()
obs, _ = envs.reset(seed=args.seed)
for step in range(args.steps):
    if step < args.learning_starts:
        actions = rng.uniform(-1, 1, (n, act_dim)).astype(np.float32)
    else:
        with torch.no_grad():
            actions = act(torch.as_tensor(obs, dtype=torch.float32))[0].numpy()
    next_obs, reward, terminated, truncated, infos = envs.step(actions)
    ended = terminated | truncated
    last_obs = next_obs.copy()
    for i in np.flatnonzero(ended):  # the episode's own last observation, not the next one's first
        last_obs[i] = infos["final_obs"][i]
        episodes.append((infos["final_info"]["episode"]["r"][i], infos["final_info"]["success"][i]))
    for name, value in (("obs", obs), ("next", last_obs), ("action", actions)):
        memory[name][stored : stored + n] = value
    memory["reward"][stored : stored + n, 0] = reward
    memory["terminated"][stored : stored + n, 0] = terminated
    stored, obs = stored + n, next_obs

    if step >= args.learning_starts:
        chosen = rng.integers(stored, size=args.batch_size)
        b = {name: torch.from_numpy(value[chosen]) for name, value in memory.items()}
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            a, log_pi = act(b["next"])
            q = torch.min(*(target(torch.cat([b["next"], a], 1)) for target in targets)) - alpha * log_pi
            y = b["reward"] + 0.99 * (1 - b["terminated"]) * q
        loss = sum(F.mse_loss(critic(torch.cat([b["obs"], b["action"]], 1)), y) for critic in critics)
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        a, log_pi = act(b["obs"])
        q = torch.min(*(critic(torch.cat([b["obs"], a], 1)) for critic in critics))
        actor_optimizer.zero_grad()
        (alpha * log_pi - q).mean().backward()
        actor_optimizer.step()
        alpha_optimizer.zero_grad()
        (-log_alpha.exp() * (log_pi.detach() - act_dim)).mean().backward()
        alpha_optimizer.step()
        with torch.no_grad():
            for target, critic in zip(targets, critics, strict=True):
                for p, q in zip(target.parameters(), critic.parameters(), strict=True):
                    p.lerp_(q, 0.005)
    if (step + 1) % 500 == 0 or step + 1 == args.steps:
        recent = np.mean(episodes[-n:], axis=0) if episodes else (np.nan, np.nan)
        rate = (step + 1) * n / (time.time() - start)
        print(f"step {step + 1}: {rate:.0f} env steps/s, return {recent[0]:.0f}, success {recent[1]:.2f}", flush=True)
envs.close()
