"""The policy's versions in the store, on both databases; and operators."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

from control_plane.contracts.access import KeySpec, Role
from control_plane.contracts.errors import Conflict, InvalidRequest, NotFound
from control_plane.contracts.policy import Policy
from control_plane.contracts.policy_document import assigned
from control_plane.store import ApiKeys, Audit, Database, Operators, Policies
from control_plane.store.secret import digest
from tests.unit.store.conftest import ADMIN, Open


def change(policies: Policies, *assignments: str, version: int | None = None, dry_run: bool = False) -> int:
    made = policies.set(lambda policy: assigned(policy, assignments), ADMIN, version=version, dry_run=dry_run)
    return made.after.version


def test_the_first_policy_comes_with_the_program(database: Database) -> None:
    assert Policies(database).get() == Policies(database).get(0) == Policy()
    assert Policies(database).history() == ()


def test_each_change_is_a_version_that_can_be_read_again(database: Database) -> None:
    policies = Policies(database)
    assert change(policies, "tiers.free.rpm=10", "tenants.acme.tpm=5000") == 1
    assert change(policies, "tiers.free.rpm=none") == 2
    assert policies.get().tiers["free"].limits.rpm is None
    assert policies.get(1).tiers["free"].limits.rpm == 10
    first, second = policies.history()
    assert (first.version, first.by) == (1, "ann")
    assert first.differences == ("tiers.free.rpm: 20 → 10", "tenants.acme.tpm: none → 5000")
    assert second.differences == ("tiers.free.rpm: 10 → none",)
    with pytest.raises(NotFound):
        policies.get(9)
    assert [entry.action for entry in Audit(database).newest()] == ["policy.set", "policy.set"]


def test_what_changes_nothing_and_a_dry_run_make_no_version(database: Database) -> None:
    policies = Policies(database)
    assert change(policies, "tiers.free.rpm=20") == 0
    assert change(policies, "tiers.free.rpm=10", dry_run=True) == 1
    assert policies.get() == Policy()
    assert Audit(database).newest() == ()


def test_a_stale_version_is_a_conflict(database: Database) -> None:
    policies = Policies(database)
    assert change(policies, "tiers.free.rpm=10", version=0) == 1
    with pytest.raises(Conflict, match="1 is in force") as caught:
        change(policies, "tiers.free.rpm=11", version=0)
    assert caught.value.param == "version"
    assert policies.get().version == 1


def test_of_several_who_change_the_same_version_at_once_one_does(open_store: Open, database: Database) -> None:
    def attempt(number: int) -> bool:
        try:
            return change(Policies(stores[number]), f"tiers.free.rpm={number + 1}", version=0) == 1
        except Conflict:
            return False

    stores = [open_store() for _ in range(5)]
    with ThreadPoolExecutor(5) as threads:
        assert sum(threads.map(attempt, range(5))) == 1
    assert Policies(database).get().version == 1


def test_a_tier_that_keys_have_cannot_be_taken_away(database: Database) -> None:
    keys, policies = ApiKeys(database), Policies(database)
    made = keys.create(KeySpec("k", tier="free"), ADMIN)
    with pytest.raises(Conflict, match=made.view.id) as caught:
        change(policies, "tiers.free=none")
    assert caught.value.param == "tiers.free"
    keys.revoke(made.view.id, ADMIN)
    change(policies, "tiers.free=none")
    with pytest.raises(InvalidRequest, match="there is no tier 'free'; there are enterprise, paid"):
        keys.create(KeySpec("k", tier="free"), ADMIN)


def test_a_whole_policy_replaces_the_one_before(database: Database) -> None:
    policies = Policies(database)
    wanted = dataclasses.replace(Policy(), tenants={}, limit_store_down="closed")
    assert policies.set(lambda _: wanted, ADMIN).after == dataclasses.replace(wanted, version=1)


def test_operators_come_and_go(database: Database) -> None:
    """SE05: operators' keys are stored hashed, and are in no audit row."""
    operators = Operators(database)
    ann = operators.create("ann", Role.VIEWER, ADMIN)
    assert ann.key.startswith("op-inferdeck-")
    assert ann.key not in repr(ann)
    assert operators.lookup(ann.key) == ann.view
    assert operators.lookup(ann.key + "x") is None
    with pytest.raises(Conflict, match="already"):
        operators.create("ann", Role.ADMIN, ADMIN)
    revoked = operators.revoke("ann", ADMIN)
    assert (revoked.id, revoked.state) == (ann.view.id, "revoked")
    assert operators.revoke(ann.view.id, ADMIN) == revoked
    assert operators.lookup(ann.key) is None
    again = operators.create("ann", Role.ADMIN, ADMIN)
    assert operators.revoke("ann", ADMIN).id == again.view.id
    assert [view.id for view in operators.all()] == [ann.view.id, again.view.id]
    entries = Audit(database).newest()
    assert [entry.action for entry in entries] == ["operator.create", "operator.revoke"] * 2
    for secret in (ann.key, digest(ann.key)):
        assert secret not in str(entries)


@pytest.mark.parametrize(("name", "role", "param"), [("", Role.VIEWER, "name"), ("a", Role.UNSPECIFIED, "role")])
def test_an_operator_has_a_name_and_a_role(database: Database, name: str, role: Role, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Operators(database).create(name, role, ADMIN)
    assert caught.value.param == param
    with pytest.raises(NotFound):
        Operators(database).revoke("nobody", ADMIN)


def test_a_dry_run_of_an_operator_checks_and_changes_nothing(database: Database) -> None:
    operators = Operators(database)
    planned = operators.create("ann", Role.VIEWER, ADMIN, dry_run=True)
    assert (planned.view.name, planned.key, operators.all()) == ("ann", "", ())
    made = operators.create("ann", Role.VIEWER, ADMIN)
    with pytest.raises(Conflict):
        operators.create("ann", Role.ADMIN, ADMIN, dry_run=True)
    entries = Audit(database).newest()
    assert operators.revoke("ann", ADMIN, dry_run=True).state == "revoked"
    assert operators.all() == (made.view,)
    assert operators.lookup(made.key) == made.view
    with pytest.raises(NotFound):
        operators.revoke("nobody", ADMIN, dry_run=True)
    assert Audit(database).newest() == entries
