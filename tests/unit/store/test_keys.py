"""API keys in the store, on both databases."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from control_plane.contracts.access import HomeKey, KeySpec, KeyView
from control_plane.contracts.errors import Conflict, InvalidRequest, NotFound
from control_plane.contracts.grant import Grant
from control_plane.contracts.policy import Limits
from control_plane.contracts.policy_document import assigned
from control_plane.store import ApiKeys, Audit, Database, Policies
from control_plane.store.secret import digest
from control_plane.store.tables import metadata
from tests.unit.store.conftest import ADMIN, Open

UNLIMITED = KeySpec("first", "acme", "enterprise")


def sha(key: str) -> bytes:
    return bytes.fromhex(digest(key))


def everything_stored(database: Database) -> str:
    with database.transaction() as connection:
        return "".join(str(connection.execute(sa.select(table)).all()) for table in metadata.sorted_tables)


def test_a_key_is_found_until_it_is_revoked_and_stored_as_a_digest_only(database: Database) -> None:
    """SE05: keys are stored hashed, and shown by id and prefix."""
    keys = ApiKeys(database)
    made = keys.create(UNLIMITED, ADMIN)
    assert made.key.startswith("sk-inferdeck-")
    assert len(made.key) == len("sk-inferdeck-") + 32
    assert made.key not in repr(made)
    assert keys.lookup(made.key) == made.view
    assert made.view.prefix == made.key[:17]
    for wrong in (made.key + "x", "", "\udcff"):
        assert keys.lookup(wrong) is None
    assert keys.revoke(made.view.id, ADMIN).after.revoked_unix is not None
    again = keys.revoke(made.view.id, ADMIN)
    assert again.before == again.after
    assert keys.lookup(made.key) is None
    assert [each.id for each in keys.all()] == [made.view.id]
    assert made.key not in everything_stored(database)


def test_a_grant_is_what_the_key_has_of_its_own_and_what_its_tier_says(database: Database) -> None:
    keys, policies = ApiKeys(database), Policies(database)
    assignments = ("tiers.paid.models=a,b", "tenants.acme.tpm=5000", "tiers.paid.concurrency=9")
    policies.set(lambda policy: assigned(policy, assignments), ADMIN)
    soon = time.time() + 3600
    spec = KeySpec("k", "acme", "paid", Limits(rpm=60), expires_unix=soon)
    key = keys.create(spec, ADMIN)
    tier = policies.get().tiers["paid"]
    grant = keys.grants()[sha(key.key)]
    assert grant == Grant(
        key.view.id,
        "acme",
        "paid",
        tier.priority,
        tier.weight,
        Limits(60, tier.limits.tpm, 9),
        Limits(tpm=5000),
        tier.default_max_tokens,
        tier.queue_deadline_s,
        ("a", "b"),
        soon,
        at_busy="queue",
        at_reject="queue",
        min_share=0.1,
    )
    assert grant.allows("a")
    assert not grant.allows("c")
    keys.change(key.view.id, ("models=c", "tier=enterprise", "rpm=none", "expires_unix=none"), ADMIN)
    changed = keys.grants()[sha(key.key)]
    assert (changed.models, changed.tier, changed.limits, changed.expires_unix) == (
        ("c",),
        "enterprise",
        Limits(),
        None,
    )


def test_the_grants_are_the_same_object_until_something_changes_anywhere(database: Database, open_store: Open) -> None:
    other = open_store()
    mine, theirs = ApiKeys(database), ApiKeys(other)
    assert mine.grants() == {}
    first, second = theirs.create(UNLIMITED, ADMIN), theirs.create(KeySpec("b"), ADMIN)
    found = mine.grants()
    assert set(found) == {sha(first.key), sha(second.key)}
    assert mine.grants() is found
    theirs.change(second.view.id, ("rpm=3",), ADMIN)
    assert mine.grants()[sha(second.key)].limits.rpm == 3
    Policies(other).set(lambda policy: assigned(policy, ("tiers.enterprise.rpm=7",)), ADMIN)
    assert mine.grants()[sha(first.key)].limits.rpm == 7
    theirs.revoke(first.view.id, ADMIN)
    assert set(mine.grants()) == {sha(second.key)}
    unchanged = mine.grants()
    theirs.change(second.view.id, ("rpm=3",), ADMIN)
    theirs.create(KeySpec("c"), ADMIN, dry_run=True)
    assert mine.grants() is unchanged


def test_a_rotated_key_has_its_new_secret_at_once_and_the_old_one_for_the_grace(database: Database) -> None:
    keys = ApiKeys(database)
    first = keys.create(UNLIMITED, ADMIN)
    before = time.time()
    old, second = keys.rotate(first.view.id, 60.0, ADMIN)
    assert old == digest(first.key)
    grants = keys.grants()
    assert grants[sha(second.key)].expires_unix is None
    until = grants[sha(first.key)].expires_unix
    assert until is not None
    assert before + 60 <= until <= time.time() + 60
    assert (second.view.id, second.view.spec) == (first.view.id, first.view.spec)
    assert keys.all() == (second.view,)
    _, third = keys.rotate(first.view.id, 0.0, ADMIN)
    assert set(keys.grants()) == {sha(third.key)}, "of two rotations only the last one has a grace"
    assert keys.lookup(first.key) is keys.lookup(second.key) is None


def test_a_grace_that_was_given_is_kept_by_the_next_rotation_that_gives_one(database: Database) -> None:
    keys = ApiKeys(database)
    first = keys.create(UNLIMITED, ADMIN)
    _, second = keys.rotate(first.view.id, 3600.0, ADMIN)
    planned = keys.rotate(first.view.id, 60.0, ADMIN, dry_run=True)[1].view
    _, third = keys.rotate(first.view.id, 60.0, ADMIN)
    grants = keys.grants()
    ends = [grants[sha(secret.key)].expires_unix for secret in (second, first)]
    assert tuple(ends) == third.view.old_ends_unix, "the first first"
    assert ends[1] == third.view.old_until_unix
    assert planned.old_ends_unix[1] == ends[1]
    assert grants[sha(third.key)].expires_unix is None
    assert keys.all() == (third.view,)
    after = json.loads(Audit(database).newest()[-1].after)
    assert (after["grace_s"], after["old_ends_unix"]) == (60.0, list(third.view.old_ends_unix))
    last = keys.rotate(first.view.id, 0.0, ADMIN)[1]
    assert last.view.old_ends_unix == ()
    assert set(keys.grants()) == {sha(last.key)}
    assert keys.all() == (last.view,)


def test_no_secret_of_a_revoked_key_is_told_as_good(database: Database) -> None:
    keys = ApiKeys(database)
    first = keys.create(UNLIMITED, ADMIN)
    rotated = keys.rotate(first.view.id, 3600.0, ADMIN)[1].view
    assert rotated.old_ends_unix
    keys.revoke(first.view.id, ADMIN)
    (view,) = keys.all()
    assert (view.old_until_unix, view.old_ends_unix) == (None, ())


def test_what_the_secret_in_a_homes_file_is(database: Database) -> None:
    keys = ApiKeys(database)
    first = keys.create(dataclasses.replace(UNLIMITED, expires_unix=time.time() + 3600), ADMIN)
    assert keys.home_key("") == HomeKey(state="missing")
    assert keys.home_key("sk-inferdeck-other") == HomeKey(state="unknown")
    assert keys.home_key(first.key) == HomeKey(first.view.id, "active")
    _, second = keys.rotate(first.view.id, 60.0, ADMIN)
    old = keys.home_key(first.key)
    assert (old.key_id, old.state, old.until_unix) == (first.view.id, "rotated", second.view.old_until_unix)
    assert not old.lost(time.time())
    assert old.lost(time.time() + 61)
    keys.revoke(first.view.id, ADMIN)
    for secret in (first.key, second.key):
        revoked = keys.home_key(secret)
        assert (revoked.key_id, revoked.state, revoked.lost(time.time())) == (first.view.id, "revoked", True)


def test_an_old_secret_ends_with_its_key(database: Database) -> None:
    keys = ApiKeys(database)
    soon = time.time() + 5
    first = keys.create(dataclasses.replace(UNLIMITED, expires_unix=soon), ADMIN)
    keys.rotate(first.view.id, 60.0, ADMIN)
    assert keys.grants()[sha(first.key)].expires_unix == soon
    keys.revoke(first.view.id, ADMIN)
    assert keys.grants() == {}


def test_an_expired_key_gets_no_new_secret(database: Database) -> None:
    keys = ApiKeys(database)
    made = keys.create(dataclasses.replace(UNLIMITED, expires_unix=time.time() + 0.05), ADMIN)
    time.sleep(0.06)
    with pytest.raises(Conflict, match="has expired") as refused:
        keys.rotate(made.view.id, 0.0, ADMIN)
    assert "expires=" in refused.value.hint


def test_a_secret_that_was_rotated_away_does_not_come_back_as_another_key(database: Database) -> None:
    keys = ApiKeys(database)
    given = keys.add("sk-inferdeck-given", UNLIMITED, ADMIN)
    assert keys.add("sk-inferdeck-given", KeySpec("other"), ADMIN) == given
    _, new = keys.rotate(given.id, 0.0, ADMIN)
    assert keys.add("sk-inferdeck-given", KeySpec("other"), ADMIN) == new.view
    assert set(keys.grants()) == {sha(new.key)}


@pytest.mark.parametrize(
    ("spec", "param"),
    [
        (KeySpec(""), "name"),
        (KeySpec("a\n"), "name"),
        (KeySpec("a", tenant="no spaces"), "tenant"),
        (KeySpec("a", tier="gold"), "tier"),
        (KeySpec("a", limits=Limits(rpm=0)), "rpm"),
        (KeySpec("a", limits=Limits(tpm=-1)), "tpm"),
        (KeySpec("a", models=("",)), "models"),
        (KeySpec("a", expires_unix=1.0), "expires_unix"),
        (KeySpec("a", expires_unix=float("nan")), "expires_unix"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(spec: KeySpec, param: str, tmp_path: Path) -> None:
    database = Database.open("", tmp_path / "x.db")
    with pytest.raises(InvalidRequest) as caught:
        ApiKeys(database).create(spec, ADMIN)
    assert caught.value.param == param
    assert ApiKeys(database).all() == ()
    assert Audit(database).newest() == ()
    database.close()


def test_a_key_is_found_by_its_name_where_one_valid_key_has_it(database: Database) -> None:
    keys = ApiKeys(database)
    first, second = keys.create(KeySpec("twin"), ADMIN), keys.create(KeySpec("twin"), ADMIN)
    with pytest.raises(InvalidRequest, match=f"{first.view.id}.*{second.view.id}|{second.view.id}.*{first.view.id}"):
        keys.revoke("twin", ADMIN)
    keys.revoke(first.view.id, ADMIN)
    assert keys.revoke("twin", ADMIN).after.id == second.view.id
    with pytest.raises(NotFound):
        keys.revoke("nobody", ADMIN)
    for call in (lambda: keys.rotate(first.view.id, 0.0, ADMIN), lambda: keys.change(first.view.id, ("rpm=1",), ADMIN)):
        with pytest.raises(Conflict, match="revoked"):
            call()


@pytest.mark.parametrize("grace_s", [-1.0, float("nan"), float("inf"), 31 * 86400.0])
def test_a_grace_has_bounds(database: Database, grace_s: float) -> None:
    key = ApiKeys(database).create(UNLIMITED, ADMIN)
    with pytest.raises(InvalidRequest, match="grace_s"):
        ApiKeys(database).rotate(key.view.id, grace_s, ADMIN)


def test_a_dry_run_checks_and_changes_nothing(database: Database) -> None:
    keys = ApiKeys(database)
    key = keys.create(UNLIMITED, ADMIN)
    stored = everything_stored(database)
    assert keys.create(KeySpec("b"), ADMIN, dry_run=True).key == ""
    assert keys.change(key.view.id, ("rpm=1",), ADMIN, dry_run=True).after.spec.limits.rpm == 1
    assert keys.rotate(key.view.id, 1.0, ADMIN, dry_run=True)[1].key == ""
    assert keys.revoke(key.view.id, ADMIN, dry_run=True).after.revoked_unix is not None
    with pytest.raises(InvalidRequest):
        keys.create(KeySpec("b", tier="gold"), ADMIN, dry_run=True)
    assert everything_stored(database) == stored


def test_every_write_is_audited_with_what_was_and_what_is(database: Database) -> None:
    """SE05: audit rows have no key."""
    keys = ApiKeys(database)
    made = keys.create(KeySpec("k", limits=Limits(rpm=5)), ADMIN)
    keys.change(made.view.id, ("rpm=6",), ADMIN)
    _, new = keys.rotate(made.view.id, 0.0, ADMIN)
    keys.revoke(made.view.id, ADMIN)
    entries = Audit(database).newest()
    assert [entry.action for entry in entries] == ["key.create", "key.set", "key.rotate", "key.revoke"]
    assert {(e.actor, e.actor_name, e.role, e.request_id, e.target) for e in entries} == {
        ("op-1", "ann", "admin", "req-1", f"key/{made.view.id}")
    }
    assert '"rpm": 5' in entries[1].before
    assert '"rpm": 6' in entries[1].after
    assert '"state": "revoked"' in entries[3].after
    assert entries[0].before == "{}"
    for secret in (made.key, new.key, digest(made.key), digest(new.key)):
        assert secret not in str(entries)
    assert [entry.seq for entry in Audit(database).newest(2)] == [entries[2].seq, entries[3].seq]


def test_keys_that_several_make_at_once_are_all_there(open_store: Open, database: Database) -> None:
    stores = [ApiKeys(open_store()) for _ in range(4)]

    def make(store: ApiKeys) -> list[KeyView]:
        return [store.create(KeySpec("k"), ADMIN).view for _ in range(10)]

    with ThreadPoolExecutor(4) as threads:
        made = [view for views in threads.map(make, stores) for view in views]
    assert {view.id for view in ApiKeys(database).all()} == {view.id for view in made}
    assert len(ApiKeys(database).grants()) == 40
    assert len(Audit(database).newest()) == 40


def test_sqlite_lookups_go_on_while_another_process_writes(path: Path) -> None:
    database = Database.open("", path)
    keys = ApiKeys(database)
    made = keys.create(UNLIMITED, ADMIN)
    writer = sqlite3.connect(path)
    writer.execute("BEGIN EXCLUSIVE")
    assert keys.lookup(made.key) == made.view
    assert keys.lookup("sk-inferdeck-unknown") is None
    assert set(keys.grants()) == {sha(made.key)}
    writer.rollback()
    writer.close()
    database.close()
