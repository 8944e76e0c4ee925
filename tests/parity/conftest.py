from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    installed = importlib.util.find_spec("vllm") is not None
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.real_vllm)
            # Seconds where the processor is free, and importing vLLM is most of them.
            item.add_marker(pytest.mark.timeout(600))
            if not installed:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed"))
