"""Pictures to numbers and back: the convolutions of SAC+AE and its successors (Yarats et al. 2019).

Convolutions of 3x3 without padding, the first with stride 2; the decoder is their mirror image. All numbers of a pixel
lie side by side in memory (channels last), and features are in that order: nearly twice as fast as planes of channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from medley.errors import ConfigError
from medley.nn.stacked import StackedLinear, in_full, init_orthogonal
from medley.nn.trunks import flat_rows


def sides(size: int, layers: int) -> list[int]:
    """The side of the picture after each layer."""
    out = [(size - 3) // 2 + 1]
    for _ in range(layers - 1):
        out.append(out[-1] - 2)
    if out[-1] < 1:
        raise ConfigError(
            f"pictures of {size}x{size} are too small for {layers} convolutions: use fewer, or larger ones."
        )
    return out


class Convs(nn.Module):
    """Pictures [T, b, C, H, W], uint8 or by `pixels`, to features [T, b, F]."""

    def __init__(
        self,
        image: tuple[int, int, int],
        layers: int,
        filters: int,
        generator: torch.Generator,
        delta_orthogonal: bool = True,
        offset: float = 0.0,
    ) -> None:
        """Pixels become x / 255 - `offset`."""
        super().__init__()
        self.offset = offset
        self.reduced = False  # convolutions in bf16; pixels have no more than 8 bits
        inputs = [image[0], *[filters] * (layers - 1)]
        self.layers: Any = nn.ModuleList(nn.Conv2d(n, filters, 3, stride=1 if i else 2) for i, n in enumerate(inputs))
        for layer in self.layers:
            init_conv(layer, generator, delta_orthogonal)
        height, width = (sides(side, layers)[-1] for side in image[1:])
        self.shape = (filters, height, width)
        self.features = filters * height * width

    def per_task(self) -> list[str]:
        return []

    def pixels(self, pictures: Tensor) -> Tensor:
        """uint8 pictures as `forward` takes them, for whoever shows it the same ones more than once: numbers from 0 to
        255, with the channels of a pixel side by side in memory."""
        dtype = torch.bfloat16 if self.reduced else self.layers[0].weight.dtype
        return pictures.movedim(2, 4).to(dtype, memory_format=torch.contiguous_format).movedim(4, 2)

    def forward(self, pictures: Tensor) -> Tensor:
        first, *others = self.layers
        x = pictures if pictures.is_floating_point() else self.pixels(pictures)
        # The first layer takes pixels as they are: what is done to them is done to its weights.
        weight = first.weight / 255
        bias = first.bias - self.offset * first.weight.sum((1, 2, 3)) if self.offset else first.bias
        x = torch.relu(F.conv2d(x.flatten(0, 1), weight.to(x.dtype), bias.to(x.dtype), first.stride))
        for layer in others:
            x = torch.relu(_convolved(layer, x))
        return in_full(x.movedim(1, 3).reshape(*pictures.shape[:2], -1))


class Decoder(nn.Module):
    """Latent rows [T, b, D] to pictures [T, b, C, H, W], as `quantised` makes them."""

    def __init__(
        self, image: tuple[int, int, int], layers: int, filters: int, inputs: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.reduced = False
        heights, widths = sides(image[1], layers), sides(image[2], layers)
        self.shape = (filters, heights[-1], widths[-1])
        self.first = StackedLinear((1,), inputs, filters * heights[-1] * widths[-1])
        self.layers = nn.ModuleList(nn.ConvTranspose2d(filters, filters, 3) for _ in range(layers - 1))
        # A stride of 2 forgets whether a side was even; so many rows and columns are missing then.
        missing = image[1] - (2 * heights[0] + 1), image[2] - (2 * widths[0] + 1)
        self.layers.append(nn.ConvTranspose2d(filters, image[0], 3, stride=2, output_padding=missing))
        for layer in self.layers:
            init_conv(layer, generator)
        init_orthogonal(self.first, 1.0, generator)

    def forward(self, latent: Tensor) -> Tensor:
        filters, height, width = self.shape
        x = torch.relu(self.first(flat_rows(latent))[0]).view(-1, height, width, filters).movedim(-1, 1)
        x = x.bfloat16() if self.reduced else x
        for layer in self.layers[:-1]:
            x = torch.relu(_convolved(layer, x))
        picture = in_full(_convolved(self.layers[-1], x))
        return picture.view(*latent.shape[:2], *picture.shape[1:])


def _convolved(layer: Any, x: Tensor) -> Tensor:
    """layer(x) in the precision of x; parameters keep theirs."""
    weight, bias = layer.weight.to(x.dtype), layer.bias.to(x.dtype)
    if isinstance(layer, nn.ConvTranspose2d):
        return F.conv_transpose2d(x, weight, bias, layer.stride, output_padding=layer.output_padding)
    return F.conv2d(x, weight, bias, layer.stride)


def init_conv(layer: nn.Module, generator: torch.Generator, delta_orthogonal: bool = True) -> None:
    """Zero bias and an orthogonal matrix times sqrt(2): at the centre, all else zero (delta-orthogonal, Xiao et al.
    2018), or over all taps of the kernel."""
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    with torch.no_grad():
        bias.zero_()
        if delta_orthogonal:
            centre = torch.empty(weight.shape[:2])
            nn.init.orthogonal_(centre, 2**0.5, generator=generator)
            weight.zero_()
            weight[:, :, weight.shape[2] // 2, weight.shape[3] // 2] = centre
        else:
            nn.init.orthogonal_(weight, 2**0.5, generator=generator)


def quantised(pictures: Tensor, noise: Tensor) -> Tensor:
    """What a decoder is to draw: 5 bits per pixel, made continuous by noise in [0, 1), about zero."""
    return torch.add(noise, pictures >> 3).mul_(1 / 32).sub_(0.5)


def shifted(pictures: Tensor, places: Tensor, pad: int) -> Tensor:
    """Pictures [T, b, C, H, W] moved by up to `pad` pixels, edges repeated; places [T, b, 2] in [0, 1) decide.

    All channels of a picture move together. The same as padding and cropping, by gathering alone.
    """
    height, width = pictures.shape[-2:]
    offsets = torch.floor(places * (2 * pad + 1)).long() - pad
    rows = (torch.arange(height, device=pictures.device) + offsets[..., :1]).clamp(0, height - 1)  # [T, b, H]
    columns = (torch.arange(width, device=pictures.device) + offsets[..., 1:]).clamp(0, width - 1)
    flat = pictures.flatten(0, 1).movedim(1, -1)  # [N, H, W, C]: a gather then moves whole pixels
    every = torch.arange(flat.shape[0], device=pictures.device)[:, None, None]
    moved = flat[every, rows.flatten(0, 1)[:, :, None], columns.flatten(0, 1)[:, None, :]]
    return moved.movedim(-1, 1).view(pictures.shape)
