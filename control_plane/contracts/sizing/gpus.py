"""GPUs by their published figures. Rates are dense: data sheets that count 2:4 sparsity are halved."""

from __future__ import annotations

from dataclasses import dataclass

from control_plane.contracts.errors import NotFound
from control_plane.contracts.sizing.nearest import nearest
from control_plane.contracts.sizing.number_format import Math

GIB = 1 << 30
_T = 1e12


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device.

    ``memory_bytes`` is what a program can see (``torch.cuda.mem_get_info``): less than the data sheet's, and what an
    engine takes its share of. ``bandwidth`` is of its memory, ``link`` to the other GPUs of a node in one direction,
    both in bytes a second. ``bf16``, ``fp8`` and ``int8`` are operations a second, 0 where there are no such units.
    ``pcie`` is the generation of its slot of 16 lanes.
    """

    name: str
    marketed_gb: int
    memory_bytes: int
    bandwidth: float
    bf16: float
    fp8: float
    int8: float
    link: float
    link_name: str
    source: str
    pcie: int

    def rate(self, math: Math) -> float:
        """Operations a second; what has no units of its own runs as 16-bit (weights are unpacked first)."""
        own = {Math.BF16: self.bf16, Math.FP8: self.fp8, Math.INT8: self.int8}[math]
        return own or self.bf16

    @property
    def host_link(self) -> float:
        """To the host's memory or from it, in bytes a second."""
        return _PCIE_16[self.pcie]


MEMORY_SOURCE = (
    "total capacity that PyTorch reports on these devices (CUDA out of memory: GPU 0 has a total capacity of …)"
)

_PCIE_16 = {4: 16e9 * 128 / 130 / 8 * 16, 5: 32e9 * 128 / 130 / 8 * 16}

PCIE_SOURCE = "PCI Express Base Specification 4.0 and 5.0: 16 and 32 GT/s a lane, 128b/130b coding, 16 lanes each way"

_NVIDIA = "https://www.nvidia.com/en-us/data-center"

GPUS = (
    Gpu(
        "H100", 80, round(79.15 * GIB), 3.35e12, 989.4 * _T, 1978.9 * _T, 1978.9 * _T, 450e9, "NVLink 4",
        f"{_NVIDIA}/h100 (H100 SXM5)", 5,
    ),
    Gpu(
        "H100-PCIe", 80, round(79.15 * GIB), 2.0e12, 756 * _T, 1513 * _T, 1513 * _T, 64e9, "PCIe 5",
        "NVIDIA H100 Tensor Core GPU Architecture white paper, table 2 (H100 PCIe)", 5,
    ),
    Gpu(
        "H200", 141, round(139.80 * GIB), 4.8e12, 989.4 * _T, 1978.9 * _T, 1978.9 * _T, 450e9, "NVLink 4",
        f"{_NVIDIA}/h200 (H200 SXM)", 5,
    ),
    Gpu(
        "A100-80GB", 80, round(79.15 * GIB), 2.039e12, 312 * _T, 0, 624 * _T, 300e9, "NVLink 3",
        f"{_NVIDIA}/a100 (A100 80GB SXM)", 4,
    ),
    Gpu(
        "A100-40GB", 40, round(39.49 * GIB), 1.555e12, 312 * _T, 0, 624 * _T, 300e9, "NVLink 3",
        "NVIDIA A100 Tensor Core GPU Architecture white paper, table 1 (A100 40GB SXM)", 4,
    ),
    Gpu(
        "L4", 24, round(22.03 * GIB), 300e9, 121 * _T, 242.5 * _T, 242.5 * _T, 32e9, "PCIe 4",
        f"{_NVIDIA}/l4", 4,
    ),
    Gpu(
        "L40S", 48, round(44.39 * GIB), 864e9, 362.05 * _T, 733 * _T, 733 * _T, 32e9, "PCIe 4",
        f"{_NVIDIA}/l40s", 4,
    ),
    Gpu(
        "A10G", 24, round(22.03 * GIB), 600e9, 70 * _T, 0, 140 * _T, 32e9, "PCIe 4",
        "NVIDIA A10G data sheet for AWS G5 (d1.awsstatic.com, 2022-02-17)", 4,
    ),
    Gpu(
        "B200", 180, round(178.35 * GIB), 8.0e12, 2250 * _T, 4500 * _T, 4500 * _T, 900e9, "NVLink 5",
        f"{_NVIDIA}/dgx-b200 (an eighth of a DGX B200)", 5,
    ),
    Gpu(
        "MI300X", 192, round(191.69 * GIB), 5.3e12, 1307.4 * _T, 2614.9 * _T, 2614.9 * _T, 448e9, "Infinity Fabric",
        "https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html", 5,
    ),
    Gpu(
        "RTX-4090", 24, round(23.52 * GIB), 1.008e12, 165.2 * _T, 330.3 * _T, 660.6 * _T, 32e9, "PCIe 4",
        "NVIDIA Ada GPU Architecture white paper, appendix A (GeForce RTX 4090, FP32 accumulate)", 4,
    ),
)  # fmt: skip

_OTHER_NAMES = {
    "h100-sxm": "H100",
    "h100-sxm5": "H100",
    "h100-80gb": "H100",
    "a100": "A100-80GB",
    "a100-sxm": "A100-80GB",
    "a100-80": "A100-80GB",
    "a100-40": "A100-40GB",
    "h200-sxm": "H200",
    "4090": "RTX-4090",
    "rtx4090": "RTX-4090",
    "h100pcie": "H100-PCIe",
}


def gpu_named(name: str) -> Gpu:
    """By name in any case, with spaces or dashes. Raises NotFound with the nearest names."""
    wanted = "-".join(name.strip().lower().removeprefix("nvidia").replace("_", " ").replace("-", " ").split())
    wanted = _OTHER_NAMES.get(wanted, wanted).lower()
    for gpu in GPUS:
        if gpu.name.lower() == wanted:
            return gpu
    close = nearest(name, [gpu.name for gpu in GPUS])
    raise NotFound(f"no GPU {name!r} is known here; nearest: {', '.join(close)}", param="gpu", hint=f"--gpu {close[0]}")
