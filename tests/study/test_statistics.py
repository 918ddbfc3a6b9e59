import pytest

from chary.statistics import bootstrap


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        # Means of two draws: 0, 1/2 and 1 with chances 1/4, 1/2 and 1/4.
        ([0.0, 1.0], 0.0, 1.0),
        # All three draws are the one with chance 1/27, which is more than 2.5%.
        ([0.0, 0.0, 1.0], 0.0, 1.0),
        # Four ones have chance 1/256; three or more have 13/256, which is more than 2.5%.
        ([0.0, 0.0, 0.0, 1.0], 0.0, 0.75),
        ([3.0, 3.0, 3.0], 3.0, 3.0),
    ],
)
def test_the_interval_is_what_counting_the_resamples_gives(
    values: list[float], low: float, high: float
) -> None:
    found = bootstrap(values)
    assert found == (pytest.approx(sum(values) / len(values)), low, high)
    assert bootstrap(values) == found


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert bootstrap([0.7]) == (0.7, None, None)
    assert bootstrap([]) == (None, None, None)
