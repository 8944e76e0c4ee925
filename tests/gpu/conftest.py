from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def gpu_count() -> int:
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False)
    return listed.stdout.count("GPU ") if listed.returncode == 0 else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here, gpus = Path(__file__).parent, gpu_count()
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.timeout(900))
            wanted = item.get_closest_marker("gpus")
            need = wanted.args[0] if wanted else 1
            if gpus < need:
                item.add_marker(pytest.mark.skip(reason=f"needs {need} NVIDIA GPUs, there are {gpus}"))
