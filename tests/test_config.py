"""Fields that say what they take, and settings that go to the config they belong to."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Gt, Lt

from chary.algos.msg_config import MSGConfig
from chary.config import (
    BelowOne,
    Checked,
    Count,
    Fraction,
    Layers,
    Pessimism,
    Positive,
    Rate,
    Seed,
    Share,
    apply,
    from_json,
    to_json,
)
from chary.errors import CharyError
from chary.execution.config import DEFAULT, Execution


@dataclass(frozen=True)
class Config(Checked):
    """One field of every kind."""

    count: Count = 0
    positive: Positive = 1
    rate: Rate = 0.1
    fraction: Fraction = 0.5
    share: Share = 1.0
    below: BelowOne = 0.0
    inside: Annotated[float, Gt(0.0), Lt(1.0)] = 0.5
    beta: Pessimism | None = None
    layers: Layers = (8,)
    seed: Seed = 0
    plain: float = 0.0
    word: Literal["a", "b"] = "a"
    number_or_word: float | Literal["auto"] = "auto"
    devices: Positive | Literal["all"] = 1
    pair: tuple[float, float] | Literal["auto"] = "auto"
    several: tuple[int, ...] = ()
    noted: Annotated[Positive | None, "a note of somebody else's"] = 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": -1}, "--count is -1, but must be at least 0."),
        ({"positive": 0}, "--positive is 0, but must be at least 1."),
        ({"rate": 0.0}, "--rate is 0.0, but must be above 0."),
        ({"rate": float("inf")}, "--rate is inf, but must be above 0 and finite."),
        ({"rate": float("nan")}, "--rate is nan"),
        ({"fraction": 1.5}, "--fraction is 1.5, but must be between 0 and 1."),
        ({"share": 0.0}, "--share is 0.0, but must be above 0 and at most 1."),
        ({"below": 1.0}, "--below is 1.0, but must be at least 0 and below 1."),
        ({"inside": 1.0}, "--inside is 1.0, but must be above 0 and below 1."),
        ({"beta": 1.0}, "--beta is 1.0, but must be at most 0."),
        ({"layers": ()}, "--layers is (), but must be sizes of at least 1."),
        ({"layers": (8, 0)}, "--layers is (8, 0), but must be sizes of at least 1."),
        ({"seed": 2**31}, "--seed is 2147483648, but must be between 0 and 2147483647."),
        ({"plain": float("inf")}, "--plain is inf, but must be a number and finite."),
        ({"word": "c"}, "--word is c, but must be a or b."),
        ({"number_or_word": float("nan")}, "--number-or-word is nan"),
        ({"devices": 0}, "--devices is 0, but must be at least 1."),
        ({"noted": 0}, "--noted is 0, but must be at least 1."),
    ],
)
def test_a_field_refuses_what_its_type_does_not_take(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CharyError) as refused:
        Config(**changes)
    assert words in str(refused.value)


def test_a_field_takes_what_its_type_takes() -> None:
    Config(beta=-4.0, layers=(1, 2), word="b", number_or_word=3.0, devices="all", pair=(0.0, 1.0))
    Config(count=0, fraction=1.0, share=1e-9, below=0.999, several=(3, -3), seed=2**31 - 1)


def test_every_field_of_msg_that_has_a_range_keeps_it() -> None:
    floats, numbers = ("tau", "discount", "critic_learning_rate", "cloning"), ("members", "bins")
    for name, wrong in [*((name, -1.0) for name in floats), *((name, -1) for name in numbers)]:
        with pytest.raises(CharyError, match=f"--{name.replace('_', '-')} is -1"):
            MSGConfig(**{name: wrong})


def test_settings_go_to_the_config_that_has_them() -> None:
    config, execution = apply({"beta": -8.0, "window": 2}, MSGConfig(), DEFAULT, source="here")
    assert config == MSGConfig(beta=-8.0) and execution == Execution(window=2)
    with pytest.raises(CharyError, match=r"unknown setting 'windw'.*window"):
        apply({"windw": 2}, MSGConfig(), DEFAULT, source="here")


def test_a_window_was_once_a_chunk() -> None:
    assert apply({"chunk": 2}, MSGConfig(), DEFAULT, source="here")[1] == Execution(window=2)
    recorded = {"settings": {"chunk": 4, "devices": 2}, "run": {"matmul": "bfloat16"}}
    old = Execution.recorded({"algorithm": "msg", **recorded})
    assert from_json(Execution, old) == Execution("fused", 4, 2, "bfloat16")
    old = Execution.recorded({"algorithm": "sac-n", "settings": {}, "run": {}})
    assert from_json(Execution, old) == Execution("plain")
    assert from_json(Execution, to_json(Execution(window=3))) == Execution(window=3)
