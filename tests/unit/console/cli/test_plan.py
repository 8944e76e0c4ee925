"""``inferdeck plan`` as a person, a script and a mistyped line use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.console.conftest import Command
from tests.unit.contracts.sizing.shapes import llama

FITS = ("plan", "Llama-3.1-70B", "--gpu", "H100", "--tp", "4", "--context", "8192", "--concurrency", "32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "my-model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(llama()))
    return path


def test_one_that_fits(inferdeck: Command) -> None:
    ran = inferdeck(*FITS)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Llama-3.1-70B on 4 × H100\n")
    assert "✓ fits" in ran.out
    assert "COST" not in ran.out


def test_one_that_does_not_fit_fails_and_offers_commands_that_do(inferdeck: Command) -> None:
    ran = inferdeck("plan", "Llama-3.1-70B", "--gpu", "H100", "--tp", "4", "--concurrency", "64", "--kv-dtype", "bf16")
    assert ran.code == 1
    hints = [line.removeprefix("hint: ") for line in ran.err.splitlines()]
    assert hints[0] == (
        "inferdeck plan Llama-3.1-70B --gpu H100 --tp 8 --context 8192 --concurrency 64 --kv-dtype bf16"
    )
    assert len(hints) == 4
    for hint in hints:
        assert inferdeck(*hint.split()[1:]).code == 0


def test_data_is_the_same_in_json_and_yaml(inferdeck: Command) -> None:
    ran = inferdeck(*FITS, "--price", "2.5", "-o", "json")
    data = json.loads(ran.out)
    assert ran.code == 0
    assert data == yaml.safe_load(inferdeck(*FITS, "--price", "2.5", "-o", "yaml").out)
    assert data["fits"] is True
    assert data["kv_cache"]["bytes_per_token"] == 320 * 1024
    assert data["kv_cache"]["bytes_per_token_per_gpu"] == 80 * 1024
    assert data["fewest_gpus"] == 4
    assert data["fewest_gpus_for_weights"] == 2
    assert data["speed_at_best"]["decode_alone"]["bound"] == "weights"
    assert data["cost_at_least"]["per_hour"] == 10
    assert "explain" not in data
    memory = data["memory_per_gpu_bytes"]
    used = sum(memory[name] for name in ("weights", "activations", "overhead", "kv_needed", "free"))
    assert used == pytest.approx(memory["budget"], abs=4)


def test_data_of_one_that_does_not_fit(inferdeck: Command) -> None:
    ran = inferdeck("plan", "Llama-3.1-70B", "--gpu", "H100", "--tp", "1", "-o", "json")
    data = json.loads(ran.out)
    assert (ran.code, ran.err) == (1, "")
    assert data["fits"] is False
    assert "--tp 2" in data["ways_to_fit"]
    assert data["cost_at_least"] is None


def test_explained(inferdeck: Command) -> None:
    ran = inferdeck(*FITS, "--explain")
    assert "  80 layers × 2 (key, value) × 8 KV heads × 128 × 2 B (bf16) = 320 KiB\n" in ran.out
    data = json.loads(inferdeck(*FITS, "--explain", "-o", "json").out)
    assert data["explain"][0]["name"] == "weights of one GPU"


def test_a_folder_and_a_file(inferdeck: Command, folder: Path) -> None:
    for source in (folder, folder / "config.json"):
        ran = inferdeck("plan", str(source), "--gpu", "L4", "-o", "json")
        model = json.loads(ran.out)["model"]
        assert (ran.code, model["name"], model["parameters"]) == (0, "my-model", 9_941_504)
    assert json.loads(ran.out)["traffic"]["context"] == 4096  # as much as it has


def test_a_model_that_a_platform_has_built_in(inferdeck: Command) -> None:
    assert inferdeck("plan", "builtin:smollm2-135m", "--gpu", "L4", "-o", "name").out == "SmolLM2-135M\n"


def test_a_model_in_the_hubs_cache(inferdeck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repo = tmp_path / "models--someone--theirs"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("abc")
    (repo / "snapshots" / "abc").mkdir(parents=True)
    (repo / "snapshots" / "abc" / "config.json").write_text(json.dumps(llama()))
    ran = inferdeck("plan", "someone/theirs", "--gpu", "L4", "-o", "name")
    assert (ran.code, ran.out) == (0, "theirs\n")


def test_what_is_known(inferdeck: Command) -> None:
    listed = inferdeck("plan", "--list")
    assert listed.code == 0
    for words in ("DeepSeek-V3", "68.6 KiB", "https://huggingface.co/", "MI300X", "Infinity Fabric"):
        assert words in listed.out
    data = json.loads(inferdeck("plan", "--list", "-o", "json").out)
    names = inferdeck("plan", "--list", "-o", "name").out.split()
    assert [entry["name"] for entry in data["models"] + data["gpus"]] == names
    assert all(entry["source"] for entry in data["models"] + data["gpus"])


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (("Llama-3-70B", "--gpu", "H100"), 3, "nearest: Llama-3.1-70B", "inferdeck plan --list"),
        (("nobody/nothing", "--gpu", "H100"), 3, "neither known here nor on this machine", "inferdeck plan --list"),
        (("Llama-3.1-8B", "--gpu", "H10"), 3, "no GPU 'H10' is known here; nearest: H100", "--gpu H100"),
        (("Llama-3.1-8B",), 2, "plan needs --gpu", "inferdeck plan Llama-3.1-8B --gpu H100"),
        ((), 2, "plan needs MODEL", "inferdeck plan Llama-3.1-70B --gpu H100"),
        (("SmolLM2-135M", "--gpu", "L4", "--tp", "4"), 2, "9 heads, 3 KV heads", "--tp 3"),
        (("Mistral-7B", "--gpu", "L4", "--context", "40000"), 2, "made for 32,768", "--context 32768"),
        (("Mistral-7B", "--gpu", "L4", "--prompt", "9000"), 2, "do not fit in a context", "--context 9001"),
        (("Mistral-7B", "--gpu", "L4", "--dtype", "fp7"), 2, "'fp7' is not a number format", "--dtype fp8"),
        (("Mistral-7B", "--gpu", "L4", "--kv-dtype", "int4"), 2, "--kv-dtype: 'int4'", "--kv-dtype "),
        (("Mistral-7B", "--gpu", "L4", "--tp", "0"), 2, "'--tp'", "inferdeck plan --help"),
        (("Mistral-7B", "--gpu", "L4", "--price", "-1"), 2, "'--price'", "inferdeck plan --help"),
        (("Mistral-7B", "--gpu", "L4", "--price", "nan"), 2, "--price", ""),
    ],
)
def test_mistakes(inferdeck: Command, words: tuple[str, ...], code: int, message: str, hint: str) -> None:
    ran = inferdeck("plan", *words)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert hint in ran.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no config.json"),
        ("{", "is not JSON"),
        ("[1]", "expected an object"),
        ("[" * 100_000, "is not JSON"),
        ('{"hidden_size": 5}', "num_hidden_layers is missing"),
        ('{"model_type": "mamba2"}', "Mamba layers"),
    ],
)
def test_a_folder_that_is_no_model(inferdeck: Command, tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    ran = inferdeck("plan", str(tmp_path), "--gpu", "H100")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_name_that_acts_on_terminals_is_shown_literally(inferdeck: Command, folder: Path) -> None:
    evil = folder.rename(folder.parent / "a\x1b[31mb\u202ec")
    ran = inferdeck("plan", str(evil), "--gpu", "L4")
    assert ran.out.startswith("a\\x1b[31mb\\u202ec on L4\n")
    assert inferdeck("plan", "no\x1b[31m", "--gpu", "L4").err.count("\x1b") == 0
    assert "\x1b" not in inferdeck("plan", "Mistral-7B", "--gpu", "\x1b[31m").err


def test_hostile_numbers_are_refused_fast(inferdeck: Command, tmp_path: Path) -> None:
    for changes in ({"num_hidden_layers": 10**15}, {"vocab_size": 1e300}, {"model_type": "\x1b[31m", "num_heads": []}):
        (tmp_path / "config.json").write_text(json.dumps(llama(**changes)))
        ran = inferdeck("plan", str(tmp_path), "--gpu", "L4")
        assert ran.code in (0, 2)
        assert "\x1b" not in ran.out + ran.err
