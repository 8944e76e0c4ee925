"""``key``, ``policy``, ``operator`` and the reads of what they change, as they are typed, on a real platform."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from console.cli.main import run
from tests.integration.fleet.rig import Deck


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Ran]


@pytest.fixture
def inferdeck(deck: Deck, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*words: str) -> Ran:
        code = run([*words, "--home", str(deck.home)])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


def test_a_paid_key_from_its_making_to_its_end(deck: Deck, inferdeck: Command) -> None:
    planned = inferdeck("key", "create", "--name", "shop", "--dry-run")
    assert (planned.code, planned.out) == (
        0,
        "would create a key: name shop, tenant default, tier paid (dry run)\n",
    )
    made = inferdeck("key", "create", "--name", "shop", "--tier", "paid", "--rpm", "60", "--tpm", "10000")
    key = made.out.strip()
    assert re.fullmatch(r"sk-inferdeck-[\w-]{32}", key), "stdout has the key and nothing else"
    assert "tier paid, 60 rpm, 10,000 tpm" in made.err
    assert key not in made.err

    [row] = [row for row in inferdeck("get", "keys", "-o", "json").data if row["name"] == "shop"]
    assert (row["tier"], row["limits"], row["state"]) == (
        "paid",
        {"rpm": 60, "tpm": 10000, "concurrency": None},
        "active",
    )
    for words in (("key", "list"), ("get", "keys"), ("get", f"key/{row['id']}"), ("get", row["id"])):
        assert "60 rpm, 10,000 tpm" in inferdeck(*words).out
    assert f"key/{row['id']}" in inferdeck("key", "list", "-o", "name").out.split()

    changed = inferdeck("key", "set", "shop", "tier=free", "rpm=none", "models=tiny,other", "expires=30d")
    assert changed.code == 0
    assert "is now: name shop, tenant default, tier free, 10,000 tpm, models tiny, other, until 20" in changed.out
    assert inferdeck("key", "set", "shop", "tier=free").out.startswith(f"key/{row['id']} is so already")
    told = inferdeck("describe", "key/shop").out
    assert re.search(r"^models +tiny, other$", told, re.MULTILINE)
    assert re.search(r"^expires .*in 29d", told, re.MULTILINE)

    refused = inferdeck("key", "rotate", "shop")
    assert (refused.code, refused.out) == (2, "")
    assert "nobody is here to confirm that" in refused.err
    graced = inferdeck("key", "rotate", "shop", "--grace", "1h")
    assert graced.code == 0, "with a grace nobody is cut off"
    rotated = inferdeck("key", "rotate", "shop", "--yes")
    assert rotated.out.strip() not in (key, graced.out.strip())

    assert inferdeck("key", "revoke", "shop").code == 2
    assert inferdeck("key", "revoke", "shop", "--dry-run").out.startswith(f"would revoke key/{row['id']}")
    assert inferdeck("key", "revoke", "shop", "--yes").out == f"key/{row['id']} revoked\n"
    assert inferdeck("key", "revoke", row["id"]).out == f"key/{row['id']} is revoked already\n"
    assert row["id"] not in inferdeck("key", "list").out
    assert row["id"] in inferdeck("key", "list", "--all").out


def test_where_the_keys_are_is_told_as_before_and_follows_a_rotation(deck: Deck, inferdeck: Command) -> None:
    assert "operator.key" in inferdeck("key").out
    before = inferdeck("key", "--reveal").out.strip()
    rotated = inferdeck("key", "rotate", "default", "--yes").out.strip()
    assert rotated != before
    assert inferdeck("key", "--reveal").out.strip() == rotated
    assert (deck.home / "api.key").stat().st_mode & 0o777 == 0o600
    headers = {"authorization": f"Bearer {rotated}"}
    answer = httpx.get(f"{deck.url}/v1/models", headers=headers)
    assert answer.status_code == 200
    lost = inferdeck("key", "--reveal", "list")
    assert lost.code == 2
    assert "options come after the verb" in lost.err


def test_a_policy_is_got_edited_and_set_and_who_is_late_is_told(inferdeck: Command, tmp_path: Path) -> None:
    got = inferdeck("policy", "get")
    first = tomllib.loads(got.out)
    assert next(iter(first["tiers"])) == "enterprise"
    assert inferdeck("policy", "get", "-o", "json").data == yaml.safe_load(inferdeck("policy", "get", "-o", "yaml").out)
    assert inferdeck("policy", "get", "-o", "json").data == {"tenants": {}, **first}

    planned = inferdeck("policy", "set", "tiers.free.rpm=10", "tenants.acme.tpm=5000", "--dry-run")
    assert planned.out == "tiers.free.rpm: 20 → 10\ntenants.acme.tpm: none → 5000\n"
    assert "(dry run)" in planned.err
    assert inferdeck("policy", "get").out == got.out

    file = tmp_path / "policy.toml"
    file.write_text(got.out.replace("rpm = 20\n", "rpm = 10\n") + "\n[tenants.acme]\ntpm = 5000\n")
    done = inferdeck("policy", "set", "-f", str(file))
    assert (done.code, done.out) == (0, planned.out)
    late = inferdeck("policy", "set", "-f", str(file))
    assert late.code == 1
    assert "is in force by now" in late.err
    stale = inferdeck("policy", "set", "tiers.free.rpm=11", "--version", str(first["version"]))
    assert stale.code == 1

    assert "tiers.free.rpm: 20 → 10; tenants.acme.tpm: none → 5000" in inferdeck("policy", "history").out
    earlier = inferdeck("policy", "get", "--version", str(first["version"]))
    assert earlier.out == got.out
    for suffix, words in ((".json", "json"), (".yaml", "yaml")):
        other = tmp_path / f"policy{suffix}"
        other.write_text(inferdeck("policy", "get", "-o", words).out)
        same = inferdeck("policy", "set", "-f", str(other))
        assert (same.code, same.out) == (0, "")
        assert "nothing is different" in same.err
    assert inferdeck("policy", "set", "tiers.free.rpm=20", "tenants.acme=none").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("key", "create", "--tier", "gold"), 2, "there is no tier 'gold'"),
        (("key", "create", "--rpm", "0"), 2, "--rpm: at least 1"),
        (("key", "create", "--expires", "soon"), 2, "is not a duration"),
        (("key", "create", "--tenant", "a b"), 2, "is not a name"),
        (("key", "set", "nobody", "rpm=1"), 3, "there is no key 'nobody'"),
        (("key", "set", "default", "colour=red"), 2, "fields are name"),
        (("key", "revoke", "nobody", "--yes"), 3, "there is no key 'nobody'"),
        (("key", "frobnicate"), 2, "no such command"),
        (("describe", "key/nobody"), 3, "no key named nobody"),
        (("policy", "set"), 2, "Either PATH=VALUE or -f FILE"),
        (("policy", "set", "tiers.free.rpm=many"), 2, "no whole number"),
        (("policy", "set", "tiers.enterprise=none"), 1, "these keys have this tier: key-"),
        (("policy", "set", "-f", "/nowhere/policy.toml"), 3, "cannot be read"),
        (("policy", "get", "--version", "999"), 3, "no policy of version 999"),
        (("operator", "create", "x", "--role", "king"), 2, "king"),
        (("operator", "revoke", "nobody", "--yes"), 3, "no operator named nobody"),
        (("wait", "key/x"), 2, "nothing to wait for"),
    ],
)
def test_what_is_wrong_is_told_and_has_its_exit_code(
    inferdeck: Command, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = inferdeck(*words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_file_that_is_no_policy(inferdeck: Command, tmp_path: Path) -> None:
    for name, text, said in (
        ("a.toml", "[tiers.free]\nrmp = 3\n", "tiers.free.rmp: unknown field; did you mean rpm?"),
        ("b.toml", "= nonsense [", "no TOML, JSON or YAML"),
        ("c.json", "[1]", "holds no policy"),
        ("d.yaml", "a: [", "no TOML, JSON or YAML"),
    ):
        (tmp_path / name).write_text(text)
        ran = inferdeck("policy", "set", "-f", str(tmp_path / name))
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err


def test_an_operator_is_made_looks_and_is_refused_with_the_exit_code_of_auth(
    inferdeck: Command, tmp_path: Path
) -> None:
    made = inferdeck("operator", "create", "ann", "--role", "viewer")
    key = made.out.strip()
    assert re.fullmatch(r"op-inferdeck-[\w-]{32}", key)
    assert key not in made.err
    file = tmp_path / "ann.key"
    file.write_text(key)
    as_ann = ("--operator-key-file", str(file))
    assert inferdeck("get", "workers", *as_ann).code == 0
    refused = inferdeck("cordon", "tiny-1", *as_ann)
    assert refused.code == 4
    assert "Cordon needs the role operator, and ann is a viewer" in refused.err
    assert inferdeck("get", "audit", *as_ann).code == 4
    assert "ann" in inferdeck("operator", "list").out
    assert inferdeck("operator", "revoke", "ann").code == 2
    assert inferdeck("operator", "revoke", "ann", "--yes").code == 0
    assert inferdeck("get", "workers", *as_ann).code == 4
    assert "ann" not in inferdeck("get", "operators").out
    assert "revoked" in inferdeck("get", "operators", "--all").out


def test_the_audit_says_who_changed_what(inferdeck: Command) -> None:
    key = inferdeck("key", "create", "--name", "watched", "-o", "json").data
    assert key["key"].startswith("sk-inferdeck-")
    inferdeck("key", "set", "watched", "rpm=7")
    inferdeck("key", "revoke", "watched", "--yes")
    entries = [entry for entry in inferdeck("get", "audit", "-o", "json").data if entry["target"] == f"key/{key['id']}"]
    assert [(entry["action"], entry["actor_name"], entry["role"]) for entry in entries] == [
        ("key.create", "home", "admin"),
        ("key.set", "home", "admin"),
        ("key.revoke", "home", "admin"),
    ]
    assert entries[1]["after"]["rpm"] == 7
    assert key["key"] not in str(entries)
    table = inferdeck("get", "audit").out
    assert "rpm: none → 7" in table
    assert "change      rpm: none → 7" in inferdeck("describe", f"audit/{entries[1]['seq']}").out
