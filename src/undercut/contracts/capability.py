"""Protocols whose ``isinstance`` is cheap: a run on a small problem asks some twenty times what its objects can do."""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import get_protocol_members, is_protocol, override

if TYPE_CHECKING:
    ProtocolMeta = ABCMeta
else:
    ProtocolMeta = type(Protocol)


class Capability(ProtocolMeta):
    """The metaclass of a runtime-checkable protocol: its members are listed once, and a named base is enough.

    >>> from typing import runtime_checkable
    >>> @runtime_checkable
    ... class Quacking(Protocol, metaclass=Capability):
    ...     def quack(self): ...
    >>> class Duck:
    ...     def quack(self):
    ...         return "quack"
    >>> isinstance(Duck(), Quacking), isinstance(1, Quacking)
    (True, False)
    """

    @override
    def __instancecheck__(cls, instance: Any) -> bool:
        if cls in type(instance).__mro__:
            return True
        if not is_protocol(cls):
            return ABCMeta.__instancecheck__(cls, instance)
        return all(getattr(instance, name, None) is not None for name in _members(cls))


@cache
def _members(cls: type) -> frozenset[str]:
    return get_protocol_members(cls)
