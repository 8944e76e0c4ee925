from __future__ import annotations

import pytest

from control_plane.contracts.errors import InvalidRequest
from control_plane.gateway.prompt import chat_template
from control_plane.gateway.prompt.chat_template import ChatTemplate

HELLO = [{"role": "user", "content": "hello"}]


def render(source: str, messages: list[dict[str, str]] = HELLO, **tokens: str) -> str:
    return ChatTemplate(source, tokens).render(messages, 100_000)


def test_what_a_template_is_given() -> None:
    source = "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m['content'] }};{% endfor %}{{ tools is none }}"
    assert render(source, bos_token="<s>") == "<s>user:hello;True"
    assert render("{% if add_generation_prompt %}assistant:{% endif %}") == "assistant:"


def test_blocks_are_trimmed_as_hugging_face_trims_them() -> None:
    assert render("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc"


def test_helpers_that_templates_use() -> None:
    assert render("{{ messages[0] | tojson }}") == '{"role": "user", "content": "hello"}'
    assert render("{{ 'é<' | tojson }}") == '"é<"'
    assert len(render("{{ strftime_now('%Y-%m-%d') }}")) == 10
    assert render("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert render("{% generation %}said{% endgeneration %}") == "said"


def test_a_template_may_refuse_and_its_words_are_passed_on() -> None:
    with pytest.raises(InvalidRequest, match="roles must alternate") as caught:
        render("{{ raise_exception('roles must alternate') }}")
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[7].content }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ undefined_thing.x }}",
    ],
)
def test_a_template_that_fails_is_the_requests_problem_and_nobody_elses(source: str) -> None:
    with pytest.raises(InvalidRequest):
        render(source)


def test_a_template_that_says_too_much_is_stopped() -> None:
    """SE02."""
    with pytest.raises(InvalidRequest, match="too long"):
        ChatTemplate("{% for i in range(99999) %}xxxxxxxxxx{% endfor %}", {}).render(HELLO, 1000)


def test_a_template_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE02."""
    monkeypatch.setattr(chat_template, "RENDER_S", 0.0)
    source = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}x{% endfor %}"
    with pytest.raises(InvalidRequest, match="too long over"):
        ChatTemplate(source, {}).render(HELLO, 10**9)


def test_waiting_for_a_processor_is_not_the_messages_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = iter(range(0, 10**6, 3600))
    monkeypatch.setattr(chat_template.time, "monotonic", lambda: float(next(hours)))
    assert render("{% for i in range(9) %}x{% endfor %}") == "x" * 9


def test_a_template_that_is_none() -> None:
    with pytest.raises(ValueError, match="cannot be compiled"):
        ChatTemplate("{% for %}", {})


def test_developers_are_system_to_templates_that_do_not_know_them() -> None:
    assert ChatTemplate("{{ messages[0].role }}", {}).role("developer") == "system"
    assert ChatTemplate("{% if m == 'developer' %}{% endif %}", {}).role("developer") == "developer"
    assert ChatTemplate("x", {}).role("user") == "user"


def test_which_fields_a_template_reads() -> None:
    template = ChatTemplate("{{ messages[0].name }}{{ messages[0]['tool_call_id'] }} You are named Sam.", {})
    assert template.reads("name")
    assert template.reads("tool_call_id")
    assert not ChatTemplate("You are named Sam. {{ messages[0].content }}", {}).reads("name")
