from __future__ import annotations

from dataclasses import replace
from itertools import islice

from console.load.plan import Plan, jobs
from console.load.shape import Length

PLAN = Plan("m", requests=50, prompt=Length(10, 30), output=Length(5, 9), prefixes=3, prefix_tokens=40, seed=3)


def test_the_same_seed_makes_the_same_calls_and_another_one_others() -> None:
    assert list(jobs(PLAN)) == list(jobs(PLAN))
    assert list(jobs(replace(PLAN, seed=4))) != list(jobs(PLAN))


def test_lengths_prefixes_and_count() -> None:
    made = list(jobs(PLAN))
    assert len(made) == 50
    prefixes = {job.body["messages"][0]["content"] for job in made}
    assert len(prefixes) == 3
    assert {len({p.split()[2] for p in prefixes})} <= {1, 2, 3}
    for job in made:
        system, user = job.body["messages"]
        assert (system["role"], user["role"]) == ("system", "user")
        assert 10 <= len(user["content"].split()) - 1 <= 30
        assert 5 <= job.body["max_tokens"] <= 9
        assert job.body["stream_options"] == {"include_usage": True}
    assert len({job.body["messages"][1]["content"] for job in made}) == 50


def test_no_two_calls_share_more_than_the_prefix() -> None:
    texts = [job.body["messages"][0]["content"] for job in jobs(replace(PLAN, prefixes=0))]
    assert len({text.split()[0] for text in texts}) == len(texts)


def test_plain_and_text_completions() -> None:
    [job] = jobs(replace(PLAN, requests=1, stream=False, chat=False, temperature=0.5, ignore_eos=True))
    assert job.path == "/completions"
    assert job.body["prompt"].startswith("Context ")
    assert (job.body["stream"], job.body["temperature"], job.body["ignore_eos"]) == (False, 0.5, True)
    assert {"stream_options", "seed"}.isdisjoint(job.body)


def test_keys_take_turns_and_some_clients_leave() -> None:
    made = list(jobs(replace(PLAN, keys=3, cancel=0.5, requests=200)))
    assert [job.key for job in made[:4]] == [0, 1, 2, 0]
    left = [job.leave_after for job in made if job.leave_after is not None]
    assert 70 < len(left) < 130
    assert set(left) <= {1, 2, 3, 4}


def test_without_a_count_there_is_no_end_and_a_rate_gives_start_times() -> None:
    made = list(islice(jobs(replace(PLAN, requests=0, rate=2.0, poisson=False)), 100))
    assert [job.at_s for job in made[:3]] == [0.0, 0.5, 1.0]
