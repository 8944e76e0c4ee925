"""Going on elsewhere in mid-answer: when a worker is lost, another one continues from prompt and tokens so far. Pure.

The next worker gets both as its prompt, is told which part is answer, and takes up text and stop strings where the lost
one left them (``Generate.resumed``). What hangs on more than the tokens cannot be taken up: such a call ends with an
error that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from control_plane.contracts.call import RoutedCall


def obstacle(call: RoutedCall, said: int) -> str:
    """What keeps this call from going on elsewhere after so many tokens, as the end of a sentence; empty where nothing
    does."""
    sampling = call.sampling
    if call.resumed + said >= sampling.max_tokens:
        return "only the end of the answer was still to come"
    if sampling.n > 1:
        return "several choices of one call cannot go on elsewhere"
    if sampling.json_object or sampling.json_schema is not None or sampling.regex is not None:
        return "an answer that follows a grammar cannot go on elsewhere"
    if sampling.presence_penalty or sampling.frequency_penalty:
        return "an answer with presence_penalty or frequency_penalty cannot go on elsewhere"
    return ""


def continued(call: RoutedCall, said: Sequence[int]) -> RoutedCall:
    """The call for the next worker, after these tokens have been delivered."""
    if not said:
        return call
    return replace(call, prompt_token_ids=[*call.prompt_token_ids, *said], resumed=call.resumed + len(said))
