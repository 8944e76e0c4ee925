"""What the README promises of every verb, over all commands that there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from console.cli import command
from console.cli.effect import Effect, check
from console.cli.main import app
from tests.unit.console.cli.promises import ACCESSED, EFFECTS, OPERATED
from tests.unit.console.conftest import Command
from tests.unit.console.fake_operator import FakeOperator, worker


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the program, by its words."""

    def walk(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, each in group.commands.items():
            path = (*words, name)
            if not hasattr(each, "commands") or each.invoke_without_command:
                yield " ".join(path), each
            if hasattr(each, "commands"):
                yield from walk(each, path)

    yield from walk(typer.main.get_command(app), ())


def options(each: Any) -> set[str]:
    return {option for parameter in each.params for option in parameter.opts}


def test_every_command_is_in_the_table_as_what_it_says_of_itself() -> None:
    assert {path for path, _ in commands()} == set(EFFECTS) == set(command.EFFECTS)
    assert command.EFFECTS == EFFECTS


@pytest.mark.parametrize("path", EFFECTS)
def test_a_command_has_the_options_that_its_effect_asks_for_and_no_others(path: str) -> None:
    has, effect = options(dict(commands())[path]), EFFECTS[path]
    assert ("--dry-run" in has) == (effect in (Effect.CHANGES, Effect.ENDS))
    assert ("--yes" in has) == (effect is Effect.ENDS)


def test_a_verb_without_them_cannot_be_registered() -> None:
    with pytest.raises(TypeError, match="burn ends something and takes no dry_run, yes"):
        check("burn", Effect.ENDS, ("place", "what"))
    with pytest.raises(TypeError, match="takes no yes"):
        check("burn", Effect.ENDS, ("place", "dry_run"))
    check("burn", Effect.ENDS, ("place", "dry_run", "yes"))


def test_every_verb_that_changes_something_is_tried() -> None:
    assert {*OPERATED, *ACCESSED} == {path for path, effect in EFFECTS.items() if effect.parameters}


@pytest.fixture
def there(operator: FakeOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeOperator:
    """Two workers, one of them cordoned, and a profile where one would be written."""
    monkeypatch.chdir(tmp_path)
    Path("there.toml").write_text("mine")
    operator.update(workers=(worker("smollm2-1"), worker("smollm2-2", cordoned=True)))
    return operator


@pytest.mark.parametrize("verb", OPERATED)
def test_a_dry_run_says_what_would_be_done_and_does_nothing(there: FakeOperator, inferdeck: Command, verb: str) -> None:
    before = there.state
    ran = inferdeck(*OPERATED[verb], "--dry-run")
    assert (ran.code, there.calls, there.state) == (0, [], before)
    assert ran.out.endswith(" (dry run)\n")
    assert Path("there.toml").read_text() == "mine"


@pytest.mark.parametrize("verb", [verb for verb in OPERATED if EFFECTS[verb] is Effect.ENDS])
def test_what_ends_something_is_not_done_unasked(there: FakeOperator, inferdeck: Command, verb: str) -> None:
    ran = inferdeck(*OPERATED[verb])
    assert (ran.code, ran.out, there.calls) == (2, "", [])
    assert "nobody is here to confirm that" in ran.err
    assert f"hint: inferdeck {verb} --yes " in ran.err
    assert "in flight: " in ran.err
    assert Path("there.toml").read_text() == "mine"


@pytest.mark.parametrize("verb", ["inject", "trace", "calibrate"])
def test_a_dry_run_is_data_where_data_is_asked_for(there: FakeOperator, inferdeck: Command, verb: str) -> None:
    import json

    data = json.loads(inferdeck(*OPERATED[verb], "--dry-run", "-o", "json").out)
    assert data["dry_run"] is True
    assert data["would"].startswith({"inject": "make worker", "trace": "set the trace", "calibrate": "measure"}[verb])
    assert data["ends"] is (EFFECTS[verb] is Effect.ENDS)
