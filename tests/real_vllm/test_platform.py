"""The whole platform on real vLLM workers, by the command line and the official client."""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from tokenizers import Tokenizer

from control_plane.contracts.fleet import RequestView, WorkerPhase
from control_plane.contracts.worker_spec import start_ticks
from tests.integration.platform.rig import Platform, until

REAL = """
[gateway]
port = 0
[api]
port = 0
[[pool]]
name = "tiny"
model = "tiny-model"
replicas = 2
max_context = 1024
kv_memory = "256MiB"
dtype = "float32"
[pool.engine_args]
max_num_seqs = 16
max_num_batched_tokens = 512
"""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    shared = Platform(tmp_path_factory.mktemp("platform"), REAL, patience_s=600.0)
    shared.up()
    try:
        yield shared
        shared.note()
        shared.run("down")
        shared.nothing_left()
    finally:
        shared.end()


def client_of(platform: Platform) -> openai.OpenAI:
    key = (platform.home / "api.key").read_text().strip()
    return openai.OpenAI(base_url=f"{platform.url}/v1", api_key=key, timeout=300, max_retries=0)


def test_the_official_client_streams_an_answer_that_is_counted_right(platform: Platform) -> None:
    client = client_of(platform)
    pieces, usage = [], None
    for chunk in client.chat.completions.create(
        model="tiny-model",
        messages=[{"role": "user", "content": "Why is the sky blue?"}],
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ):
        pieces += [choice.delta.content or "" for choice in chunk.choices]
        usage = chunk.usage or usage
    assert usage is not None
    assert usage.completion_tokens == 12
    [cached] = until(lambda: list(platform.cache.glob("models/smollm2-135m-*/tokenizer.json")), "the tokenizer")
    tokenizer = Tokenizer.from_file(str(cached))
    assert len(tokenizer.encode("".join(pieces), add_special_tokens=False).ids) == 12
    prompt = "The quick brown fox jumps over the lazy dog"
    plain = client.completions.create(model="tiny-model", prompt=prompt, max_tokens=1)
    assert plain.usage is not None
    assert plain.usage.prompt_tokens == len(tokenizer.encode(prompt).ids)


def test_answers_are_held_to_json_and_to_a_schema(platform: Platform) -> None:
    """``response_format`` of the official client, through vLLM's structured outputs."""
    client = client_of(platform)
    ask: Any = [{"role": "user", "content": "Describe a cat as JSON."}]
    # No place for blanks, of which a small model makes no end.
    schema = {"enum": ["a black cat", "a tall dog"]}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "animal", "strict": True, "schema": schema}}
    answer = client.chat.completions.create(
        model="tiny-model", messages=ask, response_format=wanted, max_tokens=60, temperature=0
    )
    assert json.loads(answer.choices[0].message.content or "") in schema["enum"]
    anything: Any = {"type": "json_object"}
    stream = client.chat.completions.create(
        model="tiny-model", messages=ask, response_format=anything, max_tokens=16, temperature=0, stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text.lstrip().startswith("{")
    broken: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny-model", messages=ask, response_format=broken, max_tokens=5)
    assert client.chat.completions.create(model="tiny-model", messages=ask, max_tokens=2).choices


def test_a_model_whose_template_reads_no_tools_says_so(platform: Platform) -> None:
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with pytest.raises(openai.BadRequestError) as refused:
        client_of(platform).chat.completions.create(
            model="tiny-model", messages=[{"role": "user", "content": "hi"}], tools=[tool]
        )
    assert refused.value.param == "tools"


def test_thirty_two_streams_on_two_workers_and_every_counter_back_at_zero(platform: Platform) -> None:
    data = platform.read(
        "load", "-c", "32", "-n", "32", "--prompt-tokens", "16-48", "--output-tokens", "8-16", "--ignore-eos"
    )
    assert (data["requests"]["ok"], data["errors"]) == (32, {})
    assert data["tokens"]["output"] >= 32 * 8
    until(platform.idle, "every counter at zero", patience_s=120)
    assert all(worker.load and worker.load.finished > 4 for worker in platform.snapshot().workers)


def test_a_shared_prefix_is_found_predicted_and_quicker(platform: Platform) -> None:
    """Four system prompts, six questions to each, one after the other on two workers."""
    until(platform.idle, "every counter at zero", patience_s=120)
    client, begun = client_of(platform), time.time()
    cached: dict[int, list[int]] = {}
    for question in range(6):
        for number in range(4):
            answer = client.chat.completions.create(
                model="tiny-model",
                messages=[
                    {"role": "system", "content": f"{number}. You are a careful assistant who answers briefly. " * 30},
                    {"role": "user", "content": f"Name the number {question}."},
                ],
                max_tokens=4,
                temperature=0,
            )
            details = answer.usage.prompt_tokens_details if answer.usage is not None else None
            cached.setdefault(number, []).append(details.cached_tokens or 0 if details is not None else 0)
    assert all(not first and all(tokens > 200 for tokens in rest) for first, *rest in cached.values()), cached

    def asked() -> list[RequestView]:
        mine = [request for request in platform.snapshot().requests if request.arrival_unix >= begun]
        return mine if len(mine) == 24 and not any(request.phase.active for request in mine) else []

    requests = until(asked, "the requests")
    exact = [request for request in requests if request.predicted_cached_tokens == request.cached_tokens]
    assert len(exact) >= 0.95 * len(requests)
    assert len({request.worker_id for request in requests}) == 2
    prefill = {
        warm: statistics.median(
            stage.duration_s
            for request in requests
            if bool(request.cached_tokens) is warm
            for stage in request.stages
            if stage.name == "prefill"
        )
        for warm in (False, True)
    }
    assert prefill[True] < 0.7 * prefill[False]
    [last] = [request for request in requests if request is requests[-1]]
    told = platform.run("describe", f"request/{last.id}").stdout
    assert "believed cached" in told
    assert "blocks told by batch" in platform.run("describe", f"worker/{last.worker_id}").stdout


def test_two_tenants_with_the_same_prompt_share_nothing(platform: Platform) -> None:
    keys = [
        platform.run("key", "create", "--name", name, "--tenant", name, "--tier", "enterprise").stdout.strip()
        for name in ("acme", "bolt")
    ]
    begun, found = time.time(), list[int]()
    for key in (keys[0], keys[0], keys[1], keys[1]):
        client = openai.OpenAI(base_url=f"{platform.url}/v1", api_key=key, timeout=300, max_retries=0)
        answer = client.completions.create(
            model="tiny-model", prompt="The same prompt of both. " * 60, max_tokens=2, temperature=0
        )
        details = answer.usage.prompt_tokens_details if answer.usage is not None else None
        found.append(details.cached_tokens or 0 if details is not None else 0)
    assert [tokens > 0 for tokens in found] == [False, True, False, True]

    def asked() -> list[RequestView]:
        mine = [request for request in platform.snapshot().requests if request.arrival_unix >= begun]
        return mine if len(mine) == 4 and not any(request.phase.active for request in mine) else []

    requests = sorted(until(asked, "the requests"), key=lambda request: request.arrival_unix)
    assert [request.predicted_cached_tokens for request in requests] == found


def test_seeded_calls_whose_prompts_come_in_chunks_harm_nobody(platform: Platform) -> None:
    """Eight prompts of some hundred tokens do not fit a step of 512."""
    before = {worker.id: worker.restarts for worker in platform.snapshot().workers}
    client = client_of(platform)
    prompt = "The quick brown fox jumps over the lazy dog. " * 40

    def ask(number: int) -> str:
        answer = client.completions.create(model="tiny-model", prompt=f"{number}. {prompt}", max_tokens=4, seed=7)
        return answer.choices[0].text

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert len(answers) == 8
    assert ask(0) == ask(0)
    assert {worker.id: worker.restarts for worker in platform.snapshot().workers} == before


def test_streams_go_on_when_an_engine_is_killed_and_the_worker_is_back_by_itself(platform: Platform) -> None:
    """Eight greedy streams on two workers: what is lost with one of them goes on at the other, with the same words."""
    ask = {"max_tokens": 120, "ignore_eos": True, "temperature": 0.0}
    prompts = [f"Tell a long story about the number {number}." for number in range(8)]
    undisturbed = [platform.stream(prompt, **ask) for prompt in prompts]
    texts = [stream.wait(300).text for stream in undisturbed]
    assert all(stream.complete for stream in undisturbed)
    streams = [platform.stream(prompt, **ask) for prompt in prompts]
    assert all(stream.first.wait(300) for stream in streams)
    victim = next(worker for worker in platform.snapshot().workers if worker.in_flight)
    assert victim.engine_pid
    before = {worker.id: worker.info.instance_id for worker in platform.snapshot().workers if worker.info}
    os.kill(victim.engine_pid, signal.SIGKILL)
    assert [stream.wait(300).text for stream in streams] == texts
    assert all(stream.complete for stream in streams), [stream.error_code for stream in streams]
    assert any(request.retries for request in platform.snapshot().requests)

    def back() -> bool:
        [worker] = [each for each in platform.snapshot().workers if each.id == victim.id]
        is_new = worker.info is not None and worker.info.instance_id != before[victim.id]
        return is_new and worker.phase is WorkerPhase.READY

    until(back, "the worker is back", patience_s=300)
    until(lambda: not start_ticks(victim.pid), "the end of the old worker")
    assert platform.ask("hi", max_tokens=2).status_code == 200
    platform.note()


def test_a_cancel_frees_the_blocks_of_the_real_engine(platform: Platform) -> None:
    """C02 and C04, on real vLLM."""
    until(platform.idle, "every counter at zero", patience_s=120)
    stream = platform.stream("Count from one to a thousand. " * 20, max_tokens=800, ignore_eos=True)
    assert stream.first.wait(300)
    [request] = until(platform.active, "the request is listed")
    until(lambda: any(w.load and w.load.used_blocks > 3 for w in platform.snapshot().workers), "blocks in use")
    platform.run("cancel", request.id, "--yes")
    assert stream.wait().error_code == "request_cancelled"
    until(platform.idle, "every counter at zero")


def test_a_drain_under_load_cuts_no_stream(platform: Platform) -> None:
    streams = [platform.stream("Tell a story.", max_tokens=40) for _ in range(4)]
    assert all(stream.first.wait(300) for stream in streams)
    assert platform.run("drain", "tiny-1", "--yes", "--timeout", "10m").stdout == "worker/tiny-1 drained\n"
    assert all(stream.wait(300).complete for stream in streams)
    assert platform.run("uncordon", "tiny-1").stdout == "worker/tiny-1 uncordoned\n"


def test_steps_and_blocks_of_three_requests_that_share_a_prefix(platform: Platform) -> None:
    """Two join while the first decodes: seen in the steps, and in the block tables while all three run."""
    until(platform.idle, "every counter at zero", patience_s=120)
    platform.run("cordon", "tiny-2")
    shared = "The quick brown fox jumps over the lazy dog. " * 10  # three blocks and more
    assert "trace full" in platform.run("trace", "worker/tiny-1").stdout
    before = platform.read("trace", "worker/tiny-1")["step"]
    streams = []
    for own, tokens in (("One.", 550), ("Two. " * 120, 400), ("Three.", 400)):
        streams.append(platform.stream(shared + own, max_tokens=tokens, ignore_eos=True))
        assert streams[-1].first.wait(300)
    described = ("describe", "worker/tiny-1", "--blocks")
    with ThreadPoolExecutor() as both:  # while all three still run
        text, read = both.submit(platform.run, *described), both.submit(platform.read, *described)
    lines, data = text.result().stdout.splitlines(), read.result()
    tables = [line.split() for line in lines if line.startswith("req-")]
    assert len(tables) == 3
    assert all(int(shared_blocks) >= 3 for _, _, _, shared_blocks, *_ in tables)
    assert len({row[4] for row in tables}) == 1  # the same run of blocks, marked
    assert tables[0][4].endswith("*")
    assert any(line.startswith("shared") and "by 3" in line for line in lines)
    used, cached, free, total = (
        int(word) for word in lines[1].split("(")[0].replace("=", "+").split() if word.isdigit()
    )
    assert used + cached + free == total > 0
    assert {3} <= {each["references"] for each in data["shared"]}
    assert all(stream.wait(300).complete for stream in streams)
    until(platform.idle, "every counter at zero", patience_s=120)

    count = platform.read("trace", "worker/tiny-1")["step"] - before
    words = ("top", "worker/tiny-1", "--steps", "--from", str(before + 1), "-n", str(count))
    steps = [json.loads(line) for line in platform.run(*words, "-o", "json").stdout.splitlines()]
    assert [step["step"] for step in steps] == list(range(before + 1, before + count + 1))
    joined = {row["request_id"]: step["step"] for step in steps for row in step["rows"] if row["joined"]}
    left = {each["request_id"]: step["step"] for step in steps for each in step["finished"]}
    reasons = {each["request_id"]: each["reason"] for step in steps for each in step["finished"]}
    assert set(reasons.values()) == {"length"}
    first, second, third = joined
    assert set(joined) == set(left) == {row[0] for row in tables}
    assert joined[first] < joined[second] < joined[third] < min(left.values())
    cached_tokens = {row["request_id"]: row["cached_tokens"] for step in steps for row in step["rows"] if row["joined"]}
    assert cached_tokens[second] >= 96
    assert cached_tokens[third] >= 96
    for name, begin in joined.items():
        kinds = [row["kind"] for step in steps for row in step["rows"] if row["request_id"] == name]
        assert kinds.count("last_prefill") == 1
        assert len(kinds) == left[name] - begin + 1
        assert set(kinds[kinds.index("last_prefill") + 1 :]) == {"decode"}

    heading, *told = platform.run(*words).stdout.splitlines()
    assert heading.split()[:4] == ["STEP", "TOOK", "TOKENS", "BATCH"]
    by_step = {int(line.split()[0]): line for line in told}
    for name in joined:
        assert f"+{name} " in by_step[joined[name]]
        assert f"-{name} {reasons[name]} after" in by_step[left[name]]
    assert f"d {first}" in by_step[joined[second]]
    assert platform.run("trace", "worker/tiny-1", "every", "4").stdout.startswith("worker/tiny-1: trace every 4, step ")
    assert platform.read("trace", "worker/tiny-1", "full")["mode"] == "full"
    platform.run("uncordon", "tiny-2")


def test_a_conversation_outlives_its_worker(platform: Platform) -> None:
    """HI01: on real vLLM: two turns, a worker's death in the middle of the second, then one more; ids are exact."""
    client = client_of(platform)
    talk = client.conversations.create()
    first = client.responses.create(model="tiny-model", input="Say one.", conversation=talk.id, max_output_tokens=8)
    assert first.usage is not None
    assert first.usage.output_tokens <= 8
    key = (platform.home / "api.key").read_text().strip()
    counted = httpx.post(
        f"{platform.url}/tokenize",
        headers={"Authorization": f"Bearer {key}"},
        json={"model": "tiny-model", "messages": [{"role": "user", "content": "Say one."}]},
        trust_env=False,
    )
    assert counted.json()["count"] == first.usage.input_tokens

    received: list[str] = []

    def read_while_it_dies() -> None:
        killed = False
        for chunk in client.chat.completions.create(
            model="tiny-model",
            messages=[{"role": "user", "content": "Tell me a long story."}],
            max_tokens=400,
            stream=True,
            extra_body={"conversation": talk.id, "ignore_eos": True},
        ):
            received.append(chunk.choices[0].delta.content or "")
            if len(received) > 8 and not killed:
                # The fleet hears of a request a moment after its client does.
                [request] = until(platform.active, "the request")
                killed = True
                platform.kill(platform.worker_pids()[request.worker_id])

    read_while_it_dies()
    assert any(request.retries for request in platform.snapshot().requests)

    def ended() -> list[str]:
        items = client.conversations.items.list(talk.id, order="asc").data
        return (
            []
            if any(getattr(item, "status", "") == "in_progress" for item in items)
            else ["".join(getattr(part, "text", "") for part in getattr(item, "content", ())) for item in items]
        )

    texts = until(ended, "the end of the turn")
    assert texts[:3] == ["Say one.", first.output_text, "Tell me a long story."]
    assert texts[3] == "".join(received)
    until(lambda: all(w.phase is WorkerPhase.READY for w in platform.snapshot().workers), "both workers")
    again = client.responses.create(model="tiny-model", input="Go on.", conversation=talk.id, max_output_tokens=4)
    assert again.status in ("completed", "incomplete")
    assert len(until(ended, "the end of the last turn")) == 6
