"""``key``, ``policy``, ``operator`` and the reads of what they change, as they are typed, on a real platform."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from console.cli.effect import Effect
from console.cli.main import run
from tests.integration.fleet.rig import PATIENCE_S, Deck
from tests.integration.platform.rig import until
from tests.unit.console.cli.promises import ACCESSED, EFFECTS


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


def test_a_second_key_of_a_name_and_a_model_that_is_none_are_told(inferdeck: Command) -> None:
    first = inferdeck("key", "create", "--name", "twin", "--model", "nope")
    assert "too" not in first.err
    assert "warning: models: nothing serves nope at present\n" in first.err
    [row] = [row for row in inferdeck("get", "keys", "-o", "json").data if row["name"] == "twin"]
    second = inferdeck("key", "create", "--name", "twin", "--model", "tiny")
    assert second.code == 0
    assert f"key/{row['id']} has the name twin too" in second.err
    assert "nothing serves" not in second.err
    both = inferdeck("describe", "key/twin")
    assert both.code == 2
    assert "2 keys have the name 'twin'" in both.err
    [other] = [each for each in inferdeck("get", "keys", "-o", "json").data if each["name"] == "twin" and each != row]
    assert inferdeck("key", "revoke", other["id"], "--yes").code == 0
    assert row["id"] in inferdeck("describe", "key/twin").out, "not the one that is no more"
    assert inferdeck("key", "revoke", row["id"], "--yes").code == 0
    assert inferdeck("describe", f"key/{other['id']}").code == 0


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
    assert "warning: models: nothing serves other at present\n" in changed.err
    assert "serves tiny" not in changed.err
    told = inferdeck("describe", "key/shop").out
    assert re.search(r"^models +tiny, other$", told, re.MULTILINE)
    assert re.search(r"^expires .*in 29d", told, re.MULTILINE)

    refused = inferdeck("key", "rotate", "shop")
    assert (refused.code, refused.out) == (2, "")
    assert "nobody is here to confirm that" in refused.err
    graced = inferdeck("key", "rotate", "shop", "--grace", "1h")
    assert graced.code == 0, "with a grace nobody is cut off"
    assert "the one that it has now is good for 1h\n" in graced.err
    again = inferdeck("key", "rotate", "shop", "--grace", "2h")
    assert "the one that it has now is good for 2h; an older one stays good until 20" in again.err
    [row] = [row for row in inferdeck("get", "keys", "-o", "json").data if row["name"] == "shop"]
    assert row["old_ends_unix"] == sorted(row["old_ends_unix"])
    assert len(row["old_ends_unix"]) == 2
    assert len(re.findall(r"^old secret +good until", inferdeck("describe", "key/shop").out, re.MULTILINE)) == 2
    plan = inferdeck("key", "rotate", "shop", "--dry-run").out
    assert re.search(r"ends at once, and so do older ones that were to be good until 20.* and 20.* \(dry run\)$", plan)
    rotated = inferdeck("key", "rotate", "shop", "--yes")
    assert rotated.out.strip() not in (key, graced.out.strip())
    [row] = [row for row in inferdeck("get", "keys", "-o", "json").data if row["name"] == "shop"]
    assert row["old_ends_unix"] == []

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


def test_a_dry_run_changes_nothing_and_what_ends_something_is_not_done_unasked(deck: Deck, inferdeck: Command) -> None:
    """The promise of the README, for every verb about who may do what; for the fleet's see the command line's tests."""
    assert inferdeck("operator", "create", "ann", "--role", "viewer").code == 0
    assert inferdeck("cert", "server", "named.example.com").code == 0

    def everything() -> list[Any]:
        told = [inferdeck("get", kind, "--all", "-o", "json").data for kind in ("keys", "operators", "audit")]
        files = [(deck.home / name).read_bytes() for name in ("api.key", "tls/server.pem")]
        return [*told, *files, inferdeck("policy", "get").out]

    before = everything()
    for verb, words in ACCESSED.items():
        planned = inferdeck(*words, "--dry-run")
        assert planned.code == 0, planned.err
        assert "(dry run)" in planned.out + planned.err
        if EFFECTS[verb] is Effect.ENDS:
            asked = inferdeck(*words)
            assert (asked.code, asked.out) == (2, "")
            assert "nobody is here to confirm that" in asked.err
            assert re.search(rf"^hint: inferdeck {verb} .*--yes", asked.err, re.MULTILINE)
        assert everything() == before, verb
    assert inferdeck("operator", "revoke", "ann", "--yes").code == 0


def test_a_secret_goes_to_a_file_that_only_its_owner_reads(
    inferdeck: Command, deck: Deck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop.key"
    made = inferdeck("key", "create", "--name", "filed", "--out", str(file))
    assert (made.code, made.out) == (0, "")
    assert f"the key is in {file}, which only you can read" in made.err
    assert file.stat().st_mode & 0o777 == 0o600
    first = file.read_text().strip()
    assert re.fullmatch(r"sk-inferdeck-[\w-]{32}", first)
    there = inferdeck("key", "rotate", "filed", "--yes", "--out", str(file))
    assert (there.code, file.read_text().strip()) == (2, first)
    assert f"{file} is there already" in there.err
    opened = {"authorization": f"Bearer {first}"}
    # What could not be kept was not made.
    until(lambda: httpx.get(f"{deck.url}/v1/models", headers=opened).status_code == 200, "the first secret is good yet")
    told = inferdeck("key", "rotate", "filed", "--yes", "--out", str(tmp_path / "next.key"), "-o", "json").data
    assert told["key_file"] == str(tmp_path / "next.key")
    assert "key" not in told
    nowhere = inferdeck("operator", "create", "filed", "--role", "viewer", "--out", str(tmp_path / "no" / "x.key"))
    assert (nowhere.code, "filed" in inferdeck("operator", "list").out) == (2, False)
    own = tmp_path / "op.key"
    assert inferdeck("operator", "create", "filed", "--role", "viewer", "--out", str(own)).out == ""
    assert inferdeck("get", "workers", "--operator-key-file", str(own)).code == 0
    assert inferdeck("key", "revoke", "filed", "--yes").code == 0
    assert inferdeck("operator", "revoke", "filed", "--yes").code == 0
    assert inferdeck("operator", "revoke", "filed", "--yes").code == 3


def test_the_homes_own_key_is_revoked_and_replaced(deck: Deck, inferdeck: Command) -> None:
    told = inferdeck("key", "revoke", "default", "--dry-run")
    assert "it is the home's own key: chat, load and whoever reads api.key call with it" in told.err
    assert "home key" not in [check["name"] for check in inferdeck("doctor", "--quick", "-o", "json").data["checks"] if
                              check["verdict"] != "ok"]  # fmt: skip
    lost = inferdeck("key", "create", "--replace-home-key")
    assert lost.code == 2
    assert "stays valid, and its secret will be nowhere any more" in lost.err
    before = inferdeck("key", "list", "-o", "json").data
    [was] = [row for row in before if row["name"] == "default"]
    revoked = inferdeck("key", "revoke", "default", "--yes")
    way_out = f"inferdeck key create --replace-home-key --home {deck.home}"
    assert f"the home has no key of its own any more: {way_out} makes one" in revoked.err
    until(lambda: inferdeck("chat", "hi", "--max-tokens", "1").code == 4, "every gateway has heard")
    for words in (("chat", "hi"), ("load", "-n", "1")):
        refused = inferdeck(*words)
        assert (refused.code, refused.out) == (4, "")
        assert f"hint: {way_out}\n" in refused.err
    again = inferdeck("up")
    assert again.code == 0
    assert f"(key/{was['id']}) is revoked: chat, load and whoever reads it are refused; {way_out} makes" in again.err
    [found] = [c for c in inferdeck("doctor", "--quick", "-o", "json").data["checks"] if c["name"] == "home key"]
    assert (found["verdict"], found["hint"]) == ("warn", way_out)
    made = inferdeck("key", "create", "--replace-home-key")
    assert (made.code, made.out) == (0, "")
    [now] = [row for row in inferdeck("key", "list", "-o", "json").data if row["name"] == "default"]
    assert (now["tier"], now["tenant"], now["id"] == was["id"]) == (was["tier"], was["tenant"], False)
    assert (deck.home / "api.key").stat().st_mode & 0o777 == 0o600
    until(lambda: inferdeck("chat", "hi", "--max-tokens", "2").code == 0, "the gateway has heard of the key")
    assert "is revoked" not in inferdeck("up").err


def test_a_platform_elsewhere_is_talked_to_by_its_server_and_keys(
    deck: Deck, inferdeck: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from another home: its operators' API says where its gateway is, and its API key has to be named."""
    key = tmp_path / "caller.key"
    assert inferdeck("key", "create", "--name", "far", "--out", str(key)).code == 0

    def far(*words: str) -> int:
        return run([*words, "--home", str(tmp_path / "none"), "--server", deck.state()["api_address"],
                    "--operator-key-file", str(deck.home / "operator.key")])  # fmt: skip

    assert far("chat", "hi", "--max-tokens", "2") == 4
    until(
        lambda: far("chat", "hi", "--max-tokens", "2", "--api-key-file", str(key)) == 0,
        "the gateway has heard of the key",
    )
    assert far("load", "-n", "2", "-c", "1", "--output-tokens", "2", "--api-key-file", str(key)) == 0
    assert far("top") == 0
    # The home's own address is its own, however it is named.
    assert inferdeck("chat", "hi", "--max-tokens", "2", "--server", deck.state()["api_address"]).code == 0
    assert inferdeck("key", "revoke", "far", "--yes").code == 0


def test_https_where_plain_http_is_spoken(deck: Deck, inferdeck: Command) -> None:
    ran = inferdeck("chat", "hi", "--url", f"{deck.url.replace('http', 'https')}/v1")
    assert ran.code == 6
    assert f"it speaks plain HTTP\nhint: --url {deck.url}/v1\n" in ran.err


@pytest.mark.parametrize("verb", ["up", "down", "doctor", "demo", "cert", "version"])
def test_what_is_about_this_machine_offers_no_server(inferdeck: Command, verb: str) -> None:
    assert "--server" not in inferdeck(verb, "--help").out
    refused = inferdeck(verb, "--server", "127.0.0.1:1")
    assert refused.code == 2
    assert f"{verb} has no --server: it is about this machine" in refused.err


def test_doctor_shows_what_the_platform_runs_with(deck: Deck, inferdeck: Command) -> None:
    told = inferdeck("doctor", "--quick", "-o", "json").data
    assert (told["config"], told["in_force"], told["edited"]) == (str(deck.config), True, [])
    settings = {row["key"]: row for row in told["settings"]}
    assert settings["pool[0].name"]["value"] == "tiny"
    assert settings["pool[0].name"]["source"].startswith(f"{deck.config}:")
    wide = inferdeck("doctor", "--quick", "-o", "wide").out
    assert f"# {deck.config}, as the control plane that runs read it\n" in wide
    before = deck.config.read_text()
    try:
        deck.config.write_text(before.replace("tokens = 16", "tokens = 17"))
        [config] = [c for c in inferdeck("doctor", "--quick", "-o", "json").data["checks"] if c["name"] == "config"]
        assert config["verdict"] == "warn"
        assert "in force; the file says otherwise by now: pool[0].engine_args" in config["detail"]
        deck.config.write_text("nonsense")
        told = inferdeck("doctor", "--quick", "-o", "json").data
        assert {row["key"]: row["value"] for row in told["settings"]}["pool[0].name"] == "tiny"
    finally:
        deck.config.write_text(before)
    other = inferdeck("doctor", "--quick", "-o", "json", "--config", str(deck.config)).data
    assert other["in_force"] is False


def test_every_part_of_the_policy_is_shown_as_a_table(inferdeck: Command, tmp_path: Path) -> None:
    assert inferdeck("policy", "set", "routing.profile=round_robin", "tenants.acme.tpm=5000").code == 0
    try:
        table = inferdeck("policy", "get", "-o", "table").out
        assert {"tiers:", "tenants:", "routing:"} <= set(table.splitlines())
        assert re.search(r"^  enterprise +10 ", table, re.MULTILINE)
        assert re.search(r"^  profile +round_robin$", table, re.MULTILINE)
        assert re.search(r"^  acme +5,000$", table, re.MULTILINE)
        toml = inferdeck("policy", "get").out
        assert tomllib.loads(toml)["routing"]["profile"] == "round_robin"
        file = tmp_path / "policy.toml"
        file.write_text(toml.replace("round_robin", "balanced"))
        assert inferdeck("policy", "set", "-f", str(file)).out == "routing.profile: round_robin → balanced\n"
    finally:
        inferdeck("policy", "set", "routing.profile=none", "tenants.acme=none")


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
        (("key", "set", "default", "colour=red"), 2, "a key has no field 'colour'; there are name, tenant, tier, rpm"),
        (("key", "set", "default", "foo=1"), 2, "a key has no field 'foo'"),
        (("key", "set", "default", "teir=free"), 2, "did you mean tier?"),
        (("key", "set", "default", "rpm"), 2, "'rpm' is not FIELD=VALUE, for example rpm=60"),
        (("key", "set", "default", "expires=9999999d"), 2, "expires=9999999d: a key expires in the future, before the"),
        (("key", "set", "default", "rpm=9", "expires=0s"), 2, "expires=0s: a key expires in the future"),
        (("key", "create", "--expires", "0s"), 2, "--expires 0s: a key expires in the future"),
        (("key", "create", "--replace-home-key", "--out", "x"), 2, "goes without --server and --out"),
        (("get", "policy"), 2, "hint: inferdeck policy get -o table"),
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
        ("e.toml", "a = " + "[" * 5000, "it is nested too deeply"),
        ("f.json", "[" * 5000, "it is nested too deeply"),
        ("g.yaml", "version: 2026-13-45", "cannot be read: "),
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
    inferdeck("key", "create", "--name", "graced")
    inferdeck("key", "rotate", "graced", "--grace", "1h")
    last = inferdeck("get", "audit", "-o", "json").data[-1]
    assert (last["action"], last["before"].get("grace_s"), last["after"]["grace_s"]) == ("key.rotate", None, 3600.0)
    assert "grace_s: none → 3600.0" in inferdeck("get", "audit").out
    assert re.search(r"old_ends_unix: none → 20\d\d-", inferdeck("get", "audit").out), "a time that people read"
    table = inferdeck("get", "audit").out
    assert "rpm: none → 7" in table
    assert "change      rpm: none → 7" in inferdeck("describe", f"audit/{entries[1]['seq']}").out


def test_names_that_lead_to_models_from_the_policy_to_a_call(deck: Deck, inferdeck: Command) -> None:
    wanted = ("routing.models.smart.target=tiny", "routing.models.smart.fallback=gone")
    planned = inferdeck("policy", "set", *wanted, "--dry-run")
    done = inferdeck("policy", "set", *wanted)
    assert (
        planned.out
        == done.out
        == "routing.models.smart.target: none → tiny\nrouting.models.smart.fallback: none → gone\n"
    )
    for ran in (planned, done):
        assert "warning: routing.models.smart: nothing serves gone at present" in ran.err
    written = tomllib.loads(inferdeck("policy", "get").out)["routing"]["models"]
    assert written == {"smart": {"target": "tiny", "fallback": ["gone"]}}

    deadline = time.monotonic() + PATIENCE_S
    while (ran := inferdeck("route", "hi", "-m", "smart")).code:
        assert time.monotonic() < deadline, ran.err
        time.sleep(0.05)
    assert ran.out.splitlines()[:3] == ["model       tiny", "asked for   smart", "why         smart is tiny"]
    assert " · by tiny" in inferdeck("chat", "hi", "-m", "smart", "--max-tokens", "4").err
    [row] = [row for row in inferdeck("get", "models", "-o", "json").data if row["name"] == "smart"]
    assert (row["kind"], row["targets"], row["fallback"], row["ready_workers"]) == ("alias", ["tiny"], ["gone"], 2)
    assert inferdeck("route", "hi", "-m", "nope").code == 3
    assert inferdeck("route", "hi", "-m", "smart", "--override", "large").code == 2

    refused = inferdeck("policy", "set", "routing.models.tiny.target=gone")
    assert refused.code == 2
    assert "hint: add routing.models.tiny.shadow=true" in refused.err
    assert inferdeck("policy", "set", "routing.models=none").code == 0
