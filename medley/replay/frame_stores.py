"""Where the frames of a replay are kept: on the training device, in the host's memory, compressed there, or on disk.

A store has `places` numbered places for one picture each. Only the first kind is read by operations on the device;
the others read every frame of a batch once, on the host, and send it over.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medley.errors import MedleyError

Frames = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Shape = tuple[int, int, int]  # channels, height, width
KINDS = ("memory", "host", "disk", "compressed")


class FrameStore(ABC):
    traceable = False  # whether `gather` consists of operations on the device

    def __init__(self, places: int, shape: Shape, device: torch.device) -> None:
        self.places, self.shape, self.device = places, shape, device
        self.frame_bytes = int(np.prod(shape))

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of memory it takes, of whatever kind."""

    @abstractmethod
    def write(self, places: Places, frames: Frames) -> None: ...

    @abstractmethod
    def read(self, places: Places) -> Frames:
        """The frames at these places, in the host's memory."""

    def gather(self, index: Tensor) -> Tensor:
        """The frames at [...], as [..., channels, height, width] on the device."""
        wanted, inverse = np.unique(index.cpu().numpy(), return_inverse=True)
        frames = _send(torch.from_numpy(self.read(wanted)), self.device)
        order = _send(torch.from_numpy(inverse.reshape(-1)), self.device)
        return frames.index_select(0, order).view(*index.shape, *self.shape)


class DeviceStore(FrameStore):
    """One tensor on the device."""

    traceable = True

    def __init__(self, places: int, shape: Shape, device: torch.device) -> None:
        super().__init__(places, shape, device)
        if device.type == "cpu":  # zeros of NumPy take up memory only once they are written
            self.frames = torch.from_numpy(np.zeros((places, *shape), dtype=np.uint8))
        else:
            self.frames = torch.zeros(places, *shape, dtype=torch.uint8, device=device)

    @property
    def nbytes(self) -> int:
        return self.frames.numel()

    def write(self, places: Places, frames: Frames) -> None:
        if self.device.type == "cpu":
            self.frames.numpy()[places] = frames
            return
        sent = _send(torch.from_numpy(np.ascontiguousarray(frames)), self.device)
        self.frames.index_copy_(0, _send(torch.from_numpy(places), self.device), sent)

    def read(self, places: Places) -> Frames:
        return np.asarray(self.frames[torch.from_numpy(places).to(self.device)].cpu().numpy())

    def gather(self, index: Tensor) -> Tensor:
        return self.frames.index_select(0, index.reshape(-1)).view(*index.shape, *self.shape)


class HostStore(FrameStore):
    """The host's memory, for a GPU that is too small."""

    def __init__(self, places: int, shape: Shape, device: torch.device) -> None:
        super().__init__(places, shape, device)
        self.frames = np.zeros((places, *shape), dtype=np.uint8)

    @property
    def nbytes(self) -> int:
        return self.frames.nbytes

    def write(self, places: Places, frames: Frames) -> None:
        self.frames[places] = frames

    def read(self, places: Places) -> Frames:
        return self.frames[places]


class CompressedStore(FrameStore):
    """Every frame on its own by Zstandard, as differences between neighbouring rows: about half the size."""

    THREADS = min(4, os.cpu_count() or 1)

    def __init__(self, places: int, shape: Shape, device: torch.device) -> None:
        super().__init__(places, shape, device)
        self._packed: list[bytes | None] = [None] * places
        self._bytes = 0
        self._coder = _Coder()
        self._pool = ThreadPoolExecutor(self.THREADS)

    @property
    def nbytes(self) -> int:
        return self._bytes + 48 * self.places  # an object's header and the list's pointer

    def write(self, places: Places, frames: Frames) -> None:
        rows = np.array(frames)
        rows[:, :, 1:] -= frames[:, :, :-1]
        for place, frame in zip(places.tolist(), rows, strict=True):
            packed = self._coder.pack(frame)
            old = self._packed[place]
            self._bytes += len(packed) - (0 if old is None else len(old))
            self._packed[place] = packed

    def read(self, places: Places) -> Frames:
        frames: Frames = np.zeros((len(places), *self.shape), dtype=np.uint8)
        flat, wanted = frames.reshape(len(places), self.frame_bytes), places.tolist()

        def unpack(first: int, end: int) -> None:
            coder = _Coder()  # one must not be used by two threads at a time
            for i in range(first, end):
                packed = self._packed[wanted[i]]
                if packed is not None:
                    flat[i] = np.frombuffer(coder.unpack(packed), dtype=np.uint8)
            part = frames[first:end]
            for row in range(1, self.shape[1]):
                part[:, :, row] += part[:, :, row - 1]

        cuts = np.linspace(0, len(places), self.THREADS + 1).astype(int).tolist()
        for done in [self._pool.submit(unpack, *span) for span in pairwise(cuts)]:
            done.result()
        return frames


class _Coder:
    """Level 1: higher ones gain a few percent and take half as long again."""

    def __init__(self) -> None:
        import zstandard

        self._to, self._from = zstandard.ZstdCompressor(level=1), zstandard.ZstdDecompressor()

    def pack(self, frame: Frames) -> bytes:
        # A copy: what the library gives has room for the worst case, and shrinking it leaves holes that stay empty.
        return bytes(memoryview(self._to.compress(np.ascontiguousarray(frame).data)))

    def unpack(self, packed: bytes) -> bytes:
        return bytes(self._from.decompress(packed))


class DiskStore(FrameStore):
    """A file of raw frames, read piece by piece: the system caches what memory it can spare, and the process stays
    small. The file has no name, so that nothing is left of it however the process ends."""

    THREADS = 8  # reads under way at the same time, since a disk answers each of them late

    def __init__(self, places: int, shape: Shape, device: torch.device, folder: Path) -> None:
        super().__init__(places, shape, device)
        size = places * self.frame_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  (open as long as it is used)
            if hasattr(os, "posix_fallocate"):  # a full disk is noticed here, not in the middle of a run
                os.posix_fallocate(self._file.fileno(), 0, size)
            else:  # macOS
                os.ftruncate(self._file.fileno(), size)
        except OSError as e:
            raise MedleyError(
                f"replay_buffer.frames=disk: a file of {size / 1e9:.1f} GB cannot be made in {folder}: {e.strerror}."
            ) from None
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, size, os.POSIX_FADV_RANDOM)
        self._pool = ThreadPoolExecutor(self.THREADS)

    @property
    def nbytes(self) -> int:
        return 0

    def write(self, places: Places, frames: Frames) -> None:
        for place, frame in zip(places.tolist(), frames, strict=True):
            data = np.ascontiguousarray(frame).data.cast("B")
            while data:
                written = os.pwrite(self._file.fileno(), data, (place + 1) * self.frame_bytes - len(data))
                data = data[written:]

    def read(self, places: Places) -> Frames:
        """In ascending order of places neighbours are read at once: the frames of a stack are."""
        frames: Frames = np.empty((len(places), *self.shape), dtype=np.uint8)
        if not len(places):
            return frames
        memory = frames.reshape(-1).data
        breaks = np.flatnonzero(np.diff(places) != 1) + 1
        runs = list(pairwise([0, *breaks.tolist(), len(places)]))
        first = places.tolist()

        def fetch(some: Sequence[tuple[int, int]]) -> None:
            for begin, end in some:
                self._fetch(memory[begin * self.frame_bytes : end * self.frame_bytes], first[begin] * self.frame_bytes)

        for done in [self._pool.submit(fetch, runs[i :: self.THREADS]) for i in range(self.THREADS)]:
            done.result()
        return frames

    def _fetch(self, memory: memoryview, at: int) -> None:
        while memory:
            count = os.preadv(self._file.fileno(), [memory], at)
            if not count:
                raise MedleyError("the file of replay's frames has become shorter.")
            memory, at = memory[count:], at + count


def make_store(kind: str, places: int, shape: Shape, device: torch.device, folder: Path | None) -> FrameStore:
    if kind == "disk":
        return DiskStore(places, shape, device, folder or Path(tempfile.gettempdir()))
    if kind == "compressed":
        return CompressedStore(places, shape, device)
    if kind == "host" and device.type != "cpu":
        return HostStore(places, shape, device)
    return DeviceStore(places, shape, device)  # on a CPU the host's memory is the device's


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)
