"""Shapes and types of calls, checked while testing: once for all calls that look alike."""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import jaxtyping

ENOUGH = 3
"""Checks of a function with arguments of the same types and shapes: the next one would say the same."""

check = jaxtyping.jaxtyped
checked: Counter[Any] = Counter()


def looks(value: Any) -> Any:
    return getattr(value, "shape", type(value)), getattr(value, "dtype", None)


def jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """A decorator like jaxtyping's that does not repeat itself.

    Most checks would be of small functions called thousands of times with the same shapes, and of inner
    functions that are made anew whenever an algorithm is built.
    """

    def decorate(function: Any) -> Any:
        if not isinstance(function, FunctionType):  # a dataclass: its fields
            return check(typechecker=typechecker)(function)
        # A method is decorated while its class is being made, or beartype does not know the class.
        inner = "<locals>" in function.__qualname__
        always = None if inner else check(typechecker=typechecker)(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            call_looks = (function.__code__, *map(looks, args), *map(looks, kwargs.values()))
            if checked[call_looks] == ENOUGH:
                return function(*args, **kwargs)
            checked[call_looks] += 1
            return (always or check(typechecker=typechecker)(function))(*args, **kwargs)

        return call

    return decorate


def install(*modules: str) -> None:
    """Check all functions of these modules from their import on."""
    jaxtyping.jaxtyped = jaxtyped
    jaxtyping.install_import_hook(modules, "beartype.beartype")
