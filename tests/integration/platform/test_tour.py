"""The scripted tour of ``inferdeck demo``, on scripted engines: every step checked, and nothing left."""

from __future__ import annotations

import signal

from tests.integration.platform.conftest import MakePlatform
from tests.integration.platform.rig import Platform, scripted, until
from tests.unit.console.screen import Screen

PACED = "delay_s = 0.02\ntotal_blocks = 400"
STEPS = ("1  Bring", "2  One answer", "3  The fleet", "4  Drain", "5  Cancel", "6  Shut down")


def leftovers(platform: Platform) -> list[str]:
    return [path.name for path in platform.folder.iterdir() if path.name.startswith("inferdeck-tour-")]


def test_without_a_terminal_the_demo_is_the_tour_and_leaves_nothing(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(2, PACED))
    ran = platform.run("demo", "--config", str(platform.config_path))
    positions = [ran.stdout.index(step) for step in STEPS]
    assert positions == sorted(positions)
    assert ran.stdout.count("   ✓ ") == 6
    for told in ("stopwatch", "in flight", "all on tiny-2", "KV blocks on tiny-", "then request_cancelled", "ports"):
        assert told in ran.stdout
    assert "\x1b" not in ran.stdout + ran.stderr
    assert ran.stdout.rstrip().endswith("Nothing is left behind.")
    assert leftovers(platform) == []
    assert platform.processes() == []


def test_a_step_that_fails_is_named_with_the_logs_and_exit_1(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(2, 'fail_start = "no weights here"'))
    ran = platform.run("demo", "--config", str(platform.config_path), code=1)
    assert "✗ step 1 (bring the platform up) failed: worker/tiny-" in ran.stdout
    assert "no weights here" in ran.stdout
    assert "Nothing is left behind" not in ran.stdout
    assert leftovers(platform) == []
    assert platform.processes() == []


def test_a_tour_with_one_worker_is_no_tour(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(1, PACED))
    ran = platform.run("demo", "--config", str(platform.config_path), code=1)
    assert "two workers were wanted, there are 1" in ran.stdout
    assert leftovers(platform) == []


def test_an_interrupted_tour_leaves_nothing(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(2, PACED))
    tour = platform.start("demo", "--config", str(platform.config_path))
    tour.until("4  Drain")
    assert tour.interrupt(signal.SIGINT) == 130
    assert leftovers(platform) == []
    until(lambda: not platform.processes(), "the end of every process")


def test_on_a_terminal_the_demo_opens_the_console_and_leaving_it_ends_everything(make_platform: MakePlatform) -> None:
    platform = make_platform(scripted(2, PACED))
    screen = Screen.run(
        platform.home, "demo", "--config", str(platform.config_path), columns=120, lines=40, TMPDIR=str(platform.folder)
    )
    screen.until("tiny-2")
    screen.until("\x1b[?1049h")
    platform.note()
    screen.until("tok/s")
    screen.type("q")
    assert screen.end() == 0
    assert "everything is down" in screen.text
    platform.nothing_left()
