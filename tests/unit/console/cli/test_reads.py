"""Reading commands: formats, exit codes, and what goes to which stream."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from control_plane.contracts.fleet import Event, Latency, RouterView, WorkerPhase
from control_plane.contracts.router_state import RoutedGateway, RouterState, SeenEndpoint
from control_plane.contracts.step import EngineStep, StepKind, StepRow
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import NOW, FakeOperator, worker

KINDS = ("workers", "requests", "models", "pools", "gateways", "events")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_as_table_wide_json_yaml_and_names(operator: FakeOperator, inferdeck: Command, kind: str) -> None:
    table, wide = inferdeck("get", kind), inferdeck("get", kind, "-o", "wide")
    assert (table.code, table.err, wide.code) == (0, "", 0)
    assert len(table.out.splitlines()) == len(wide.out.splitlines()) > 1
    data = json.loads(inferdeck("get", kind, "-o", "json").out)
    assert yaml.safe_load(inferdeck("get", kind, "-o", "yaml").out) == data
    names = inferdeck("get", kind, "-o", "name").out.splitlines()
    assert len(names) == len(data) == len(table.out.splitlines()) - 1
    assert all(name.startswith(f"{kind[:-1]}/") for name in names)


def test_routers_that_are_processes_of_their_own(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("get", "routers").err == "no routers right now\n"
    latency = Latency(60, 12, 0.21, 1.9, 400, 0.046, 0.09)
    one = RouterView("r1", 41, "127.0.0.1:9001", True, NOW - 60, NOW - 1, 3, 1, 21, latency, 83.0, 1 << 26, 4.2)
    requests = (replace(operator.state.requests[0], router_id="r1"),)
    operator.update(
        routers=(one, RouterView("r2", 0, "", False), replace(one, id="r3", draining=True)), requests=requests
    )
    table = inferdeck("get", "routers").out.splitlines()
    assert [line.split()[:2] for line in table[1:]] == [["r1", "ready"], ["r2", "not"], ["r3", "draining"]]
    assert len(json.loads(inferdeck("get", "routers", "-o", "json").out)) == 3
    assert inferdeck("get", "router/r3", "-o", "name").out == "router/r3\n"
    assert inferdeck("get", "r1", "-o", "name").out == "router/r1\n"
    described = inferdeck("describe", "router/r1").out
    assert "3 in flight · 1 queued · 21 since start" in described
    assert requests[0].id in described
    assert "endpoints:" not in described, "it does not answer"
    usable = SeenEndpoint("w1", "i1", "tiny", ready=True, connected=True, requests=3, sequences=4, tokens=950.0)
    gone = SeenEndpoint("w2", "i2", "tiny", ready=True, failures=2, kv_usage=0.5, others=1, sample_age_s=0.5)
    operator.router = RouterState(
        "r1", profile="least_load", gateways=(RoutedGateway("g1", 3),), endpoints=(usable, gone)
    )
    described = inferdeck("describe", "router/r1").out
    assert "g1 3 in flight" in described
    lines = {line.split()[0]: line.split()[1:] for line in described.splitlines() if line.startswith("  w")}
    assert lines == {
        "w1": ["usable", "3", "4", "950", "–", "–", "–", "0"],
        "w2": ["unreachable", "0", "0", "0", "1", "50%", "500", "ms", "2"],
    }
    seen = json.loads(inferdeck("describe", "router/r1", "-o", "json").out)["seen"]
    assert [endpoint["worker_id"] for endpoint in seen["endpoints"]] == ["w1", "w2"]
    assert "router r1" in inferdeck("describe", f"request/{requests[0].id}").out
    assert "r1" in inferdeck("get", "requests", "-o", "wide").out


def test_the_worker_table(operator: FakeOperator, inferdeck: Command) -> None:
    heading, first, second = inferdeck("get", "workers").out.splitlines()
    assert heading.split("  ")[0] == "NAME"
    assert first.split() == (
        "smollm2-1 ready 61% 3 1 41.5 210 ms 1.90 s 46.0 ms 90.0 ms 0 5m10s".split()  # noqa: SIM905  # as it reads
    )
    assert second.split()[6:10] == ["–"] * 4


def test_what_was_not_measured_is_null_in_data(operator: FakeOperator, inferdeck: Command) -> None:
    one, two = json.loads(inferdeck("get", "workers", "-o", "json").out)
    assert one["latency"]["ttft_p50"] == 0.21
    assert two["latency"] is None
    assert one["restart_unix"] is None
    assert (one["phase"], one["info"]["state"]) == ("ready", "ready")
    queued = json.loads(inferdeck("get", "request/req-2", "-o", "json").out)
    assert (queued["ttft_s"], queued["itl_p50_s"], queued["phase"]) == (None, None, "queued")


def test_one_name_gives_one_object_and_several_a_list(operator: FakeOperator, inferdeck: Command) -> None:
    assert json.loads(inferdeck("get", "worker/smollm2-1", "-o", "json").out)["id"] == "smollm2-1"
    assert json.loads(inferdeck("get", "w", "smollm2-1", "-o", "json").out)["id"] == "smollm2-1"
    both = json.loads(inferdeck("get", "workers", "smollm2-1", "smollm2-2", "-o", "json").out)
    assert [entry["id"] for entry in both] == ["smollm2-1", "smollm2-2"]


def test_ended_requests_are_listed_on_demand(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("get", "requests", "-o", "name").out.split() == ["request/req-1", "request/req-2"]
    assert "request/req-0" in inferdeck("get", "requests", "--all", "-o", "name").out
    assert inferdeck("get", "request/req-0", "-o", "name").out == "request/req-0\n"


@pytest.mark.parametrize("output", ["table", "json"])
def test_nothing_to_list_says_so_beside_the_data(operator: FakeOperator, inferdeck: Command, output: str) -> None:
    operator.update(requests=())
    ran = inferdeck("get", "requests", "-o", output)
    assert ran.code == 0
    assert ran.out == ("[]\n" if output == "json" else "")
    assert ran.err == ("" if output == "json" else "no requests right now\n")


def test_a_lost_worker_shows_no_figures_and_why(operator: FakeOperator, inferdeck: Command) -> None:
    operator.update(workers=(worker("w1", phase=WorkerPhase.LOST, reason="no heartbeat for 8 s"),))
    line = inferdeck("get", "workers").out.splitlines()[1]
    assert line.split()[1:5] == ["lost", "–", "–", "–"]
    assert line.endswith("no heartbeat for 8 s")
    failed = worker("w1", phase=WorkerPhase.FAILED, reason="exit 70", restart_unix=NOW + 4, cordoned=True)
    operator.update(workers=(failed,))
    line = inferdeck("get", "workers").out.splitlines()[1]
    assert "failed,cordoned" in line
    assert line.endswith("exit 70; restart in 4s")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("get", "wokers"), 2, "no such type: wokers; did you mean workers?"),
        (("get",), 2, "which type? There are workers"),
        (("get", "worker/smollm-1"), 3, "no worker named smollm-1; did you mean smollm2-1?"),
        (("get", "worker/", "x"), 2, "worker/ is not TYPE/NAME"),
        (("get", "pods/x"), 2, "no such type: pods"),
        (("describe", "workers"), 2, "which worker?"),
        (("describe", "request/req-9"), 3, "no request named req-9; did you mean req-"),
        (("logs", "smollm-2"), 3, "no log named smollm-2; did you mean smollm2-"),
        (("logs", "pool/smollm2"), 2, "pool/smollm2 has no log"),
        (("wait", "worker/smollm2-1", "--for", "redy"), 2, "--for redy; did you mean ready?"),
        (("wait", "worker/nope"), 3, "no worker named nope"),
        (("wait", "workers"), 2, "which worker?"),
        (("wait", "worker/smollm2-1", "--timeout", "soon"), 2, "--timeout: 'soon' is not a duration"),
        (("gte", "workers"), 2, "no such command 'gte'. Did you mean 'get'"),
        (("get", "workers", "--outptu", "json"), 2, "no such option: --outptu"),
        (("get", "workers", "-o", "jsn"), 2, "'jsn' is not one of"),
    ],
)
def test_what_is_wrong_is_told_in_a_line_with_the_nearest_right_thing(
    operator: FakeOperator, inferdeck: Command, words: tuple[str, ...], code: int, message: str
) -> None:
    ran = inferdeck(*words)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: ")
    assert message in ran.err.splitlines()[0]
    assert len(ran.err.splitlines()) <= 2


def test_no_platform_is_exit_6_with_the_command_that_helps(inferdeck: Command, home: Any) -> None:
    for words in (("get", "workers"), ("describe", "worker/x"), ("top",), ("events",), ("cordon", "x"), ("chat", "hi")):
        ran = inferdeck(*words)
        assert (ran.code, ran.out) == (6, "")
        assert ran.err == f"error: no platform is running in {home}\nhint: inferdeck up --home {home}\n"


def test_a_server_that_is_not_there_is_exit_6(inferdeck: Command) -> None:
    ran = inferdeck("get", "workers", "--server", "127.0.0.1:1", "-o", "json")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("error: cannot reach the control plane at 127.0.0.1:1: connection refused")


def test_a_wrong_or_missing_operator_key_is_exit_4(operator: FakeOperator, inferdeck: Command, home: Any) -> None:
    (home / "other.key").write_text("op-inferdeck-other")
    assert inferdeck("get", "workers", "--operator-key-file", str(home / "other.key")).code == 4
    (home / "operator.key").unlink()
    ran = inferdeck("get", "workers")
    assert ran.code == 4
    assert "no key can be read from" in ran.err


def test_describe_a_worker(operator: FakeOperator, inferdeck: Command) -> None:
    text = inferdeck("describe", "worker/smollm2-1").out
    for part in (
        "status      ready for 1m40s", "111 of 182 blocks of 32 tokens", "vllm 0.32.0 on cpu · loaded in 3.40 s",
        "p50 210 ms · p99 1.90 s · 12 requests in 1m00s", "74% cached", "requests:", "req-1", "loaded in 3.4 s",
    ):  # fmt: skip
        assert part in text
    data = json.loads(inferdeck("describe", "worker/smollm2-1", "-o", "json").out)
    assert [entry["id"] for entry in data["requests"]] == ["req-1"]
    assert [entry["kind"] for entry in data["events"]] == ["worker_ready"]


def test_describe_a_request_with_its_waterfall(operator: FakeOperator, inferdeck: Command) -> None:
    text = inferdeck("describe", "request/req-1").out
    assert "388 prompt (0 cached) · 143 of ≤256 out" in text
    stages = [line.split()[0] for line in text.splitlines() if "│" in line]
    assert stages == ["auth", "tokenise", "queue", "prefill", "decode"]


@pytest.mark.parametrize("name", ["smollm2-1", "req-1", "chatcmpl-req-1", "g1"])
def test_a_name_of_one_type_only_needs_no_type(operator: FakeOperator, inferdeck: Command, name: str) -> None:
    ran = inferdeck("describe", name)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0].split()[1] == name.removeprefix("chatcmpl-")


def test_a_request_tells_what_its_engine_did(operator: FakeOperator, inferdeck: Command) -> None:
    decode = StepRow("req-1", StepKind.DECODE, 1, 388, 388)
    prefill = StepRow("req-1", StepKind.LAST_PREFILL, 388, 0, 388, joined=True)
    operator.steps = (EngineStep(7, NOW, 0.0, 0.2, 388, (prefill,)), EngineStep(8, NOW, 0.0, 0.05, 1, (decode,)))
    text = inferdeck("describe", "request/req-1").out
    assert "1 step: 388 tokens" in text
    assert "1 step of 50.0 ms (median), in a batch of 1" in text
    assert "141 steps of it not traced, or no longer kept" in text
    assert "last prefill" in inferdeck("describe", "request/req-1", "--steps").out
    spans = json.loads(inferdeck("describe", "request/req-1", "-o", "json").out)["spans"]
    assert [span["attributes"]["step"] for span in spans if span["name"] == "step"] == ["7", "8"]


@pytest.mark.parametrize("reference", ["pool/smollm2", "model/smollm2-135m", "gateway/g1", "event/1"])
def test_describe_the_others(operator: FakeOperator, inferdeck: Command, reference: str) -> None:
    ran = inferdeck("describe", reference)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0].split() == reference.split("/")


def test_top_sums_the_fleet(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("top")
    assert ran.out.splitlines()[0] == "2 of 2 workers ready · 6 running · 2 waiting · 0 queued · KV 61% · 83.0 tok/s"
    data = json.loads(inferdeck("top", "-o", "json").out)
    assert data["totals"]["running"] == 6
    operator.update(workers=(replace(operator.state.workers[0], load=None),))
    assert json.loads(inferdeck("top", "-o", "json").out)["totals"]["kv_usage"] is None


def test_live_top_is_one_document_a_line(operator: FakeOperator, inferdeck: Command) -> None:
    operator.ended.set()
    [line] = inferdeck("top", "--live", "-o", "json").out.splitlines()
    assert json.loads(line)["totals"]["workers_ready"] == 2


def test_events_since_and_as_lines(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("events").out.splitlines()[1].endswith("warning  worker/smollm2-2    no heartbeat for 3 s")
    assert [e["seq"] for e in json.loads(inferdeck("events", "--since", "1", "-o", "json").out)] == [2]
    followed = inferdeck("events", "-f", "-o", "json").out.splitlines()
    assert [json.loads(line)["seq"] for line in followed] == [1, 2]


def test_wait_returns_when_it_is_so(operator: FakeOperator, inferdeck: Command) -> None:
    assert inferdeck("wait", "worker/smollm2-1").out == "worker/smollm2-1 ready\n"
    assert inferdeck("wait", "pool/smollm2").code == 0
    assert inferdeck("wait", "model/smollm2-135m").code == 0
    assert inferdeck("wait", "gateway/g1", "--for", "ready").code == 0
    assert inferdeck("wait", "request/req-0").out == "request/req-0 ended\n"
    assert inferdeck("wait", "worker/nope", "--for", "gone").code == 0


def test_wait_gives_up_with_5(operator: FakeOperator, inferdeck: Command) -> None:
    ran = inferdeck("wait", "worker/smollm2-1", "--for", "drained", "--timeout", "0.2s")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("error: worker/smollm2-1 is not drained after 0.2s")


def test_logs_are_readable_raw_or_data(operator: FakeOperator, inferdeck: Command) -> None:
    record = {
        "time": "2026-01-01T00:00:00.000Z", "level": "error", "component": "worker", "logger": "x", "pid": 1,
        "message": "the engine \x1b[31mdied", "cause": "out of memory", "exception": "Trace\n  line",
    }  # fmt: skip
    operator.log = b"raw \x1b[2J \xff line\n" + json.dumps(record).encode() + b"\nlast without end"
    lines = inferdeck("logs", "worker/smollm2-1").out.splitlines()
    assert lines[0] == "raw \\x1b[2J \\xff line"
    assert lines[1][8:] == ' ERROR   the engine \\x1b[31mdied  cause="out of memory"'
    assert lines[2:] == ["    Trace", "      line", "last without end"]
    assert inferdeck("logs", "smollm2-1", "-o", "wide").out.splitlines()[1] == json.dumps(record)
    data = [json.loads(line) for line in inferdeck("logs", "smollm2-1", "--tail", "2", "-o", "json").out.splitlines()]
    assert [entry["message"] for entry in data] == ["the engine \x1b[31mdied", "last without end"]
    assert data[0]["cause"] == "out of memory"


def test_logs_of_a_platform_that_is_down_come_from_its_files(inferdeck: Command, home: Any) -> None:
    (home / "logs").mkdir()
    (home / "logs" / "worker-w1.log").write_text("1\n2\n3\n")
    ran = inferdeck("logs", "w1", "--tail", "2")
    assert (ran.code, ran.out) == (0, "2\n3\n")
    assert "reading what it left" in ran.err
    assert inferdeck("logs", "w2").code == 3


def test_key_says_where_and_reveals_only_on_demand(inferdeck: Command, home: Any) -> None:
    secret = (home / "api.key").read_text().strip()
    ran = inferdeck("key")
    assert str(home / "api.key") in ran.out
    assert secret not in ran.out + ran.err
    assert inferdeck("key", "--reveal").out == f"{secret}\n"
    (home / "api.key").unlink()
    (home / "operator.key").unlink()
    assert inferdeck("key").code == 3


def test_version(inferdeck: Command) -> None:
    assert json.loads(inferdeck("version", "-o", "json").out)["inferdeck"] == "0.1.0"
    assert inferdeck("--version", at_home=False).out == "inferdeck 0.1.0\n"


def test_help_lists_every_command_by_purpose(inferdeck: Command) -> None:
    ran = inferdeck("--help", at_home=False)
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line.endswith(":") and line[0] != " "] == [
        "Options:", "Platform:", "Look:", "Operate:", "Use:",
    ]  # fmt: skip
    assert inferdeck(at_home=False).out == ran.out


@pytest.mark.parametrize(
    "words",
    [
        ("get", "worker/\udcff"),
        ("describe", "request/\udcff"),
        ("explain", "\udcff"),
        ("logs", "\udcff"),
        ("cordon", "\udcff", "--dry-run"),
        ("policy", "set", "tiers.\udcff.rpm=1", "--dry-run"),
        ("events", "--since", "9" * 25),
    ],
)
def test_words_that_no_message_can_hold_are_told_as_wrong(
    operator: FakeOperator, inferdeck: Command, words: tuple[str, ...]
) -> None:
    told = inferdeck(*words)
    assert told.code in (2, 3)
    assert told.out == ""
    assert told.err.startswith("error: ")


def test_workers_whose_figures_are_a_simulator_s_say_so(operator: FakeOperator, inferdeck: Command) -> None:
    assert "simulated" not in inferdeck("get", "workers").out + inferdeck("top").out
    real = worker("smollm2-1")
    assert real.info is not None
    made_up = replace(real, id="smollm2-2", info=replace(real.info, engine="sim"))
    operator.update(workers=(real, made_up))
    lines = inferdeck("get", "workers").out.splitlines()
    assert [line.endswith("simulated") for line in lines] == [False, False, True]
    assert inferdeck("top").out.startswith("1 of 2 simulated · ")
    operator.update(workers=(made_up,))
    assert inferdeck("top").out.startswith("simulated · ")
    assert inferdeck("top").out.splitlines()[-1].endswith("simulated")


def test_what_there_is_typed_as_a_command_leads_to_its_list(inferdeck: Command) -> None:
    for word, kind in (("wrkers", "workers"), ("workers", "workers"), ("requets", "requests"), ("key-s", "keys")):
        ran = inferdeck(word, at_home=False)
        assert (ran.code, f"did you mean get {kind}?" in ran.err) == (2, True), word
    assert "get" not in inferdeck("drian", at_home=False).err


def test_an_event_says_its_subject_once(operator: FakeOperator, inferdeck: Command) -> None:
    said = Event(9, NOW, "drained", "worker/smollm2-1", "worker/smollm2-1 is drained")
    operator.update(events=(said,))
    for words in (("events",), ("get", "events"), ("describe", "worker/smollm2-1")):
        [line] = [line for line in inferdeck(*words).out.splitlines() if "is drained" in line]
        assert "worker/smollm2-1 is" not in line
        assert line.count("worker/smollm2-1") == 1


def test_a_server_that_is_not_there_is_not_to_be_started_here(inferdeck: Command) -> None:
    ran = inferdeck("get", "workers", "--server", "127.0.0.1:1")
    assert ran.code == 6
    assert "hint: --server HOST:PORT" in ran.err
