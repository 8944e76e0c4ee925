"""Bodies of calls: valid ones with some of them changed, in what they say and in how it is written (F4)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
_SELDOM = st.sampled_from([False, False, False, True])

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, 10**30, -(10**30)]),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["", "assistant", "text", "<|im_end|>", "\x00", "é😀", "json_object", "auto", "none"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_NAMES = """
    model messages prompt temperature top_p top_k min_p n stop seed max_tokens max_completion_tokens logprobs
    top_logprobs logit_bias stream stream_options presence_penalty frequency_penalty response_format user tools
    tool_choice parallel_tool_calls functions chat_template chat_template_kwargs echo suffix best_of stop_token_ids
    min_tokens ignore_eos repetition_penalty metadata store role content name safety_identifier service_tier
"""
NAMES = st.sampled_from(_NAMES.split())
PARTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=5)}) | VALUES, max_size=2)
FUNCTION = st.fixed_dictionaries(
    {"name": st.sampled_from(["f", "a b"]) | SCALARS},
    optional={
        "parameters": st.just({"type": "object"}) | VALUES,
        "description": SCALARS,
        "arguments": st.sampled_from(["{}", '{"a":[1]}', "[", ""]) | SCALARS,
    },
)
TOOLS = st.lists(
    st.fixed_dictionaries({"type": st.just("function"), "function": FUNCTION}, optional={"id": SCALARS}) | VALUES,
    max_size=2,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool", "developer"]) | SCALARS,
            "content": st.text(max_size=10) | PARTS | VALUES,
        },
        optional={"name": SCALARS, "tool_calls": TOOLS, "tool_call_id": SCALARS, "x": VALUES},
    ),
    max_size=3,
)
FORMATS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "json_object", "json_schema"])},
    optional={"json_schema": st.fixed_dictionaries({"name": st.just("x"), "schema": VALUES}) | VALUES},
)
# Values that have a chance to be right.
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "messages": MESSAGES,
    "tools": TOOLS,
    "response_format": FORMATS,
    "n": st.integers(0, 9),
    "max_tokens": st.integers(0, 40),
    "temperature": st.floats(0, 2),
    "stop": st.text(max_size=2) | st.lists(st.text(max_size=2), max_size=5),
    "logprobs": st.booleans() | st.integers(0, 21),
    "top_logprobs": st.integers(0, 21),
    "logit_bias": st.dictionaries(st.sampled_from(["5", "7", "99999999", "x"]), st.floats(-101, 101), max_size=2),
    "stream": st.booleans(),
    "stream_options": st.dictionaries(st.sampled_from(["include_usage", "x"]), st.booleans(), max_size=2),
}


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SOUND_MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
            "content": _TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": _TEXT}), min_size=1),
        }
    ),
    min_size=1,
    max_size=4,
)
SOUND_PROMPTS = _TEXT.filter(bool) | st.lists(st.integers(0, 200), min_size=1, max_size=9)
SOUND: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(1, 3),
    "max_tokens": st.integers(1, 40),
    "temperature": st.floats(0, 2) | st.sampled_from([0, -0.0, 2]),
    "top_p": st.floats(0.01, 1),
    "top_k": st.integers(-1, 50),
    "min_p": st.floats(0, 1),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "stop": st.none() | _TEXT.filter(bool) | st.lists(_TEXT.filter(bool), max_size=4),
    "logit_bias": st.dictionaries(st.sampled_from(["5", "07", "200"]), st.floats(-100, 100), max_size=2),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.integers(-2, 2),
    "repetition_penalty": st.floats(0.1, 10),
    "response_format": st.sampled_from([{"type": "text"}, None]),
    "stream": st.booleans(),
    "ignore_eos": st.booleans(),
    "stop_token_ids": st.lists(st.integers(0, 200), max_size=3),
    "user": _TEXT,
    "metadata": st.just({}),
    "store": st.none() | st.just(False),
    "tools": st.just([]),
}
SOUND_NAMES = st.sampled_from(sorted(SOUND))


def _changed(draw: st.DrawFn, text: str) -> bytes:
    change = draw(
        st.sampled_from(
            ["none"] * 6 + ["twice", "cut", "deep", "surrogate", "noise", "numbers", "encoding", "trailing"]
        )
    )
    if change == "twice":
        text = text[:-1] + f',"{draw(NAMES)}":{json.dumps(draw(SCALARS))}' + "}"
    elif change == "cut":
        text = text[: draw(st.integers(0, len(text)))]
    elif change == "deep":
        depth = draw(st.integers(1, 3000))
        text = text[:-1] + ',"user":' + "[" * depth + "]" * depth + "}"
    elif change == "surrogate":
        text = text.replace("hello", draw(st.sampled_from(["\\ud800", "\\udc00x", "\\ud83d\\ude00", "\\u0000"])))
    elif change == "numbers":
        number = draw(st.sampled_from(["1e400", "-0", "-0.0", "NaN", "-Infinity", "1" * 5000, "01", "1.", "0x1", "+1"]))
        text = text[:-1] + f',"{draw(NAMES)}":{number}' + "}"
    elif change == "trailing":
        text += draw(st.sampled_from(["{}", ",", "\x00", "x", " ", "\n", "\ufeff"]))
    if change == "encoding":
        return text.encode(draw(st.sampled_from(["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])), "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    if change == "noise":
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at:]
    return data


@st.composite
def calls(draw: st.DrawFn, model: str) -> tuple[str, bytes]:
    """A path, and for it a valid body with some of it changed, as JSON text with some of that changed."""
    body: dict[str, Any] = {"model": model}
    chat = draw(st.booleans())
    if chat:
        body["messages"] = draw(MESSAGES if draw(_SELDOM) else SOUND_MESSAGES)
    else:
        body["prompt"] = draw(VALUES if draw(_SELDOM) else SOUND_PROMPTS)
    for name in draw(st.lists(SOUND_NAMES, max_size=4)):
        body[name] = draw(SOUND[name])
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        name = draw(NAMES)
        body[name] = draw(LIKELY[name] if name in LIKELY and draw(st.booleans()) else VALUES)
    return (CHAT if chat != draw(_SELDOM) else COMPLETIONS), _changed(
        draw, json.dumps(body, ensure_ascii=draw(st.booleans()))
    )
