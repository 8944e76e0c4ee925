"""Each check on machines that are well and on some that are not."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from console.doctor import Finding, Verdict, examine, limits, machine, places, software
from console.doctor.settings import Setting, Settings, read_settings
from console.home import Home
from tests.unit.console.conftest import Command, write_state

VLLM_POOL: dict[str, Any] = {"engine": "vllm", "replicas": 2, "kv_memory": 1 << 30, "gpus": [], "model": "m"}


def test_the_settings_are_those_of_the_control_plane_with_their_sources(home: Path, tmp_path: Path) -> None:
    config = tmp_path / "deck.toml"
    config.write_text('[gateway]\nport = 7\n[[pool]]\nname = "p"\nmodel = "m"\nreplicas = 3\n')
    read = read_settings(Home(home), config)
    assert (read.error, read.path) == ("", str(config))
    assert Setting("gateway.port", 7, f"{config}:2") in read.settings
    assert read.get("api.port") == 8090
    assert [(pool["name"], pool["replicas"]) for pool in read.pools] == [("p", 3)]


def test_settings_that_are_refused_keep_the_refusal(home: Path, tmp_path: Path) -> None:
    config = tmp_path / "deck.toml"
    config.write_text("[gateway]\nprot = 7\n")
    read = read_settings(Home(home), config)
    assert read.error == f"{config}:2: gateway.prot: unknown key; did you mean port?"
    assert read.hint == f"edit {config}"
    assert read.settings == ()


def test_examine_a_machine_that_is_well(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERDECK_CACHE", str(tmp_path / "cache"))
    home.chmod(0o700)
    for path in home.glob("*.key"):
        path.chmod(0o600)
    config = tmp_path / "deck.toml"
    config.write_text('[gateway]\nport = 0\n[api]\nport = 0\n[[pool]]\nname = "p"\nmodel = "m"\nengine = "scripted"\n')
    found, settings = examine(Home(home), config, quick=True)
    names = [finding.name for finding in found]
    assert names == [
        "machine", "python", "packages", "vllm", "simulator", "gpus", "memory", "disk", "open files",
        "config", "home", "keys",
        "platform", "gateway port", "api port", "routers", "limits", "https",
        "mutual tls",
        "model cache", "model m",
    ]  # fmt: skip
    assert [finding for finding in found if finding.verdict is Verdict.FAIL] == []
    assert settings.get("gateway.port") == 0
    assert all(bool(finding.hint) == (finding.verdict is not Verdict.OK) for finding in found)


def test_where_limits_are_counted_and_whether_that_place_answers() -> None:
    assert limits.limits("", 1).verdict is Verdict.OK
    apart = limits.limits("", 3)
    assert (apart.verdict, "3 times its limits" in apart.detail) == (Verdict.WARN, True)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        closed = limits.limits(f"valkey://[redacted]@127.0.0.1:{port}/0", 2)
        assert (closed.verdict, f"127.0.0.1:{port} does not answer" in closed.detail) == (Verdict.WARN, True)
        listening.listen()
        assert limits.limits(f"redis://127.0.0.1:{port}/0", 2) == Finding(
            "limits", Verdict.OK, f"shared, in 127.0.0.1:{port}"
        )
    assert limits.limits("valkey://", 2).verdict is Verdict.FAIL


def test_the_command_exits_1_on_a_failure_and_tells_each_hint(inferdeck: Command, tmp_path: Path) -> None:
    config = tmp_path / "deck.toml"
    config.write_text("[gateway]\nprot = 7\n")
    ran = inferdeck("doctor", "--quick", "--config", str(config))
    assert ran.code == 1
    lines = ran.out.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("fail  config")]
    assert "gateway.prot: unknown key" in lines[at]
    assert lines[at + 1].strip() == f"hint: edit {config}"
    data = json.loads(inferdeck("doctor", "--quick", "--config", str(config), "-o", "json").out)
    assert {"name": "config", "verdict": "fail"}.items() <= next(
        c for c in data["checks"] if c["name"] == "config"
    ).items()


def test_a_free_port_a_taken_one_and_our_own() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = holder.getsockname()[1]
        found = machine.port("gateway", "127.0.0.1", taken, ours=set())
        assert found.verdict is Verdict.FAIL
        assert f"is taken by process {os.getpid()}" in found.detail
        assert machine.port("gateway", "127.0.0.1", taken, ours={taken}).verdict is Verdict.OK
    assert machine.port("gateway", "127.0.0.1", taken, ours=set()).detail == f"127.0.0.1:{taken} is free"
    assert machine.port("gateway", "127.0.0.1", 0, ours=set()).detail == "any free one"
    assert machine.port("gateway", "192.0.2.1", taken, ours=set()).verdict is Verdict.FAIL


def test_memory_counts_what_cpu_workers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_available", lambda: 5 << 30)
    assert machine.memory([VLLM_POOL]).verdict is Verdict.OK
    short = machine.memory([{**VLLM_POOL, "replicas": 3}])
    assert (short.verdict, short.detail) == (Verdict.WARN, "5.0 GiB available, about 6.0 GiB wanted by 3 CPU workers")
    assert machine.memory([{**VLLM_POOL, "replicas": 9, "gpus": [0]}]).verdict is Verdict.OK
    monkeypatch.setattr(machine, "_available", lambda: None)
    assert machine.memory([VLLM_POOL]).verdict is Verdict.WARN


@pytest.mark.parametrize(("free", "verdict"), [(1 << 40, "ok"), (1 << 30, "warn"), (1 << 20, "fail")])
def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": free}))
    assert machine.disk("disk", tmp_path / "not" / "made" / "yet").verdict == verdict


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert software.packages().verdict is Verdict.OK
    needed = ["typer>=0.20", "no-such-package>=1; extra == 'gpu'", "also-missing>=2", "uvloop; platform_system != 'X'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: needed)
    found = software.packages()
    assert (found.verdict, found.detail) == (Verdict.FAIL, "missing: also-missing")
    monkeypatch.undo()
    assert software.packages("no-such-distribution").detail == "no-such-distribution itself is not installed"


GPU = software.Gpu(0, "H200", 144_000, 4_000)


@pytest.mark.parametrize(
    ("found", "wanted", "cpu_build", "verdict", "words"),
    [
        ([], [], True, "ok", "none; workers run on the CPU"),
        ([GPU], [], True, "ok", "1 GPU: 0: H200, 140,000 of 144,000 MiB free"),
        ([GPU], [0], False, "ok", "1 GPU"),
        ([GPU], [0, 3], False, "fail", "the pools ask for 3; there is 0: H200"),
        ([GPU], [0], True, "fail", "but vLLM here is the CPU build"),
        ([], "auto", False, "fail", "the pools ask for auto; there is none"),
        ("no driver", [], True, "warn", "nvidia-smi fails: no driver"),
        ("no driver", [0], False, "fail", "nvidia-smi fails: no driver"),
    ],
)
def test_gpus(found: Any, wanted: Any, cpu_build: bool, verdict: str, words: str) -> None:
    finding = software.gpu_finding(found, wanted, cpu_build=cpu_build)
    assert finding.verdict == verdict
    assert words in finding.detail


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo '0, NVIDIA H200, 143771, 10'; echo '1, NVIDIA H200, 143771, 0'",
         [software.Gpu(0, "NVIDIA H200", 143771, 10), software.Gpu(1, "NVIDIA H200", 143771, 0)]),
        ("echo 'No devices were found'; exit 6", "No devices were found"),
        ("echo nonsense", "nvidia-smi: ValueError"),
        ("exit 0", []),
    ],
)  # fmt: skip
def test_gpus_are_asked_of_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: object
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert software.gpus() == found


@pytest.mark.parametrize(
    ("code", "verdict", "words"),
    [
        ("print('noise'); tell(vllm='0.32.0', torch='2.13.0', cuda=None)", "ok", "0.32.0 (CPU), torch 2.13.0"),
        ("tell(vllm='0.32.0', torch='2.13.0', cuda='12.9')", "ok", "0.32.0 (CUDA 12.9)"),
        ("tell(error='ImportError: libfoo')", "fail", "cannot be imported: ImportError: libfoo"),
        ("import os; os._exit(3)", "fail", "its import ends the process (exit 3)"),
    ],
)
def test_vllm_is_really_imported(monkeypatch: pytest.MonkeyPatch, code: str, verdict: str, words: str) -> None:
    tell = "import json\ntell = lambda **found: print(json.dumps(found))\n"
    monkeypatch.setattr(software, "_PROBE", tell + code)
    finding = software.VllmProbe().finding(needed=True)
    assert finding.verdict == verdict
    assert words in finding.detail


def test_an_engine_argument_that_vllm_does_not_have_is_told_with_its_place(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = "['max_num_seqs', 'max_num_batched_tokens', 'seed']"
    probe = "import json, sys\nassert sys.argv[1:] == ['arguments']\n"
    probe += f"print(json.dumps(dict(vllm='1', torch='2', cuda=None, arguments={names})))"
    monkeypatch.setattr(software, "_PROBE", probe)
    config = tmp_path / "deck.toml"
    text = '[[pool]]\nname = "p"\nmodel = "m"\nengine_args = {max_num_sequences = 16, seed = 1}\n'
    config.write_text(text)
    found, _ = examine(Home(home), config, quick=False)
    [told] = [finding for finding in found if finding.name == "engine args"]
    assert told == Finding(
        "engine args",
        Verdict.FAIL,
        f"{config}:4: vLLM has no engine argument 'max_num_sequences'",
        "did you mean max_num_seqs?",
    )
    config.write_text(text.replace("max_num_sequences", "max_num_seqs"))
    assert "engine args" not in [finding.name for finding in examine(Home(home), config, quick=False)[0]]


def test_a_vllm_that_nothing_needs_is_only_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "_PROBE", "import os; os._exit(3)")
    assert software.VllmProbe().finding(needed=False).verdict is Verdict.WARN


def test_an_import_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "_PROBE", "import time; time.sleep(300)")
    monkeypatch.setattr(software, "IMPORT_TIMEOUT_S", 0.2)
    probe = software.VllmProbe()
    assert "takes longer" in probe.finding(needed=True).detail
    assert probe._process.poll() is not None


def test_a_home_that_others_can_read_and_keys_likewise(home: Path) -> None:
    home.chmod(0o755)
    assert places.home_folder(Home(home)).hint == f"chmod 700 {home}"
    home.chmod(0o700)
    assert places.home_folder(Home(home)).verdict is Verdict.OK
    (home / "api.key").chmod(0o644)
    (home / "operator.key").chmod(0o600)
    assert places.keys(Home(home)).hint == f"chmod 600 {home}/api.key"
    assert places.home_folder(Home(home / "new")).detail.endswith("made at the first start")


def test_what_runs_in_the_home(home: Path) -> None:
    assert places.platform(Home(home)).detail == "not running"
    write_state(home, "127.0.0.1:8090", gateway="http://127.0.0.1:8080")
    assert places.platform(Home(home)).detail == f"up, control plane pid {os.getpid()}, gateway http://127.0.0.1:8080"


def test_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    cache = tmp_path / "cache"

    def of(source: str, **more: Any) -> Finding:
        return places.model({**VLLM_POOL, "source": source, **more}, cache)

    assert "converted at the first start" in of("builtin:smollm2-135m").detail
    ready = cache / "models" / "smollm2-135m-12345678"
    ready.mkdir(parents=True)
    (ready / "config.json").write_text("{}")
    assert of("builtin:smollm2-135m").detail == f"{ready}, 2 B"
    unknown, light = of("builtin:smolm2"), of(str(ready))
    assert (unknown.verdict, unknown.detail) == (Verdict.FAIL, "there is no built-in model 'smolm2'")
    assert (light.verdict, light.detail.startswith(f"{ready} holds no weights")) == (Verdict.FAIL, True)
    assert of(str(tmp_path / "none")).detail == f"{tmp_path / 'none'}: there is no such folder"
    (ready / "model.safetensors").write_text("")
    assert of(str(ready)).detail == f"in {ready}"
    assert of(str(tmp_path)).verdict is Verdict.FAIL
    assert of("org/name").verdict is Verdict.WARN
    assert of("org/name", offline=True).verdict is Verdict.FAIL
    (tmp_path / "hub" / "models--org--name").mkdir(parents=True)
    assert of("org/name", offline=True).detail == "org/name, downloaded"
    assert of("x", engine="scripted").verdict is Verdict.OK


def test_settings_that_say_nothing_of_a_key_give_the_default() -> None:
    assert Settings("").get("gateway.port", 1) == 1
