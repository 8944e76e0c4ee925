"""Read a GGUF file: its metadata, and its tensors turned into bfloat16.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The ``gguf`` package reads the same, in ten times the
time; the tests hold both against each other. Quantisations: F32, Q8_0 and Q4_1, which is what the built-in model has.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BFloat16 = npt.NDArray[np.uint16]
"""bfloat16 values as their bit patterns; numpy has no such type."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_BLOCK = 32
_BLOCKS_PER_CHUNK = 8192


class GgufError(Exception):
    """The file is not a GGUF file that can be read here; the message says why."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor: ``shape`` is row-major (outermost first), ``offset`` counts from the start of the file."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def count(self) -> int:
        """How many elements it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class GgufFile:
    """An open GGUF file. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._bytes = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        try:
            if self._bytes[:4] != b"GGUF":
                raise GgufError(f"{path} is not a GGUF file")
            self._at = 4
            version, tensors, keys = self._scalars("IQQ")
            if version not in (2, 3):
                raise GgufError(f"{path} has GGUF version {version}; versions 2 and 3 are supported")
            self.metadata: dict[str, Any] = {self._string(): self._value(self._scalars("I")[0]) for _ in range(keys)}
            infos = [self._tensor_info() for _ in range(tensors)]
            alignment = int(self.metadata.get("general.alignment", 32))
            start = -(-self._at // alignment) * alignment
            self.tensors: tuple[GgufTensor, ...] = tuple(
                GgufTensor(name, shape, kind, start + offset) for name, shape, kind, offset in infos
            )
        except (struct.error, IndexError) as error:
            self.close()
            raise GgufError(f"{path} is cut short") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._bytes.close()
        self._file.close()

    def bfloat16(self, tensor: GgufTensor) -> BFloat16:
        """The tensor's values, rounded to nearest even, in its shape."""
        decode = {0: self._f32, 3: self._q4_1, 8: self._q8_0}.get(tensor.kind)
        if decode is None:
            raise GgufError(f"tensor {tensor.name} has quantisation {tensor.kind}; F32, Q4_1 and Q8_0 are supported")
        values = np.empty(tensor.count, np.uint16)
        decode(tensor, values)
        return values.reshape(tensor.shape)

    def _f32(self, tensor: GgufTensor, out: BFloat16) -> None:
        out[:] = _round(np.frombuffer(self._bytes, np.float32, tensor.count, tensor.offset).copy())

    def _q8_0(self, tensor: GgufTensor, out: BFloat16) -> None:
        for raw, rows in self._chunks(tensor, 2 + _BLOCK, out):
            scale = raw[:, :2].copy().view(np.float16).astype(np.float32)
            rows[:] = _round(scale * raw[:, 2:].view(np.int8))

    def _q4_1(self, tensor: GgufTensor, out: BFloat16) -> None:
        for raw, rows in self._chunks(tensor, 4 + _BLOCK // 2, out):
            scale_and_least = raw[:, :4].copy().view(np.float16).astype(np.float32)
            packed = raw[:, 4:]
            values = np.empty((len(raw), _BLOCK), np.float32)
            np.multiply(scale_and_least[:, :1], packed & 15, out=values[:, : _BLOCK // 2])
            np.multiply(scale_and_least[:, :1], packed >> 4, out=values[:, _BLOCK // 2 :])
            values += scale_and_least[:, 1:]
            rows[:] = _round(values)

    def _chunks(
        self, tensor: GgufTensor, block_bytes: int, out: BFloat16
    ) -> Iterator[tuple[npt.NDArray[np.uint8], BFloat16]]:
        """The tensor's blocks and where they go, in pieces that stay in the processor's cache."""
        blocks = tensor.count // _BLOCK
        raw = np.frombuffer(self._bytes, np.uint8, blocks * block_bytes, tensor.offset).reshape(blocks, block_bytes)
        rows = out.reshape(blocks, _BLOCK)
        for first in range(0, blocks, _BLOCKS_PER_CHUNK):
            yield raw[first : first + _BLOCKS_PER_CHUNK], rows[first : first + _BLOCKS_PER_CHUNK]

    def _scalars(self, kinds: str) -> tuple[Any, ...]:
        layout = struct.Struct("<" + kinds)
        values = layout.unpack_from(self._bytes, self._at)
        self._at += layout.size
        return values

    def _string(self) -> str:
        (size,) = self._scalars("Q")
        text = self._bytes[self._at : self._at + size]
        if len(text) < size:
            raise IndexError
        self._at += size
        return text.decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            item, count = self._scalars("IQ")
            if item in _SCALARS:
                return list(self._scalars(f"{count}{_SCALARS[item]}"))
            return [self._value(item) for _ in range(count)]
        if kind not in _SCALARS:
            raise GgufError(f"unknown value type {kind}")
        return self._scalars(_SCALARS[kind])[0]

    def _tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        (dimensions,) = self._scalars("I")
        innermost_first = self._scalars(f"{dimensions}Q")
        kind, offset = self._scalars("IQ")
        return name, tuple(reversed(innermost_first)), kind, offset


def _round(values: npt.NDArray[np.float32]) -> BFloat16:
    """float32 to bfloat16, to nearest even; overwrites ``values``."""
    bits = values.view(np.uint32)
    odd = bits >> 16
    odd &= 1
    odd += 0x7FFF
    bits += odd
    bits >>= 16
    return bits.astype(np.uint16)
