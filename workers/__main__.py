"""``python -m workers --spec FILE``: run one worker, described by a JSON ``WorkerSpec``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from control_plane.contracts.worker_spec import WorkerSpec
from workers.lifecycle import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers", description="Run one InferDeck worker.")
    parser.add_argument("--spec", type=Path, required=True, help="JSON file with the worker's spec")
    path: Path = parser.parse_args().spec
    try:
        spec = WorkerSpec.load(path)
    except (OSError, ValueError, TypeError) as error:
        print(f"{path} is not a worker's spec: {error}", file=sys.stderr)
        return 2
    return run(spec)


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
