"""MUST's networks, masks, generators, encoder and similarities against loops that spell the formulae out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from medley.nn.mask_generators import DenseGenerator, LowRankGenerator
from medley.nn.mask_similarity import hamming, jaccard, similarity_loss, trajectory_similarity
from medley.nn.masking import binarise, kept
from medley.nn.must import MaskedLinear, MaskedTrunk
from medley.nn.trajectory_encoder import TrajectoryEncoder
from medley.nn.trunks import Shape

TASKS, ROWS, OBS, ACT, WIDTH = 3, 5, 4, 2, 6


pytestmark = pytest.mark.usefixtures("float64")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_trunk(members: int = 2, mask_bias: bool = False) -> MaskedTrunk:
    trunk = MaskedTrunk(Shape(OBS, 3, TASKS, members, WIDTH, 2, 0.5, 0, ACT), seeded())
    if mask_bias:
        for _, layer in trunk._layers():
            layer.register_buffer("bias_mask", torch.ones(members, TASKS, 1, layer.out_features))
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=seeded(parameter.numel())))
        for i, mask in enumerate(trunk.masks()):
            mask.copy_((torch.rand(mask.shape, generator=seeded(i + 50)) < 0.5).to(mask.dtype))
    return trunk


@pytest.mark.parametrize("mask_bias", [False, True])
@pytest.mark.parametrize("members", [1, 2])
def test_masked_forward(members: int, mask_bias: bool) -> None:
    trunk = make_trunk(members, mask_bias)
    obs, action = torch.randn(TASKS, ROWS, OBS), torch.randn(TASKS, ROWS, ACT)
    out = trunk(obs, None, action)
    assert out.shape == (members, TASKS, ROWS, 3)
    layers = [layer for _, layer in trunk._layers()]
    for m in range(members):
        for i in range(TASKS):
            for b in range(ROWS):
                h = [*obs[i, b].tolist(), *action[i, b].tolist()]
                for depth, layer in enumerate(layers):
                    w, bias, mask = layer.weight[m], layer.bias[m, 0], layer.mask[m, i]
                    keeps = layer.bias_mask[m, i, 0] if mask_bias else torch.ones_like(bias)
                    y = [
                        sum(h[k] * float(w[k, o]) * float(mask[k, o]) for k in range(len(h)))
                        + float(bias[o]) * float(keeps[o])
                        for o in range(w.shape[1])
                    ]
                    h = [max(v, 0.0) for v in y] if depth < len(layers) - 1 else y
                assert torch.allclose(out[m, i, b], torch.tensor(h))


def test_one_task_alone_gives_its_slice() -> None:
    """What a gradient combiner does: the function of one task, with that task's slice of the masks."""
    trunk = make_trunk()
    obs, action = torch.randn(TASKS, ROWS, OBS), torch.randn(TASKS, ROWS, ACT)
    whole = trunk(obs, None, action)
    for i in range(TASKS):
        own = {name: trunk.get_buffer(name)[:, i : i + 1] for name in trunk.per_task()}
        alone = torch.func.functional_call(trunk, own, (obs[i : i + 1], None, action[i : i + 1]))
        assert torch.allclose(alone[:, 0], whole[:, i])


def test_pruned_weights_get_no_gradient() -> None:
    trunk = make_trunk()
    trunk(torch.randn(TASKS, ROWS, OBS), None, torch.randn(TASKS, ROWS, ACT)).square().sum().backward()
    for _, layer in trunk._layers():
        unused = layer.mask.amax(1) == 0
        assert unused.any()
        assert layer.weight.grad is not None
        assert (layer.weight.grad[unused] == 0).all()
        assert (layer.weight.grad != 0).any()


def test_first_weights_fit_the_fan_in_that_masks_leave() -> None:
    class Options:
        class must:
            pruning_ratio, mask_bias = 0.75, True

    trunk = MaskedTrunk(Shape(OBS, 3, TASKS, 1, 400, 2, 0.5, options=Options), seeded())
    layer = trunk.hidden[1]
    assert isinstance(layer, MaskedLinear)
    assert float(layer.weight.abs().max()) == pytest.approx(math.sqrt(6 / 100), rel=1e-3)
    assert [n.rsplit(".", 1)[1] for n in trunk.per_task()] == ["mask", "bias_mask"] * 3


# ---- binarisation


@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_masks_keep_exactly_their_share_of_every_layer(ratio: float) -> None:
    for shape in ((7, 11), (40, 1), (1, 1)):
        logits = torch.randn(TASKS, *shape, generator=seeded())
        hard = binarise(logits, ratio).hard
        keep = max(1, round((1 - ratio) * shape[0] * shape[1]))
        assert kept(shape[0] * shape[1], ratio) == keep
        for i in range(TASKS):
            order = sorted(range(logits[i].numel()), key=lambda k: (-float(logits[i].flatten()[k]), k))
            wanted = torch.zeros(logits[i].numel())
            wanted[order[:keep]] = 1
            assert torch.equal(hard[i].flatten(), wanted)


def test_ties_do_not_change_the_share() -> None:
    logits = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0, -1.0], [2.0] * 6, [0.0, 5.0, 0.0, 5.0, 5.0, 5.0]])
    hard = binarise(logits, 0.5).hard
    assert hard.tolist() == [[1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 0]]
    assert torch.isfinite(binarise(logits, 0.5).slope).all()


def test_the_gradient_goes_straight_through() -> None:
    """dL/dlogits of any function of the mask is that of M + s - sg(s), with threshold and spread held."""
    logits = torch.randn(TASKS, 4, 5, generator=seeded(), requires_grad=True)
    weights = torch.randn(TASKS, 4, 5, generator=seeded(1))
    made = binarise(logits, 0.7)
    leaf = made.hard.clone().requires_grad_(True)
    (of_mask,) = torch.autograd.grad((leaf * weights).sin().sum(), leaf)
    for i in range(TASKS):
        row = logits[i].flatten()
        threshold = row.detach().sort(descending=True).values[kept(20, 0.7) - 1]
        soft = torch.sigmoid((row - threshold) / (row.detach().std(correction=0) + 1e-6))
        through = made.hard[i].flatten() + soft - soft.detach()
        (wanted,) = torch.autograd.grad((through * weights[i].flatten()).sin().sum(), logits)
        assert torch.allclose((of_mask * made.slope)[i], wanted[i], atol=1e-12)
        assert (wanted[i] != 0).all()


# ---- generators


@pytest.mark.parametrize("latent", [0, 3])
def test_lowrank_generator(latent: int) -> None:
    rank, hidden, shapes = 2, 4, [(3, 5), (5, 1)]
    made = LowRankGenerator(TASKS, latent, shapes, hidden, rank, seeded())
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=seeded(parameter.numel())))
    encoding = torch.randn(TASKS, latent, generator=seeded(3)) if latent else None
    for layer, ((rows, columns), logits) in enumerate(zip(shapes, made(encoding), strict=True)):
        head, offset, common = made.heads[layer], made.offsets[layer], made.common[layer]
        for i in range(TASKS):
            h = torch.relu(made.weight[i] + made.bias)
            if encoding is not None:
                h = torch.relu(made.weight[i] + encoding[i] @ made.weight[TASKS:] + made.bias)
            z = h @ head + offset
            v_factors = z[: rows * rank].view(rows, rank)
            u_factors = z[rows * rank : (rows + columns) * rank].view(columns, rank)
            v, u = z[(rows + columns) * rank :][:rows], z[(rows + columns) * rank + rows :]
            for a in range(rows):
                for b in range(columns):
                    wanted = (v_factors[a] * u_factors[b]).sum() / math.sqrt(rank) + v[a] + u[b] + common[a, b]
                    assert torch.allclose(logits[i, a, b], wanted)


def test_dense_generator() -> None:
    made = DenseGenerator(TASKS, 3, [(3, 5), (5, 1)], 4, seeded())
    encoding = torch.randn(TASKS, 3, generator=seeded(3))
    for layer, ((rows, columns), logits) in enumerate(zip([(3, 5), (5, 1)], made(encoding), strict=True)):
        for i in range(TASKS):
            context = torch.cat([torch.eye(TASKS)[i], encoding[i]])
            z = torch.relu(context @ made.weight + made.bias) @ made.heads[layer] + made.offsets[layer]
            assert torch.allclose(logits[i], z.view(rows, columns))


def test_sizes_of_the_generators() -> None:
    """Of the actor on MT10: the lowrank generator is a fifteenth of the dense one."""
    shapes = [(39, 400), (400, 400), (400, 400), (400, 8)]
    lowrank = LowRankGenerator(10, 256, shapes, 256, 8, seeded())
    count = sum(p.numel() for p in lowrank.parameters())
    assert 5.5e6 + 338_800 < count < 5.9e6 + 338_800


def test_tasks_begin_with_different_masks_that_overlap() -> None:
    for made in (
        LowRankGenerator(TASKS, 8, [(60, 60)], 64, 8, seeded()),
        DenseGenerator(TASKS, 8, [(60, 60)], 64, seeded()),
    ):
        masks = [binarise(logits, 0.8).hard for logits in made(torch.zeros(TASKS, 8))]
        alike = hamming(masks, 0.8)[~torch.eye(TASKS, dtype=torch.bool)]
        assert (alike > 0.1).all()
        assert (alike < 0.9).all()


# ---- encoder


def test_encoder_is_a_bidirectional_lstm_with_a_mean_over_valid_time() -> None:
    latent, lengths = 3, [4, 1, 6]
    encoder = TrajectoryEncoder(OBS, latent, seeded())
    states = torch.randn(3, 6, OBS, generator=seeded(1))
    out = encoder(states, torch.tensor(lengths))

    def run(x: Tensor, suffix: str) -> list[Tensor]:
        w, r, bi, bh = (
            getattr(encoder.lstm, f"{n}_l0{suffix}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = c = torch.zeros(latent)
        outs = []
        for row in x:
            i, f, g, o = (w @ row + bi + r @ h + bh).chunk(4)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        return outs

    for n, length in enumerate(lengths):
        there = run(states[n, :length], "")
        back = run(states[n, :length].flip(0), "_reverse")[::-1]
        each = [encoder.out.weight @ torch.cat([a, b]) + encoder.out.bias for a, b in zip(there, back, strict=True)]
        assert torch.allclose(out[n], torch.stack(each).mean(0))
    noise = states.clone()
    noise[0, 4:] = noise[1, 1:] = 99.0
    assert torch.equal(encoder(noise, torch.tensor(lengths)), out)


# ---- similarities


def random_masks(ratio: float = 0.7) -> list[Tensor]:
    return [binarise(torch.randn(TASKS, *s, generator=seeded(s[0])), ratio).hard for s in ((6, 9), (9, 9), (9, 2))]


def test_hamming_and_jaccard() -> None:
    masks = random_masks()
    one, two = hamming(masks, 0.7), jaccard(masks)
    for i in range(TASKS):
        for j in range(TASKS):
            pairs = [(m[i].flatten().tolist(), m[j].flatten().tolist()) for m in masks]
            d = np.mean([np.mean([a != b for a, b in zip(x, y, strict=True)]) for x, y in pairs])
            assert float(one[i, j]) == pytest.approx(1 - d / (2 * 0.7 * 0.3))
            shares = [np.minimum(x, y).sum() / np.maximum(x, y).sum() for x, y in pairs]
            assert float(two[i, j]) == pytest.approx(np.mean(shares))
    assert torch.allclose(one.diagonal(), torch.ones(TASKS))
    big = [binarise(torch.randn(2, 400, 400, generator=seeded()), 0.8).hard]
    assert abs(float(hamming(big, 0.8)[0, 1])) < 0.02  # independent masks


def test_trajectory_similarity_and_loss() -> None:
    f = torch.randn(4, 5, generator=seeded())
    alike = trajectory_similarity(f)
    d = [[float((f[i] - f[j]).norm()) for j in range(4)] for i in range(4)]
    middle = float(np.median([d[i][j] for i in range(4) for j in range(i + 1, 4)]))
    for i in range(4):
        for j in range(4):
            assert float(alike[i, j]) == pytest.approx(math.exp(-((d[i][j] / middle) ** 2)))
    masks = torch.randn(4, 4, generator=seeded(1), requires_grad=True)
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    wanted = np.mean([(float(masks[i, j]) - float(alike[i, j])) ** 2 for i, j in pairs])
    assert float(similarity_loss(masks, alike)) == pytest.approx(wanted)
    some = torch.tensor([1.0, 0.0, 1.0, 1.0])
    wanted = np.mean([(float(masks[i, j]) - float(alike[i, j])) ** 2 for i, j in pairs if 1 not in (i, j)])
    assert float(similarity_loss(masks, alike, some)) == pytest.approx(wanted)
    assert float(similarity_loss(masks, alike, torch.zeros(4))) == 0
    same = trajectory_similarity(torch.ones(3, 5))
    assert torch.equal(same, torch.ones(3, 3))  # no distance at all, and nothing breaks
