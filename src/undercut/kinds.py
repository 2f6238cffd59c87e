"""Classes that are chosen when an object is made: a risk of a smooth loss is a ``SmoothRisk``, others are not.

Protocols tell such kinds apart, and ``Capability`` makes that cheap: a run on a small problem asks some twenty times.
"""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from types import new_class
from typing import TYPE_CHECKING, Any, Protocol, cast

from typing_extensions import get_protocol_members, is_protocol, override

if TYPE_CHECKING:
    ProtocolMeta = ABCMeta
else:
    ProtocolMeta = type(Protocol)


class Kinded:
    """An object that takes on more base classes once it knows what it is made of.

    Its class keeps its name; ``isinstance`` tells the difference.  It can be copied and pickled as long as its named
    bases can.

    >>> class Shape(Kinded):
    ...     def __init__(self, sides):
    ...         self.take_kinds(*([Closed] if sides > 2 else []))
    >>> class Closed(Shape):
    ...     def area(self):
    ...         return 1.0
    >>> [(type(shape).__name__, isinstance(shape, Closed)) for shape in (Shape(2), Shape(3))]
    [('Shape', False), ('Shape', True)]
    """

    def take_kinds(self, *kinds: type) -> None:
        """Make this object an instance of all these classes too; they must not add slots."""
        if kinds:
            object.__setattr__(self, "__class__", combined(cast(Any, type(self)), kinds))

    def __reduce__(self) -> tuple[Any, ...]:
        named, kinds = vars(type(self)).get("_combines", (type(self), ()))
        return _blank, (named, kinds), self.__dict__


def named_class(value: object) -> type:
    """The class of an object without the kinds it took on.

    >>> class Open(Kinded):
    ...     pass
    >>> named_class(Open()) is Open
    True
    """
    named: type = vars(type(value)).get("_combines", (type(value), ()))[0]
    return named


@cache
def combined(named: Any, kinds: tuple[Any, ...]) -> Any:
    """The class with the name of ``named`` that derives from it and from ``kinds``; its own methods come first."""
    bases = [base for base in (named, *kinds) if not any(base in kind.__mro__[1:] for kind in kinds)]
    attributes = {"__module__": named.__module__, "__doc__": named.__doc__, "_combines": (named, kinds)}
    return new_class(named.__name__, tuple(bases), exec_body=lambda space: space.update(attributes))


def _blank(named: Any, kinds: tuple[Any, ...]) -> Any:
    """An object of the combined class whose attributes are still to be set."""
    kind = combined(named, kinds) if kinds else named
    return kind.__new__(kind)


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
