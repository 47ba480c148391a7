"""One update of SAC in compiled code, by several threads at once. The losses are those of medley/agents/sac.py.

rows       the policy on s' and s, both samples, y, critics on (s, a), and their deltas          | barrier
weights    gradients of the critics and their norm | barrier | clipping, Adam, targets           | barrier
rows       critics on (s, a~), the smaller one's gradient by the action, the policy's deltas      | barrier
weights    gradients of the policy and their norm  | barrier | clipping, Adam; the temperature
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from medley.agents.native.descent import adam, descend, rates
from medley.agents.native.job import (
    ACTOR_LOSS,
    ACTOR_NORM,
    ALPHA,
    ALPHA_LOSS,
    CRITIC_LOSS,
    CRITIC_NORM,
    ENTROPY,
    NUMBERS,
    REWARD,
    TARGET_ENTROPY,
)
from medley.agents.native.machine import (
    FLOAT,
    HALF,
    ONE,
    TWO,
    ZERO,
    compiled,
    doubles,
    flags,
    floats,
    longs,
)
from medley.agents.native.mlp import backward, dot, forward, gradients, network, share
from medley.agents.native.team import barrier

LOG_2, LOG_SQRT_2PI = np.float32(math.log(2)), np.float32(0.5 * math.log(2 * math.pi))


# ---- rows


@compiled
def _copy(source: int, target: int, count: int) -> None:
    a, b = floats(source, count), floats(target, count)
    for i in range(count):
        b[i] = a[i]


@compiled
def _read_row(j: Any, row: int) -> None:
    """Fetch one row of the batch: a copy, or a transition of replay with its n-step return (see Replay.sample)."""
    task = row // j.per_task
    reward, discount = floats(j.reward, j.rows), floats(j.discount, j.rows)
    if j.ring == 0:
        at = last = row
        reward[row] = floats(j.from_reward, j.rows)[row]
        discount[row] = floats(j.from_discount, j.rows)[row]
    else:
        base = task * j.capacity
        index = min(int(doubles(j.uniform, j.rows)[row] * doubles(j.sizes, j.tasks)[task]), j.capacity - 1)
        at = last = base + index
        count = j.tasks * j.capacity
        rewards, ended = floats(j.from_reward, count), flags(j.from_ended, count)
        after = (longs(j.written, j.tasks)[task] - 1 - index) % j.capacity  # rows written after this one
        total, factor = rewards[at], j.gamma
        for k in range(1, j.n_step):
            if ended[last] or after < k * j.slots:
                break
            last = base + (index + k * j.slots) % j.capacity
            total += factor * rewards[last]
            factor *= j.gamma
        reward[row] = total * floats(j.reward_factor, j.tasks)[task]
        discount[row] = ZERO if flags(j.from_terminated, count)[last] else factor
    x, n, m = FLOAT * row * j.stride, j.obs_dim, j.action_dim
    _copy(j.from_obs + FLOAT * at * n, j.x + x, n)
    _copy(j.from_action + FLOAT * at * m, j.x + x + FLOAT * (n + j.label_dim), m)
    _copy(j.from_next_obs + FLOAT * last * n, j.x_next + x, n)


@compiled
def _sample(j: Any, out: int, noise: int, action: int, stride: int, row: int) -> Any:
    """The policy's action into `action`, and its log pi (medley/nn/squashed_gaussian.py); keeps what the way back
    needs."""
    n = j.action_dim
    given = floats(out + FLOAT * row * 2 * n, 2 * n)
    epsilon = floats(noise + FLOAT * row * n, n)
    mask = floats(j.mask + FLOAT * (row // j.per_task) * n, n)
    a = floats(action + FLOAT * row * stride, n)
    squashed, spread = floats(j.squashed + FLOAT * row * n, n), floats(j.spread + FLOAT * row * n, n)
    bounded = floats(j.bounded + FLOAT * row * n, n)
    log_prob = ZERO
    for d in range(n):
        raw = given[n + d]
        if j.rescale:
            t = np.float32(math.tanh(raw))
            log_std = j.low + HALF * (j.high - j.low) * (t + ONE)
            bounded[d] = HALF * (j.high - j.low) * (ONE - t * t)
        else:
            log_std = j.high if raw > j.high else j.low if raw < j.low else raw
            bounded[d] = ONE if raw == log_std else ZERO
        spread[d] = np.float32(math.exp(log_std)) * epsilon[d]
        u = given[d] + spread[d]
        small = np.float32(math.expm1(-TWO * abs(u)))  # e^-2|u| - 1: tanh without cancellation
        tanh = (small if u < ZERO else -small) / (TWO + small)
        squashed[d] = tanh
        softplus = (ZERO if u > ZERO else -TWO * u) + np.float32(math.log(TWO + small))
        density = -HALF * epsilon[d] * epsilon[d] - log_std - LOG_SQRT_2PI - TWO * (LOG_2 - u - softplus)
        log_prob += density * mask[d]
        a[d] = tanh * mask[d]
    return log_prob


@compiled
def _alpha(j: Any, row: int) -> Any:
    task = row // j.per_task if j.alphas > 1 else 0
    return np.float32(math.exp(floats(j.log_alpha[0], j.alphas)[task]))


@compiled
def _critic_rows(j: Any, first: int, last: int, scratch: int) -> None:
    """y, both critics' losses and deltas; and the policy on s, whose weights do not change until the end."""
    actor, actor_next = network(j.actor), network(j.actor_next)
    critic, target = network(j.critic), network(j.target)
    for row in range(first, last):
        _read_row(j, row)
    log_prob, y = floats(j.log_prob, j.rows), floats(j.y, j.rows)
    action = j.x_next + FLOAT * (j.obs_dim + j.label_dim)
    forward(j, actor_next, 0, j.x_next, j.stride, first, last, scratch)
    for row in range(first, last):
        log_prob[row] = _sample(j, actor_next[-1].values, j.noise_next, action, j.stride, row)
    for member in range(2):
        forward(j, target, member, j.x_next, j.stride, first, last, scratch)
    q = floats(target[-1].values, 2 * j.rows)
    reward, discount, weight = floats(j.reward, j.rows), floats(j.discount, j.rows), floats(j.weight, j.rows)
    for row in range(first, last):
        smaller = min(q[row], q[j.rows + row])
        value = reward[row] + discount[row] * (smaller - _alpha(j, row) * log_prob[row])
        if value > j.max_value:  # not by min and max, which would hide what is not a number
            value = j.max_value
        elif value < -j.max_value:
            value = -j.max_value
        y[row] = value
    if j.update_actor:
        forward(j, actor, 0, j.x, j.stride, first, last, scratch)
        for row in range(first, last):
            log_prob[row] = _sample(j, actor[-1].values, j.noise, j.action, j.action_dim, row)
    losses, q_means = floats(j.critic_losses, j.rows), floats(j.q_means, j.rows)
    losses[first:last] = ZERO
    q_means[first:last] = ZERO
    scale = ONE / np.float32(j.rows)
    for member in range(2):
        forward(j, critic, member, j.x, j.stride, first, last, scratch)
        q = floats(critic[-1].values + FLOAT * member * j.rows, j.rows)
        delta = floats(critic[-1].deltas + FLOAT * member * j.rows, j.rows)
        for row in range(first, last):
            error = q[row] - y[row]
            losses[row] += HALF * weight[row] * error * error
            q_means[row] += HALF * q[row]
            delta[row] = error * weight[row] * scale
        backward(j, critic, member, j.order + 8 * first, first, last - first, scratch)


@compiled
def _actor_rows(j: Any, first: int, last: int, scratch: int) -> None:
    """The smaller critic's gradient by the action, and the policy's deltas. Only rows where a critic is the smaller
    one pass back through it."""
    actor, critic = network(j.actor), network(j.critic)
    n, m = j.action_dim, critic[0].outputs
    place = j.obs_dim + j.label_dim
    for row in range(first, last):
        _copy(j.action + FLOAT * row * n, j.x + FLOAT * (row * j.stride + place), n)
    for member in range(2):
        forward(j, critic, member, j.x, j.stride, first, last, scratch)
    q = floats(critic[-1].values, 2 * j.rows)
    weight, log_prob, losses = floats(j.weight, j.rows), floats(j.log_prob, j.rows), floats(j.actor_losses, j.rows)
    scale = ONE / np.float32(j.rows)
    floats(j.d_action + FLOAT * first * n, (last - first) * n)[:] = ZERO
    for member in range(2):
        chosen = j.chosen + 8 * (member * j.rows + first)
        row_of, delta = longs(chosen, last - first), floats(critic[-1].deltas + FLOAT * member * j.rows, j.rows)
        count = 0
        for row in range(first, last):
            own, other = q[member * j.rows + row], q[(1 - member) * j.rows + row]
            if own > other:
                continue
            row_of[count] = row
            delta[first + count] = -weight[row] * scale * (HALF if own == other else ONE)
            count += 1
        backward(j, critic, member, chosen, first, count, scratch)
        for k in range(count):
            row = row_of[k]
            matrix = member * critic[0].tasks + (row // j.per_task if critic[0].tasks > 1 else 0)
            own_weight = critic[0].weight[0] + FLOAT * matrix * critic[0].inputs * m
            d_action = floats(j.d_action + FLOAT * row * n, n)
            d_hidden = critic[0].deltas + FLOAT * (member * j.rows + first + k) * m
            for d in range(n):
                d_action[d] += dot(d_hidden, own_weight + FLOAT * (place + d) * m, m)
    for row in range(first, last):
        smaller, alpha = min(q[row], q[j.rows + row]), _alpha(j, row)
        losses[row] = weight[row] * (alpha * log_prob[row] - smaller)
        _policy_delta(j, actor[-1].deltas, alpha * weight[row] * scale, row)
    backward(j, actor, 0, j.order + 8 * first, first, last - first, scratch)


@compiled
def _policy_delta(j: Any, deltas: int, d_log_prob: Any, row: int) -> None:
    """Through the sample: u moves a and log pi, and log std both u and log pi."""
    n = j.action_dim
    mask = floats(j.mask + FLOAT * (row // j.per_task) * n, n)
    d_action, squashed = floats(j.d_action + FLOAT * row * n, n), floats(j.squashed + FLOAT * row * n, n)
    spread, bounded = floats(j.spread + FLOAT * row * n, n), floats(j.bounded + FLOAT * row * n, n)
    delta = floats(deltas + FLOAT * row * 2 * n, 2 * n)
    for d in range(n):
        t = squashed[d]
        du = mask[d] * (d_action[d] * (ONE - t * t) + d_log_prob * TWO * t)
        delta[d] = du
        delta[n + d] = (du * spread[d] - d_log_prob * mask[d]) * bounded[d]


# ---- numbers


@compiled
def _norm(j: Any) -> Any:
    total = 0.0
    for value in doubles(j.squares, j.threads):
        total += value
    return np.float32(math.sqrt(total))


@compiled
def _clipping(j: Any, norm: Any) -> Any:
    factor = j.grad_clip / (norm + np.float32(1e-6))
    return ONE if factor > ONE else factor


@compiled
def _mean(address: int, first: int, count: int) -> float:
    values = floats(address + FLOAT * first, count)
    total = 0.0
    for i in range(count):
        total += values[i]
    return total / count


@compiled
def _critic_metrics(j: Any, norm: Any) -> None:
    numbers = floats(j.metrics, len(NUMBERS))
    per_task = floats(j.metrics + FLOAT * len(NUMBERS), 3 * j.tasks)
    numbers[CRITIC_LOSS] = _mean(j.critic_losses, 0, j.rows)
    numbers[CRITIC_NORM] = norm
    numbers[REWARD] = _mean(j.reward, 0, j.rows)
    for task in range(j.tasks):
        per_task[task] = _mean(j.critic_losses, task * j.per_task, j.per_task)
        per_task[j.tasks + task] = _mean(j.q_means, task * j.per_task, j.per_task)


@compiled
def _actor_metrics(j: Any, norm: Any) -> None:
    numbers = floats(j.metrics, len(NUMBERS))
    alphas = floats(j.metrics + FLOAT * (len(NUMBERS) + 2 * j.tasks), j.tasks)
    numbers[ACTOR_LOSS] = _mean(j.actor_losses, 0, j.rows)
    numbers[ENTROPY] = -_mean(j.log_prob, 0, j.rows)
    numbers[TARGET_ENTROPY] = _mean(j.target_entropy, 0, j.tasks)
    for task in range(j.tasks):
        alphas[task] = _alpha(j, task * j.per_task)
    numbers[ALPHA] = _mean(j.metrics + FLOAT * (len(NUMBERS) + 2 * j.tasks), 0, j.tasks)
    numbers[ACTOR_NORM] = norm


@compiled
def _temperature(j: Any, step: Any) -> None:
    log_alpha, gradient = floats(j.log_alpha[0], j.alphas), floats(j.log_alpha[1], j.alphas)
    wanted = floats(j.target_entropy, j.tasks)
    gradient[:] = ZERO
    loss = 0.0
    for task in range(j.tasks):
        i = task if j.alphas > 1 else 0
        gap = np.float32((_mean(j.log_prob, task * j.per_task, j.per_task) + wanted[task]) / j.tasks)
        gradient[i] -= gap
        loss -= log_alpha[i] * gap
    floats(j.metrics, len(NUMBERS))[ALPHA_LOSS] = loss
    adam(rates(j.alpha_optimizer, step, ONE), j.log_alpha, 0, j.alphas)
    floats(j.alpha_step, 1)[0] = step


# ---- the whole


@compiled
def _next_step(address: int) -> Any:
    return floats(address, 1)[0] + ONE


def update(j: Any, control: int, number: int) -> None:
    """What thread `number` does."""
    actor, critic = network(j.actor), network(j.critic)
    critic_step, actor_step = _next_step(critic[0].steps[0]), _next_step(actor[0].steps[0])
    first, last = share(j.rows, number, j.threads)
    scratch = j.scratch + number * j.scratch_size
    squares = doubles(j.squares, j.threads)

    _critic_rows(j, first, last, scratch)
    barrier(control)
    squares[number] = gradients(j, critic, j.x, j.stride, number, j.threads, scratch)
    barrier(control)
    norm = _norm(j)
    tau = j.tau if j.update_target else ZERO
    descend(critic, j.critic_optimizer, critic_step, _clipping(j, norm), tau, number, j.threads)
    if number == 0:
        _critic_metrics(j, norm)
    if not j.update_actor:
        return
    barrier(control)
    _actor_rows(j, first, last, scratch)
    barrier(control)
    squares[number] = gradients(j, actor, j.x, j.stride, number, j.threads, scratch)
    barrier(control)
    norm = _norm(j)
    descend(actor, j.actor_optimizer, actor_step, _clipping(j, norm), ZERO, number, j.threads)
    if number == 0:
        _actor_metrics(j, norm)
        if j.learn_alpha:
            _temperature(j, _next_step(j.alpha_step))


def act(j: Any, control: int, number: int) -> None:
    """Actions for observations at `from_obs` into `action`; by one thread."""
    actor, n = network(j.actor), j.obs_dim
    for row in range(j.rows):
        _copy(j.from_obs + FLOAT * row * n, j.x + FLOAT * row * j.stride, n)
    forward(j, actor, 0, j.x, j.stride, 0, j.rows, j.scratch)
    for row in range(j.rows):
        _sample(j, actor[-1].values, j.noise, j.action, j.action_dim, row)
