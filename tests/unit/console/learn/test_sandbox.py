from __future__ import annotations

from pathlib import Path

import pytest

from console.learn.sandbox import settings_text
from control_plane.contracts.home import Home
from control_plane.settings.reader import load_settings
from lessons.catalogue import folders
from lessons.loader import load
from lessons.model import Sandbox


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_the_control_plane_reads_what_a_lesson_wants(folder: Path, tmp_path: Path) -> None:
    wanted = load(folder).sandbox
    file = tmp_path / "lesson.toml"
    file.write_text(settings_text(wanted))
    settings = load_settings(file, Home.resolve(tmp_path))
    (pool,) = settings.pools
    assert (pool.name, pool.engine, pool.replicas) == ("w", wanted.engine, wanted.replicas)
    assert wanted.engine_args.items() <= pool.engine_args.items()
    assert (settings.router.profile, settings.router.replicas) == (wanted.profile, wanted.routers)
    assert (settings.gateway.port, settings.api.port) == (0, 0)


def test_arguments_keep_their_types(tmp_path: Path) -> None:
    arguments = {"profile": 'a "quoted" one', "speed": 2.0, "scripts": True, "block_size": 16}
    file = tmp_path / "lesson.toml"
    file.write_text(settings_text(Sandbox(max_context=512, engine_args=arguments)))
    (pool,) = load_settings(file, Home.resolve(tmp_path)).pools
    assert pool.engine_args == arguments
    assert pool.max_context == 512
