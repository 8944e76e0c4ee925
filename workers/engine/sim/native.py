"""Words for the compiler that the simulator's core may be built with; Python itself makes nothing of them.

``i64``: an integer of the machine, 64 bits wide. What is one has to fit, compiled or not. ``open_class``: tests derive
from it in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64 as i64
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    i64 = int

    def mypyc_attr(**_words):
        return lambda thing: thing
