"""The service of ``access.proto``: the store's words, on threads."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any, Protocol

from control_plane.api.answering import Context, unary, write
from control_plane.api.auth import Access
from control_plane.api.caller import caller
from control_plane.contracts.access import (
    AuditList,
    KeyList,
    KeySpec,
    NewKey,
    OperatorList,
    PolicyVersions,
    Role,
)
from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.model_routes import shadowed, warnings
from control_plane.contracts.policy import Policy
from control_plane.contracts.policy_document import assigned, policy_of
from control_plane.contracts.v1 import access_pb2 as pb
from control_plane.contracts.v1 import access_pb2_grpc
from control_plane.contracts.wire.convert import from_wire, to_wire
from control_plane.tasks import Works

PolicyChanged = Callable[[], None]


class HomeSecret(Protocol):
    """The API key in the home's file. Both may block."""

    def read(self) -> str:
        """Empty where there is none."""
        ...

    def follow(self, old_digest: str, key: str) -> None:
        """The secret with this digest was rotated away, and this is the new one."""
        ...


class AccessService(access_pb2_grpc.AccessServicer):
    """``models`` are those that pools serve: what a policy says of models is held against them."""

    def __init__(
        self,
        access: Access,
        home: HomeSecret,
        policy_changed: PolicyChanged,
        models: Callable[[], frozenset[str]],
    ) -> None:
        self._access = access
        self._models = models
        self._policy_changed = policy_changed
        self._home = home
        self.works = Works()

    @unary
    async def ListKeys(self, request: pb.ListKeysRequest, context: Context) -> pb.KeyList:  # noqa: N802
        def read() -> KeyList:
            keys = self._access.keys
            return KeyList(keys.all(), time.time(), keys.home_key(self._home.read()))

        return to_wire(await asyncio.to_thread(read), pb.KeyList)

    @write
    async def CreateKey(self, request: pb.CreateKeyRequest, context: Context) -> pb.NewKey:  # noqa: N802
        spec = from_wire(request.spec, KeySpec)
        return await self._new_key(self._access.keys.create, spec, caller().actor, dry_run=request.dry_run)

    @write
    async def SetKey(self, request: pb.SetKeyRequest, context: Context) -> pb.KeyChange:  # noqa: N802
        assignments = tuple(request.assignments)
        change = await asyncio.to_thread(
            self._access.keys.change, request.key_id, assignments, caller().actor, dry_run=request.dry_run
        )
        return to_wire(change, pb.KeyChange)

    @write
    async def RotateKey(self, request: pb.RotateKeyRequest, context: Context) -> pb.NewKey:  # noqa: N802
        actor, dry_run = caller().actor, request.dry_run

        def rotate() -> NewKey:
            old, new = self._access.keys.rotate(request.key_id, request.grace_s, actor, dry_run=dry_run)
            if not dry_run:
                self._home.follow(old, new.key)
            return new

        return await self._new_key(rotate)

    @write
    async def RevokeKey(self, request: pb.KeyRef, context: Context) -> pb.KeyChange:  # noqa: N802
        change = await asyncio.to_thread(
            self._access.keys.revoke, request.key_id, caller().actor, dry_run=request.dry_run
        )
        return to_wire(change, pb.KeyChange)

    @unary
    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> pb.Policy:  # noqa: N802
        version = request.version if request.HasField("version") else None
        return to_wire(await asyncio.to_thread(self._access.policies.get, version), pb.Policy)

    @write
    async def SetPolicy(self, request: pb.SetPolicyRequest, context: Context) -> pb.PolicyChange:  # noqa: N802
        version = request.version if request.HasField("version") else None
        change = await asyncio.to_thread(
            self._access.policies.set,
            self._unshadowing(_policy_change(request)),
            caller().actor,
            version=version,
            dry_run=request.dry_run,
        )
        self._policy_changed()
        told = warnings(change.after.routing.models, self._models())
        return to_wire(dataclasses.replace(change, warnings=told), pb.PolicyChange)

    @unary
    async def ListPolicies(self, request: pb.ListPoliciesRequest, context: Context) -> pb.PolicyVersions:  # noqa: N802
        versions = await asyncio.to_thread(self._access.policies.history)
        return to_wire(PolicyVersions(versions), pb.PolicyVersions)

    @unary
    async def ListOperators(self, request: pb.ListOperatorsRequest, context: Context) -> pb.OperatorList:  # noqa: N802
        operators = await asyncio.to_thread(self._access.operators.all)
        return to_wire(OperatorList(operators, time.time()), pb.OperatorList)

    @write
    async def CreateOperator(self, request: pb.CreateOperatorRequest, context: Context) -> pb.NewOperator:  # noqa: N802
        try:
            role = Role(request.role)
        except ValueError:
            role = Role.UNSPECIFIED
        new = await asyncio.to_thread(
            self._access.operators.create, request.name, role, caller().actor, dry_run=request.dry_run
        )
        return to_wire(new, pb.NewOperator)

    @write
    async def RevokeOperator(self, request: pb.OperatorRef, context: Context) -> pb.OperatorList:  # noqa: N802
        revoked = await asyncio.to_thread(
            self._access.operators.revoke, request.operator_id, caller().actor, dry_run=request.dry_run
        )
        return to_wire(OperatorList((revoked,), time.time()), pb.OperatorList)

    @unary
    async def ListAudit(self, request: pb.ListAuditRequest, context: Context) -> pb.AuditList:  # noqa: N802
        entries = await asyncio.to_thread(self._access.audit.newest, request.limit)
        return to_wire(AuditList(entries, time.time()), pb.AuditList)

    def _unshadowing(self, change: Callable[[Policy], Policy]) -> Callable[[Policy], Policy]:
        """The same change, refused where a route would take the name of a model that is served without saying so."""

        def checked(before: Policy) -> Policy:
            after = change(before)
            name = shadowed(before.routing.models, after.routing.models, self._models())
            if name is not None:
                path = f"routing.models.{name}"
                raise InvalidRequest(
                    f"{path}: a pool serves a model of this name; say that this is meant, or take another name",
                    param=path,
                    hint=f"add {path}.shadow=true",
                )
            return after

        return checked

    async def _new_key(self, make: Callable[..., NewKey], *arguments: Any, **options: Any) -> pb.NewKey:
        return to_wire(await asyncio.to_thread(make, *arguments, **options), pb.NewKey)


def _policy_change(request: pb.SetPolicyRequest) -> Callable[[Policy], Policy]:
    """What is to be done to the policy in force. Raises InvalidRequest."""
    if not request.HasField("document"):
        if not request.assignments:
            raise InvalidRequest("assignments: nothing is to be set", param="assignments")
        assignments = tuple(request.assignments)
        return lambda policy: assigned(policy, assignments)
    if request.assignments:
        raise InvalidRequest("document: either a whole policy or assignments", param="document")
    try:
        wanted = policy_of(json.loads(request.document))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"document: this is no JSON: {error}", param="document") from None
    return lambda policy: dataclasses.replace(wanted, version=policy.version)
