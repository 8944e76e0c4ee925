"""``python -m tests.fuzz [--examples N] [-k NAME]``: fuzz tests, with as many inputs as wanted.

The same tests run bounded with all others. Names are those of the cases: F1, F2, F4, F5, openapi, storm; without ``-k``
all.
"""

from __future__ import annotations

import argparse
import os
import sys

import pytest

from tests.fuzz.bounds import VARIABLE

FILES = (
    "tests/integration/gateway/test_fuzz.py",
    "tests/integration/gateway/test_fuzz_platform.py",
    "tests/integration/router/test_storm.py",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=100_000, help="inputs for each test (default: 100,000)")
    parser.add_argument("-k", dest="name", default="", help="only tests of this name")
    arguments = parser.parse_args()
    os.environ[VARIABLE] = str(arguments.examples)
    # What is logged would be kept for a report: hundreds of megabytes for the garbage collector to walk through.
    options = [
        "-q",
        "-s",
        "-n",
        "0",
        "-p",
        "no:logging",
        "--timeout=0",
        "--durations=0",
        "--hypothesis-show-statistics",
    ]
    return int(pytest.main([*FILES, *options, *(["-k", arguments.name] if arguments.name else [])]))


if __name__ == "__main__":
    sys.exit(main())
