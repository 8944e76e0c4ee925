"""The Access service of the operators' API from the outside: keys, policy, operators, audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

from control_plane.contracts.access import (
    AuditList,
    KeyChange,
    KeyList,
    KeySpec,
    NewKey,
    NewOperator,
    OperatorList,
    OperatorView,
    PolicyChange,
    PolicyVersion,
    PolicyVersions,
    Role,
)
from control_plane.contracts.policy import Policy
from control_plane.contracts.v1 import access_pb2 as pb
from control_plane.contracts.v1.access_pb2_grpc import AccessStub
from control_plane.contracts.wire.convert import from_wire, to_wire

Unary = Callable[[Any, Any], Awaitable[Any]]


class AccessClient:
    """Part of an ``OperatorClient``, on its connection: ``unary`` makes a call there and tells what went wrong."""

    def __init__(self, channel: grpc.aio.Channel, unary: Unary) -> None:
        stub: Any = AccessStub
        self._stub = stub(channel)
        self._unary = unary

    async def keys(self) -> KeyList:
        """Every key there ever was, oldest first."""
        return from_wire(await self._unary(self._stub.ListKeys, pb.ListKeysRequest()), KeyList)

    async def create_key(self, spec: KeySpec, *, dry_run: bool = False) -> NewKey:
        request = pb.CreateKeyRequest(spec=to_wire(spec, pb.KeySpec), dry_run=dry_run)
        return from_wire(await self._unary(self._stub.CreateKey, request), NewKey)

    async def set_key(self, key_id: str, assignments: Sequence[str], *, dry_run: bool = False) -> KeyChange:
        """``key_id`` here and below: the id, or the name where one valid key has it."""
        request = pb.SetKeyRequest(key_id=key_id, assignments=assignments, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.SetKey, request), KeyChange)

    async def rotate_key(self, key_id: str, grace_s: float = 0.0, *, dry_run: bool = False) -> NewKey:
        """A new secret; the one before is good for ``grace_s`` seconds. Of 0, every older one ends."""
        request = pb.RotateKeyRequest(key_id=key_id, grace_s=grace_s, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.RotateKey, request), NewKey)

    async def revoke_key(self, key_id: str, *, dry_run: bool = False) -> KeyChange:
        request = pb.KeyRef(key_id=key_id, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.RevokeKey, request), KeyChange)

    async def policy(self, version: int | None = None) -> Policy:
        """The policy in force, or that of a version."""
        return from_wire(await self._unary(self._stub.GetPolicy, pb.GetPolicyRequest(version=version)), Policy)

    async def set_policy(
        self,
        assignments: Sequence[str] = (),
        *,
        document: str | None = None,
        version: int | None = None,
        dry_run: bool = False,
    ) -> PolicyChange:
        """``PATH=VALUE`` on the policy in force, or a whole one as JSON. ``version`` is the one that was looked at."""
        request = pb.SetPolicyRequest(assignments=assignments, document=document, version=version, dry_run=dry_run)
        return from_wire(await self._unary(self._stub.SetPolicy, request), PolicyChange)

    async def policy_history(self) -> tuple[PolicyVersion, ...]:
        answer = await self._unary(self._stub.ListPolicies, pb.ListPoliciesRequest())
        return from_wire(answer, PolicyVersions).versions

    async def operators(self) -> OperatorList:
        return from_wire(await self._unary(self._stub.ListOperators, pb.ListOperatorsRequest()), OperatorList)

    async def create_operator(self, name: str, role: Role, *, dry_run: bool = False) -> NewOperator:
        request = pb.CreateOperatorRequest(name=name, role=f"ROLE_{role.name}", dry_run=dry_run)
        return from_wire(await self._unary(self._stub.CreateOperator, request), NewOperator)

    async def revoke_operator(self, operator_id: str, *, dry_run: bool = False) -> OperatorView:
        request = pb.OperatorRef(operator_id=operator_id, dry_run=dry_run)
        answer = await self._unary(self._stub.RevokeOperator, request)
        return from_wire(answer, OperatorList).operators[0]

    async def audit(self, limit: int = 0) -> AuditList:
        """The newest so many entries (0: the server's default), oldest first."""
        return from_wire(await self._unary(self._stub.ListAudit, pb.ListAuditRequest(limit=limit)), AuditList)
