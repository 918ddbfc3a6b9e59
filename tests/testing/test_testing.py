"""The checks for authors pass what is sound, and name what is not."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from chary import algos
from chary.algos.bc import BCConfig, make_bc
from chary.errors import CharyError
from chary.testing import check_algorithm, check_ensemble
from examples.awac import AWAC

SMALL: dict[str, Any] = {"hidden": (8,)}


def test_the_example_is_an_algorithm() -> None:
    check_algorithm("examples.awac:AWAC", **SMALL)


def broken(**parts: Any) -> algos.Entry:
    """Cloning with other functions in it."""

    def make(config: BCConfig, *sizes: int) -> Any:
        made = make_bc(config, *sizes)
        return replace(made, **{name: part(made) for name, part in parts.items()})

    return algos.Entry(BCConfig, make, {})


@dataclass(frozen=True)
class OddConfig(BCConfig):
    odd: Any = frozenset({1})


def lazy(made: Any) -> Any:
    return lambda state, batch, key: (state, made.update(state, batch, key)[1])


def growing(made: Any) -> Any:
    def update(state: Any, batch: Any, key: Any) -> Any:
        after, metrics = made.update(state, batch, key)
        return jax.tree.map(lambda leaf: jnp.atleast_1d(leaf), after), metrics

    return update


LAZY = broken(update=lazy)
GROWING = broken(update=growing)
LARGE = broken(act=lambda made: lambda state, seen, key=None: 2.0 + made.act(state, seen, key=key))
VECTOR = broken(
    update=lambda made: lambda s, b, k: (made.update(s, b, k)[0], {"policy/loss": b.rewards})
)
CALLS = itertools.count()
RANDOM = broken(
    act=lambda _: lambda *_, **__: jax.random.uniform(jax.random.key(next(CALLS)), (8, 2))
)
ODD = algos.Entry(OddConfig, make_bc, {})
NUMBER = 3
FAILS = algos.Entry(BCConfig, lambda *_: 1 / 0, {})  # pyright: ignore[reportArgumentType]
NOTHING = algos.Entry(BCConfig, lambda *_: None, {})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LAZY", "must learn something"),
        ("GROWING", "the same shapes and types"),
        ("LARGE", r"must lie in \[-1, 1\]"),
        ("VECTOR", "policy/loss must be one number"),
        ("RANDOM", "must not be random"),
        ("ODD", "JSON"),
    ],
)
def test_what_is_wrong_is_named(name: str, words: str) -> None:
    with pytest.raises((AssertionError, TypeError), match=words):
        check_algorithm(f"tests.testing.test_testing:{name}", hidden=(8,))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NUMBER", "is of type int, but must be a chary.algos.Entry"),
        ("FAILS", r"cannot be made \(ZeroDivisionError: division by zero\)"),
        ("NOTHING", "makes something of type NoneType, not an Algorithm"),
        ("MISSING", "unknown name 'MISSING'"),
    ],
)
def test_what_is_no_algorithm_is_refused_in_one_line(name: str, words: str) -> None:
    name = f"tests.testing.test_testing:{name}"
    with pytest.raises(CharyError, match=words):
        algos.build(name, algos.entry(name).config(), 3, 2)


def test_an_installed_algorithm_goes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from chary import algorithms

    monkeypatch.setattr(algorithms, "installed", lambda: {"awac": "examples.awac:AWAC"})
    monkeypatch.setattr(algos, "installed", lambda: {"awac": "examples.awac:AWAC"})
    assert algos.entry("awac") is AWAC
    assert algorithms.summary("awac") == "of examples.awac"
    with pytest.raises(CharyError, match=r"unknown algorithm 'awca'\. Did you mean awac"):
        algos.entry("awca")


@pytest.mark.long
def test_the_ensemble_of_the_example_is_one() -> None:
    check_ensemble("examples.custom_ensemble:MyEnsemble")
