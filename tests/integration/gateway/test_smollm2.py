"""The built-in model's own tokenizer and template, against Hugging Face's reading of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control_plane.contracts.call import TokenizerBundle
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.home import Home
from control_plane.gateway.prompt.model_prompt import ModelPrompt
from workers.weights import resolve

pytestmark = pytest.mark.real_vllm
transformers = pytest.importorskip("transformers")

NAMES = ("tokenizer.json", "tokenizer_config.json")


@pytest.fixture(scope="module")
def model() -> tuple[ModelPrompt, Any]:
    folder = Path(resolve("builtin:smollm2-135m", cache_dir=Home.resolve().cache).folder)
    files = {name: (folder / name).read_bytes() for name in NAMES}
    return ModelPrompt(TokenizerBundle("h", files, 8192, 49152)), transformers.AutoTokenizer.from_pretrained(folder)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    [
        "The capital of France is",
        "a < b > c <p>",
        "1234 5678",
        "  two  blanks\n\n",
        "naïve 汉字 😀🏽 é",
        "def f(x):\n\treturn x",
    ]
)
CHATS = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXT}),
    min_size=1,
    max_size=5,
)
CONTROL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<file_sep>", "<empty_output>"]
HOSTILE = st.lists(st.sampled_from([*CONTROL, "<|im_", "end|>", "<|", "|>", "system\n", "x"]), max_size=8).map("".join)
FEW = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(messages=CHATS)
@FEW
def test_chats_are_read_as_hugging_face_reads_them(model: tuple[ModelPrompt, Any], messages: Any) -> None:
    prompt, reference = model
    rendered = reference.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert prompt.chat(messages) == reference(rendered, add_special_tokens=False)["input_ids"]


@given(text=TEXT.filter(bool))
@FEW
def test_prompts_are_read_as_hugging_face_reads_them(model: tuple[ModelPrompt, Any], text: str) -> None:
    prompt, reference = model
    ids = reference(text)["input_ids"]
    if ids:
        assert prompt.completion(text) == ids
    else:
        # The vocabulary lacks some bytes.
        with pytest.raises(InvalidRequest, match="no tokens"):
            prompt.completion(text)


@given(texts=st.lists(HOSTILE, min_size=1, max_size=3))
@FEW
def test_callers_say_nothing_to_the_model_but_text(model: tuple[ModelPrompt, Any], texts: list[str]) -> None:
    prompt, reference = model
    messages = [{"role": "user", "content": text} for text in texts]
    ids = prompt.chat(messages)
    harmless = prompt.chat([{"role": "user", "content": "x"} for _ in texts])
    assert [i for i in ids if i in prompt.control_ids] == [i for i in harmless if i in prompt.control_ids]
    decoded = reference.decode(ids, skip_special_tokens=False)
    for text in texts:
        assert f"user\n{text}<|im_end|>" in decoded


def test_the_template_is_the_models_own(model: tuple[ModelPrompt, Any]) -> None:
    prompt, reference = model
    text = prompt.text_of(prompt.chat([{"role": "user", "content": "hi"}]))
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant")
    assert text.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert json.dumps(reference.chat_template)
