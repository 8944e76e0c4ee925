import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from workers.model_cache import MANIFEST, Progress, build_once, sha256_of, verified

CONTENT = {"config.json": b"{}", "model.safetensors": b"weights" * 100}


def silent(done: float, words: str) -> None:
    pass


def filler(content: dict[str, bytes] = CONTENT) -> Callable[[Path, Progress], None]:
    def build(folder: Path, progress: Progress) -> None:
        for name, data in content.items():
            (folder / name).write_bytes(data)
        progress(1.0, "converting")

    return build


def refuse(folder: Path, progress: Progress) -> None:
    raise AssertionError("built again")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_was_built_is_there_and_is_not_built_again(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "m-1"
    assert build_once(folder, filler(), silent, source_sha256="abc") == folder
    assert names(folder) == {*CONTENT, MANIFEST}
    assert build_once(folder, refuse, silent, source_sha256="abc") == folder
    assert build_once(folder, refuse, silent, source_sha256="abc", full=True) == folder
    assert names(tmp_path / "models") == {"m-1", ".m-1.lock"}


def test_the_manifest_says_what_every_file_is(tmp_path: Path) -> None:
    folder = build_once(tmp_path / "m", filler(), silent, source_sha256="abc")
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["source_sha256"] == "abc"
    for name in CONTENT:
        assert manifest["files"][name]["sha256"] == sha256_of(folder / name)
        assert manifest["files"][name]["size"] == (folder / name).stat().st_size


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def half(folder: Path, progress: Progress) -> None:
        (folder / "config.json").write_bytes(b"{")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        build_once(tmp_path / "m", half, silent, source_sha256="")
    assert names(tmp_path) == {".m.lock"}
    assert build_once(tmp_path / "m", filler(), silent, source_sha256="").is_dir()


@pytest.mark.parametrize("damage", ["shorter", "missing", "no manifest", "broken manifest", "empty manifest"])
def test_damage_is_seen_and_mended(tmp_path: Path, damage: str) -> None:
    folder = build_once(tmp_path / "m", filler(), silent, source_sha256="")
    match damage:
        case "shorter":
            (folder / "model.safetensors").write_bytes(b"weights")
        case "missing":
            (folder / "model.safetensors").unlink()
        case "no manifest":
            (folder / MANIFEST).unlink()
        case "broken manifest":
            (folder / MANIFEST).write_text('{"files": {"config.json": 3}}')
        case "empty manifest":
            (folder / MANIFEST).write_text('{"files": {}}')
    assert not verified(folder)
    build_once(folder, filler(), silent, source_sha256="")
    assert verified(folder, full=True)
    assert names(tmp_path) == {"m", ".m.lock"}


def test_changed_content_of_the_same_size_is_seen_when_everything_is_hashed(tmp_path: Path) -> None:
    folder = build_once(tmp_path / "m", filler(), silent, source_sha256="")
    path = folder / "model.safetensors"
    stat = path.stat()
    path.write_bytes(b"WEIGHTS" * 100)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert verified(folder)
    assert not verified(folder, full=True)


def test_a_copy_with_other_times_is_hashed_and_taken(tmp_path: Path) -> None:
    folder = build_once(tmp_path / "m", filler(), silent, source_sha256="")
    os.utime(folder / "config.json", ns=(1, 1))
    assert verified(folder)
    (folder / "config.json").write_bytes(b"[]")
    assert not verified(folder)


def test_one_builds_and_the_others_wait_and_hear_how_far_it_is(tmp_path: Path) -> None:
    folder, inside, release = tmp_path / "m", threading.Event(), threading.Event()
    heard: list[tuple[float, str]] = []
    waiting = threading.Event()

    def slow(target: Path, progress: Progress) -> None:
        progress(0.25, "converting the weights")
        inside.set()
        assert release.wait(30)
        filler()(target, progress)

    def hear(done: float, words: str) -> None:
        heard.append((done, words))
        waiting.set()

    first = threading.Thread(target=build_once, args=(folder, slow, silent), kwargs={"source_sha256": ""})
    first.start()
    assert inside.wait(30)
    second = threading.Thread(target=build_once, args=(folder, refuse, hear), kwargs={"source_sha256": ""})
    second.start()
    assert waiting.wait(30)
    release.set()
    first.join(30)
    second.join(30)
    assert heard[0] == (0.25, "another process is converting the weights")
    assert verified(folder, full=True)


def test_a_killed_builder_leaves_nothing_half_done_and_the_next_one_sweeps(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom workers.model_cache import build_once\n"
        "def build(folder, progress):\n"
        "    (folder / 'config.json').write_bytes(b'{')\n    print('inside', flush=True)\n    time.sleep(60)\n"
        "build_once(Path(sys.argv[1]), build, lambda done, words: None, source_sha256='')\n"
    )
    folder = tmp_path / "m"
    process = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == "inside\n"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert not folder.exists()
    assert any(".building-" in name for name in names(tmp_path))
    build_once(folder, filler(), silent, source_sha256="")
    assert names(tmp_path) == {"m", ".m.lock"}


def test_leftovers_are_swept_also_when_there_is_nothing_to_build(tmp_path: Path) -> None:
    folder = build_once(tmp_path / "m", filler(), silent, source_sha256="")
    (tmp_path / ".m.building-1").mkdir()
    build_once(folder, refuse, silent, source_sha256="")
    assert names(tmp_path) == {"m", ".m.lock"}
