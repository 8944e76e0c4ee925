from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListConversationsRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ConversationRef(_message.Message):
    __slots__ = ("conversation_id",)
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    def __init__(self, conversation_id: _Optional[str] = ...) -> None: ...

class ConversationView(_message.Message):
    __slots__ = ("id", "tenant", "created_unix", "updated_unix", "items", "characters")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    UPDATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    created_unix: float
    updated_unix: float
    items: int
    characters: int
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., created_unix: _Optional[float] = ..., updated_unix: _Optional[float] = ..., items: _Optional[int] = ..., characters: _Optional[int] = ...) -> None: ...

class ItemView(_message.Message):
    __slots__ = ("id", "seq", "role", "status", "turn_id", "turn_status", "characters", "created_unix", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_STATUS_FIELD_NUMBER: _ClassVar[int]
    CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    seq: int
    role: str
    status: str
    turn_id: str
    turn_status: str
    characters: int
    created_unix: float
    text: str
    def __init__(self, id: _Optional[str] = ..., seq: _Optional[int] = ..., role: _Optional[str] = ..., status: _Optional[str] = ..., turn_id: _Optional[str] = ..., turn_status: _Optional[str] = ..., characters: _Optional[int] = ..., created_unix: _Optional[float] = ..., text: _Optional[str] = ...) -> None: ...

class ConversationDetail(_message.Message):
    __slots__ = ("conversation", "items", "taken_unix")
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    conversation: ConversationView
    items: _containers.RepeatedCompositeFieldContainer[ItemView]
    taken_unix: float
    def __init__(self, conversation: _Optional[_Union[ConversationView, _Mapping]] = ..., items: _Optional[_Iterable[_Union[ItemView, _Mapping]]] = ..., taken_unix: _Optional[float] = ...) -> None: ...

class ConversationList(_message.Message):
    __slots__ = ("conversations", "taken_unix")
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[ConversationView]
    taken_unix: float
    def __init__(self, conversations: _Optional[_Iterable[_Union[ConversationView, _Mapping]]] = ..., taken_unix: _Optional[float] = ...) -> None: ...
