"""A GGUF file's metadata and tensors, read by the ``gguf`` package, with tensors turned into bfloat16."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, dequantize

BFloat16 = npt.NDArray[np.uint16]
"""bfloat16 values as their bit patterns; numpy has no such type."""


class GgufError(Exception):
    """The file is not a GGUF file that can be read here; the message says why."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor, still quantised: ``shape`` is row-major (outermost first)."""

    name: str
    shape: tuple[int, ...]
    source: Any

    @property
    def count(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape))

    def bfloat16(self) -> BFloat16:
        """The values, rounded to nearest even, in the tensor's shape."""
        try:
            values = dequantize(self.source.data, self.source.tensor_type)
        except NotImplementedError as error:
            raise GgufError(f"tensor {self.name} has quantisation {self.source.tensor_type.name}: {error}") from error
        return _round(np.array(values, np.float32)).reshape(self.shape)


class GgufFile:
    """A GGUF file: ``metadata`` by key, and its ``tensors`` in their order. Raises GgufError, OSError."""

    def __init__(self, path: Path) -> None:
        try:
            reader = GGUFReader(path)
            self.metadata: dict[str, Any] = {
                key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")
            }
        except (ValueError, IndexError, KeyError) as error:
            raise GgufError(f"{path} cannot be read as a GGUF file: {error}") from error
        self.tensors = tuple(
            GgufTensor(tensor.name, tuple(int(size) for size in reversed(tensor.shape)), tensor)
            for tensor in reader.tensors
        )


def _round(values: npt.NDArray[np.float32]) -> BFloat16:
    """float32 to bfloat16, to nearest even; overwrites ``values``."""
    bits = values.view(np.uint32)
    odd = bits >> 16
    odd &= 1
    odd += 0x7FFF
    bits += odd
    bits >>= 16
    return bits.astype(np.uint16)
