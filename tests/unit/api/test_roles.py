"""What a role may do."""

from __future__ import annotations

from control_plane.api.roles import NEEDED, allows, needed
from control_plane.contracts.access import Role
from control_plane.contracts.v1 import access_pb2, history_pb2, operator_pb2

ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


def test_the_table_has_every_method_of_the_services_and_nothing_else() -> None:
    files = (operator_pb2, access_pb2, history_pb2)
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    methods = {f"/{service.full_name}/{method.name}" for service in services for method in service.methods}
    assert {method for method in NEEDED if not method.startswith("/grpc.reflection.")} == methods


def test_a_higher_role_may_do_what_a_lower_one_may() -> None:
    for method in NEEDED:
        may = [allows(role, method) for role in ROLES]
        assert may == sorted(may)
        assert may[-1]
        assert not allows(Role.UNSPECIFIED, method)


def test_what_the_table_does_not_know_is_for_admins() -> None:
    assert needed("/somewhere.Else/Method") is Role.ADMIN


def test_only_admins_decide_who_may_do_what_and_join_as_routers() -> None:
    for name in ("CreateKey", "SetKey", "RotateKey", "RevokeKey", "SetPolicy", "CreateOperator", "ListAudit"):
        assert needed(f"/inferdeck.v1.Access/{name}") is Role.ADMIN
    assert needed("/inferdeck.v1.Fleet/Join") is Role.ADMIN
    assert needed("/inferdeck.v1.Operator/Cordon") is Role.OPERATOR
