"""What a machine can't give is refused before anything starts, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.__main__ import main
from control_plane.contracts.errors import SettingsError
from control_plane.settings import Home, Settings, check_machine, load_settings, machine, simulated


@pytest.fixture(autouse=True)
def cpu_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "is_cpu_build", lambda: True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def read(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "deck.toml"
    file.write_text(text)
    return load_settings(file, Home.resolve(tmp_path))


def test_all_of_it_is_told_with_file_and_line(tmp_path: Path) -> None:
    settings = read(tmp_path, '[[pool]]\nname = "m"\nsource = "org/m"\noffline = true\nreplicas = 1\ngpus = [0]\n')
    with pytest.raises(SettingsError) as caught:
        check_machine(settings)
    at = tmp_path / "deck.toml"
    assert caught.value.message.splitlines() == [
        f"{at}:3: pool[0].source: org/m is not on this machine, and downloading is off",
        f"{at}:6: pool[0].gpus: the pool asks for GPUs, and vLLM here is the CPU build",
    ]
    assert caught.value.hint == "set offline = false, or once on a machine with a network: hf download org/m"


@pytest.mark.parametrize("more", ["offline = false", 'engine = "scripted"\noffline = true', "replicas = 0"])
def test_what_can_work_is_left_alone(tmp_path: Path, more: str) -> None:
    check_machine(read(tmp_path, f'[[pool]]\nname = "m"\nsource = "org/m"\n{more}\n'))


def test_a_model_that_was_downloaded_needs_no_network(tmp_path: Path) -> None:
    (tmp_path / "hub" / "models--org--m").mkdir(parents=True)
    check_machine(read(tmp_path, '[[pool]]\nname = "m"\nsource = "org/m"\noffline = true\n'))


def test_the_same_file_can_be_simulated(tmp_path: Path) -> None:
    text = '[[pool]]\nname = "m"\nsource = "org/m"\noffline = true\nreplicas = 1\ngpus = [0]\n'
    check_machine(simulated(read(tmp_path, text), "h100-llama-3.1-8b"))


def test_the_control_plane_refuses_before_it_makes_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read(tmp_path, '[[pool]]\nname = "m"\nreplicas = 1\ngpus = [0]\n')
    home = tmp_path / "home"
    assert main(["serve", "--home", str(home), "--config", str(tmp_path / "deck.toml")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'deck.toml'}:4: pool[0].gpus: ")
    assert not home.exists()
