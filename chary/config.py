"""Settings: which values a field takes, how presets fill them in, and how they are written down.

A field's type says what it takes, as in `tau: Share = 0.005`. `Checked` refuses everything else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from chary.errors import CharyError, unknown_name

Positive: TypeAlias = Annotated[int, Ge(1)]
Count: TypeAlias = Annotated[int, Ge(0)]
Several: TypeAlias = Annotated[int, Ge(2)]
Rate: TypeAlias = Annotated[float, Gt(0.0)]
Weight: TypeAlias = Annotated[float, Ge(0.0)]
Pessimism: TypeAlias = Annotated[float, Le(0.0)]
Fraction: TypeAlias = Annotated[float, Ge(0.0), Le(1.0)]
BelowOne: TypeAlias = Annotated[float, Ge(0.0), Lt(1.0)]
Share: TypeAlias = Annotated[float, Gt(0.0), Le(1.0)]
Seed: TypeAlias = Annotated[int, Ge(0), Le(2**31 - 1)]
Layers: TypeAlias = tuple[Positive, ...]


@dataclass(frozen=True)
class Checked:
    """Base of configs: every field must have a value that its type takes."""

    def __post_init__(self) -> None:
        for name, allowed in _allowed(type(self)):
            allowed.check(name.replace("_", "-"), getattr(self, name))


@dataclass(frozen=True)
class Allowed:
    """The values that a field takes."""

    words: tuple[Any, ...] = ()
    """Names, and None where a field may be left out."""
    only_words: bool = False
    number: bool = False
    bounds: tuple[Any, ...] = ()
    several: bool = False
    """Whether the field is a tuple of such numbers or names."""
    kinds: tuple[type, ...] = ()
    """Types of its values; empty where they are not known."""

    def check(self, option: str, value: Any) -> None:
        """Refuse any other value."""
        if self.only_words and self.several:
            known = isinstance(value, tuple | list) and all(item in self.words for item in value)
            require(known, option, value, "one or more of " + ", ".join(map(str, self.words)))
            refuse_repeats(option, value)
        elif value in self.words:
            return
        elif self.only_words:
            require(False, option, value, " or ".join(map(str, self.words)))
        elif self.several:
            inside = (value or not self.bounds) and all(map(self._within, value))
            require(bool(inside), option, value, f"sizes of {self.text}")
        elif self.number:
            require(self._within(value), option, value, self.text)

    def _within(self, value: Any) -> bool:
        tests = {
            Ge: lambda bound: value >= bound.ge,
            Gt: lambda bound: value > bound.gt,
            Le: lambda bound: value <= bound.le,
            Lt: lambda bound: value < bound.lt,
        }
        return all(tests[type(bound)](bound) for bound in self.bounds)

    @property
    def text(self) -> str:
        """The range, as in 'above 0 and at most 1'."""
        found = {type(bound): getattr(bound, type(bound).__name__.lower()) for bound in self.bounds}
        if Ge in found and Le in found:
            return f"between {found[Ge]:g} and {found[Le]:.12g}"
        words = {Ge: "at least", Gt: "above", Le: "at most", Lt: "below"}
        parts = [f"{word} {found[kind]:.12g}" for kind, word in words.items() if kind in found]
        return " and ".join(parts) or "a number"


@cache
def _allowed(kind: type) -> list[tuple[str, Allowed]]:
    """What each field of a config takes; computed once a class."""
    return [(f.name, _allowed_by(f.type)) for f in fields(kind)]


def _allowed_by(hint: Any) -> Allowed:
    arms = list(_arms(hint))
    for arm in arms:
        if get_origin(arm) is tuple and get_args(arm)[1:] == (...,):
            inner = _allowed_by(get_args(arm)[0])
            return replace(inner, several=inner.number or inner.only_words)
    named = [arm for arm in arms if get_origin(arm) is Literal or arm is NoneType]
    others = [_kind_of(arm) for arm in arms if arm not in named]
    words = [word for arm in named for word in (get_args(arm) or (None,))]
    ranged = [arm for arm in arms if get_origin(arm) is Annotated]
    return Allowed(
        words=tuple(words),
        only_words=len(named) == len(arms),
        number=bool(ranged) or int in arms or float in arms,
        bounds=tuple(bound for arm in ranged for bound in _bounds(arm)),
        kinds=() if None in others else tuple(kind for kind in others if kind),
    )


def _kind_of(arm: Any) -> type | None:
    """The type of values of a field; None where it is not one of those that JSON has."""
    plain = arm.__origin__ if get_origin(arm) is Annotated else arm
    return plain if plain in (bool, int, float, str, Path) else None


def _is_of(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of these types; whole numbers are floats too, but yes is not 1."""
    allowed = (*kinds, int) if float in kinds else kinds
    return isinstance(value, allowed) and (bool in kinds or not isinstance(value, bool))


def _arms(hint: Any) -> Iterator[Any]:
    """The alternatives of a union, or the type itself, without what others have annotated."""
    if get_origin(hint) in (Union, UnionType):
        for arm in get_args(hint):
            yield from _arms(arm)
    elif get_origin(hint) is Annotated and not _bounds(hint):
        yield from _arms(hint.__origin__)
    else:
        yield hint


def _bounds(hint: Any) -> list[Any]:
    return [note for note in hint.__metadata__ if isinstance(note, Ge | Gt | Le | Lt)]


def require(condition: bool, option: str, value: object, allowed: str) -> None:
    """Refuse a setting that makes no sense, or is infinite, which config.json could not say."""
    finite = not isinstance(value, float) or isfinite(value)
    small = not isinstance(value, int) or abs(value) < 2**31
    if not (condition and finite and small):
        too_large = condition and not small
        also = " and finite" if not finite else " and below 2147483648" if too_large else ""
        raise CharyError(f"--{option} is {value}, but must be {allowed}{also}.")


def refuse_repeats(option: str, values: Sequence[Any]) -> None:
    """Nothing is to be trained twice under one name."""
    repeated = [value for value in values if list(values).count(value) > 1]
    if repeated:
        raise CharyError(f"--{option} names {repeated[0]} more than once.")


def apply(changes: dict[str, Any], *configs: Any, source: str) -> tuple[Any, ...]:
    """The configs with some fields replaced; each field belongs to one of them."""
    for config in configs:
        changes = getattr(config, "migrated", lambda same: same)(changes)
    owned = [{f.name for f in fields(config)} for config in configs]
    for name in changes:
        if not any(name in names for names in owned):
            raise unknown_name("setting", name, set().union(*owned), f"(in {source})")
    return tuple(
        replace(config, **{name: value for name, value in changes.items() if name in names})
        for config, names in zip(configs, owned, strict=True)
    )


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain JSON values."""
    return {
        k: str(v) if isinstance(v, Path) else list(v) if isinstance(v, tuple) else v
        for k, v in asdict(config).items()
    }


def from_json(kind: Any, record: dict[str, Any]) -> Any:
    """The config that `to_json` made; an older run did what the config says of the time before."""
    known = {f.name for f in fields(kind)}
    record = {**getattr(kind, "BEFORE", {}), **record}
    if hasattr(kind, "migrated"):
        record = kind.migrated(record)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items() if k in known}
    for path in ("run", "data_file", "parent"):
        if isinstance(values.get(path), str):
            values[path] = Path(str(values[path]))
    for name, allowed in _allowed(kind):
        value = values.get(name)
        each = value if allowed.several and isinstance(value, tuple) else (value,)
        unknown = name not in values or value in allowed.words or not allowed.kinds
        if not unknown and not all(_is_of(item, allowed.kinds) for item in each):
            raise TypeError(f"{name} is {value!r:.60}")
    return kind(**values)
