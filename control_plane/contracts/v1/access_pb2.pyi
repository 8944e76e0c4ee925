from control_plane.contracts.v1 import routing_pb2 as _routing_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_VIEWER: _ClassVar[Role]
    ROLE_OPERATOR: _ClassVar[Role]
    ROLE_ADMIN: _ClassVar[Role]
ROLE_UNSPECIFIED: Role
ROLE_VIEWER: Role
ROLE_OPERATOR: Role
ROLE_ADMIN: Role

class Limits(_message.Message):
    __slots__ = ("rpm", "tpm", "concurrency")
    RPM_FIELD_NUMBER: _ClassVar[int]
    TPM_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    rpm: int
    tpm: int
    concurrency: int
    def __init__(self, rpm: _Optional[int] = ..., tpm: _Optional[int] = ..., concurrency: _Optional[int] = ...) -> None: ...

class Tier(_message.Message):
    __slots__ = ("priority", "weight", "limits", "default_max_tokens", "queue_deadline_s", "models", "at_busy", "at_reject", "min_share")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    AT_BUSY_FIELD_NUMBER: _ClassVar[int]
    AT_REJECT_FIELD_NUMBER: _ClassVar[int]
    MIN_SHARE_FIELD_NUMBER: _ClassVar[int]
    priority: int
    weight: int
    limits: Limits
    default_max_tokens: int
    queue_deadline_s: float
    models: _containers.RepeatedScalarFieldContainer[str]
    at_busy: str
    at_reject: str
    min_share: float
    def __init__(self, priority: _Optional[int] = ..., weight: _Optional[int] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., default_max_tokens: _Optional[int] = ..., queue_deadline_s: _Optional[float] = ..., models: _Optional[_Iterable[str]] = ..., at_busy: _Optional[str] = ..., at_reject: _Optional[str] = ..., min_share: _Optional[float] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("version", "tiers", "tenants", "limit_store_down", "routing", "keeping")
    class TiersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Tier
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Tier, _Mapping]] = ...) -> None: ...
    class TenantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Limits
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_STORE_DOWN_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    KEEPING_FIELD_NUMBER: _ClassVar[int]
    version: int
    tiers: _containers.MessageMap[str, Tier]
    tenants: _containers.MessageMap[str, Limits]
    limit_store_down: str
    routing: _routing_pb2.Routing
    keeping: Keeping
    def __init__(self, version: _Optional[int] = ..., tiers: _Optional[_Mapping[str, Tier]] = ..., tenants: _Optional[_Mapping[str, Limits]] = ..., limit_store_down: _Optional[str] = ..., routing: _Optional[_Union[_routing_pb2.Routing, _Mapping]] = ..., keeping: _Optional[_Union[Keeping, _Mapping]] = ...) -> None: ...

class Keeping(_message.Message):
    __slots__ = ("conversations", "tenants")
    class TenantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    conversations: int
    tenants: _containers.ScalarMap[str, int]
    def __init__(self, conversations: _Optional[int] = ..., tenants: _Optional[_Mapping[str, int]] = ...) -> None: ...

class KeySpec(_message.Message):
    __slots__ = ("name", "tenant", "tier", "limits", "models", "expires_unix")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    tier: str
    limits: Limits
    models: _containers.RepeatedScalarFieldContainer[str]
    expires_unix: float
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., tier: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., models: _Optional[_Iterable[str]] = ..., expires_unix: _Optional[float] = ...) -> None: ...

class KeyView(_message.Message):
    __slots__ = ("id", "prefix", "spec", "created_unix", "revoked_unix", "rotated_unix", "old_until_unix", "old_ends_unix")
    ID_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    REVOKED_UNIX_FIELD_NUMBER: _ClassVar[int]
    ROTATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    OLD_UNTIL_UNIX_FIELD_NUMBER: _ClassVar[int]
    OLD_ENDS_UNIX_FIELD_NUMBER: _ClassVar[int]
    id: str
    prefix: str
    spec: KeySpec
    created_unix: float
    revoked_unix: float
    rotated_unix: float
    old_until_unix: float
    old_ends_unix: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, id: _Optional[str] = ..., prefix: _Optional[str] = ..., spec: _Optional[_Union[KeySpec, _Mapping]] = ..., created_unix: _Optional[float] = ..., revoked_unix: _Optional[float] = ..., rotated_unix: _Optional[float] = ..., old_until_unix: _Optional[float] = ..., old_ends_unix: _Optional[_Iterable[float]] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeyList(_message.Message):
    __slots__ = ("keys", "taken_unix", "home_key")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    HOME_KEY_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[KeyView]
    taken_unix: float
    home_key: HomeKey
    def __init__(self, keys: _Optional[_Iterable[_Union[KeyView, _Mapping]]] = ..., taken_unix: _Optional[float] = ..., home_key: _Optional[_Union[HomeKey, _Mapping]] = ...) -> None: ...

class HomeKey(_message.Message):
    __slots__ = ("key_id", "state", "until_unix")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UNIX_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    state: str
    until_unix: float
    def __init__(self, key_id: _Optional[str] = ..., state: _Optional[str] = ..., until_unix: _Optional[float] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("spec", "dry_run")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    spec: KeySpec
    dry_run: bool
    def __init__(self, spec: _Optional[_Union[KeySpec, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class NewKey(_message.Message):
    __slots__ = ("key", "view")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    key: str
    view: KeyView
    def __init__(self, key: _Optional[str] = ..., view: _Optional[_Union[KeyView, _Mapping]] = ...) -> None: ...

class KeyRef(_message.Message):
    __slots__ = ("key_id", "dry_run")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    dry_run: bool
    def __init__(self, key_id: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SetKeyRequest(_message.Message):
    __slots__ = ("key_id", "assignments", "dry_run")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    assignments: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    def __init__(self, key_id: _Optional[str] = ..., assignments: _Optional[_Iterable[str]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class RotateKeyRequest(_message.Message):
    __slots__ = ("key_id", "grace_s", "dry_run")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    grace_s: float
    dry_run: bool
    def __init__(self, key_id: _Optional[str] = ..., grace_s: _Optional[float] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class KeyChange(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: KeyView
    after: KeyView
    def __init__(self, before: _Optional[_Union[KeyView, _Mapping]] = ..., after: _Optional[_Union[KeyView, _Mapping]] = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("assignments", "document", "version", "dry_run")
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    assignments: _containers.RepeatedScalarFieldContainer[str]
    document: str
    version: int
    dry_run: bool
    def __init__(self, assignments: _Optional[_Iterable[str]] = ..., document: _Optional[str] = ..., version: _Optional[int] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class PolicyChange(_message.Message):
    __slots__ = ("before", "after", "warnings")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    before: Policy
    after: Policy
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, before: _Optional[_Union[Policy, _Mapping]] = ..., after: _Optional[_Union[Policy, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ListPoliciesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PolicyVersion(_message.Message):
    __slots__ = ("version", "at_unix", "by", "differences")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    version: int
    at_unix: float
    by: str
    differences: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., at_unix: _Optional[float] = ..., by: _Optional[str] = ..., differences: _Optional[_Iterable[str]] = ...) -> None: ...

class PolicyVersions(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[PolicyVersion]
    def __init__(self, versions: _Optional[_Iterable[_Union[PolicyVersion, _Mapping]]] = ...) -> None: ...

class OperatorView(_message.Message):
    __slots__ = ("id", "name", "role", "prefix", "created_unix", "revoked_unix")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    REVOKED_UNIX_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    role: Role
    prefix: str
    created_unix: float
    revoked_unix: float
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., prefix: _Optional[str] = ..., created_unix: _Optional[float] = ..., revoked_unix: _Optional[float] = ...) -> None: ...

class ListOperatorsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OperatorList(_message.Message):
    __slots__ = ("operators", "taken_unix")
    OPERATORS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    operators: _containers.RepeatedCompositeFieldContainer[OperatorView]
    taken_unix: float
    def __init__(self, operators: _Optional[_Iterable[_Union[OperatorView, _Mapping]]] = ..., taken_unix: _Optional[float] = ...) -> None: ...

class CreateOperatorRequest(_message.Message):
    __slots__ = ("name", "role", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: Role
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class NewOperator(_message.Message):
    __slots__ = ("key", "view")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    key: str
    view: OperatorView
    def __init__(self, key: _Optional[str] = ..., view: _Optional[_Union[OperatorView, _Mapping]] = ...) -> None: ...

class OperatorRef(_message.Message):
    __slots__ = ("operator_id", "dry_run")
    OPERATOR_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    operator_id: str
    dry_run: bool
    def __init__(self, operator_id: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("seq", "at_unix", "actor", "actor_name", "role", "action", "target", "before", "after", "request_id")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ACTOR_NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at_unix: float
    actor: str
    actor_name: str
    role: str
    action: str
    target: str
    before: str
    after: str
    request_id: str
    def __init__(self, seq: _Optional[int] = ..., at_unix: _Optional[float] = ..., actor: _Optional[str] = ..., actor_name: _Optional[str] = ..., role: _Optional[str] = ..., action: _Optional[str] = ..., target: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AuditList(_message.Message):
    __slots__ = ("entries", "taken_unix")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    taken_unix: float
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ..., taken_unix: _Optional[float] = ...) -> None: ...
