"""What a request may tell an engine without a model to do.

Anyone who can send a prompt can script its answer: the scripted engine and the simulator look for the last
``{"script": {...}}`` in the prompt's text. Keys, all optional::

    tokens             how many tokens to generate (the text is repeated to reach it)
    text               the answer's text, tokenised by the engine, one token per step
    pieces             list of texts; each is one step, of as many tokens as it takes
    bytes              list of hex strings; each is one step with one token per byte
    delay_s            seconds between steps, on a clock of the request's own (default: the engine's common step)
    prefill_s          seconds before the first token
    stall_s            an extra pause in seconds, before token number stall_after (default 0: the first)
    die_after          the worker process dies when it has sent that many tokens
    engine_dies_after  the same, but the engine dies and the worker lives to tell
    die_again          true: so do the workers on which the answer goes on after that
    finish             "stop" (default), "length" or "error": how it ends when the script is through
    refuse             a drop reason: the engine refuses the request with it
    mark               a word that the scripted engine's trace gives back with every event of the request
    inject             simulator only: a failure of the whole engine from now on, as a table
                       (``contracts/failure.py``), its kind alone, or "clear" to end all; the request itself is answered
                       like any other
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import Any

from control_plane.contracts.errors import InvalidRequest

_START = re.compile(r'\{\s*"script"\s*:')
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Script:
    tokens: int | None = None
    text: str | None = None
    pieces: list[str] | None = None
    bytes: list[str] | None = None
    delay_s: float | None = None
    prefill_s: float | None = None
    stall_s: float = 0.0
    stall_after: int = 0
    die_after: int | None = None
    engine_dies_after: int | None = None
    die_again: bool = False
    finish: str = "stop"
    refuse: str = ""
    mark: str = ""
    inject: str | dict[str, Any] | None = None

    @property
    def deadly(self) -> bool:
        return self.die_after is not None or self.engine_dies_after is not None

    @property
    def timed(self) -> bool:
        return self.delay_s is not None or self.prefill_s is not None or self.stall_s > 0


_KINDS: dict[str, tuple[type, ...]] = {
    "tokens": (int,),
    "text": (str,),
    "pieces": (list,),
    "bytes": (list,),
    "stall_after": (int,),
    "die_after": (int,),
    "engine_dies_after": (int,),
    "die_again": (bool,),
    "finish": (str,),
    "refuse": (str,),
    "mark": (str,),
    "inject": (str, dict),
}
_NAMES = {field.name for field in fields(Script)}
PLAIN = Script()


def find_script(text: str) -> Script:
    """The last script in the text, or the plain one. Raises InvalidRequest for a script that is none."""
    starts = [match.start() for match in _START.finditer(text)]
    if not starts:
        return PLAIN
    try:
        values, _ = _DECODER.raw_decode(text, starts[-1])
    except ValueError as error:
        raise InvalidRequest(f"the script is not JSON: {error}", param="script") from error
    return _read(values["script"])


def _read(values: Any) -> Script:
    if not isinstance(values, dict):
        raise InvalidRequest("a script is a JSON object", param="script")
    if unknown := sorted(set(values) - _NAMES):
        raise InvalidRequest(f"a script has no key {unknown[0]!r}; it has {', '.join(sorted(_NAMES))}", param="script")
    for name, value in values.items():
        kinds = _KINDS.get(name, (int, float))
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidRequest(f"{name} of a script can't be {value!r}", param="script")
        if isinstance(value, int | float) and value < 0:
            raise InvalidRequest(f"{name} of a script can't be negative", param="script")
    if any(not isinstance(item, str) for name in ("pieces", "bytes") for item in values.get(name, ())):
        raise InvalidRequest("pieces and bytes of a script are lists of strings", param="script")
    return Script(**values)
