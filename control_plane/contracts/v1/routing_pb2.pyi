from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Routing(_message.Message):
    __slots__ = ("profile", "profiles")
    class ProfilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: RoutingProfile
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[RoutingProfile, _Mapping]] = ...) -> None: ...
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    profile: str
    profiles: _containers.MessageMap[str, RoutingProfile]
    def __init__(self, profile: _Optional[str] = ..., profiles: _Optional[_Mapping[str, RoutingProfile]] = ...) -> None: ...

class RoutingProfile(_message.Message):
    __slots__ = ("weights", "picker", "temperature")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    PICKER_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    weights: _containers.ScalarMap[str, float]
    picker: str
    temperature: float
    def __init__(self, weights: _Optional[_Mapping[str, float]] = ..., picker: _Optional[str] = ..., temperature: _Optional[float] = ...) -> None: ...
