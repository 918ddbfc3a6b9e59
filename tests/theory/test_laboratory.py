"""`chary theory` as a user runs it, and the page that sums it up."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from chary.cli.theory import main
from chary.config import to_json
from chary.errors import CharyError
from chary.theory import chain, laboratory, width_config
from chary.theory.claims import claims
from chary.theory.linear import LinearConfig
from tests.conftest import call_chary
from tests.theory.test_chain import TINY
from tests.theory.test_width import SMALL


def test_linear_prints_one_object_and_leaves_figure_and_numbers(tmp_path: Path) -> None:
    result = call_chary("theory", "linear", "--runs", 20, "--out", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found)[:4] == ["runs", "kept", "shared_optimistic", "independent_optimistic"]
    assert found["runs"] == 20 and found["independent_optimistic"] == 0
    kept = json.loads((tmp_path / "linear.json").read_text())
    assert kept["shared_optimistic"] == found["shared_optimistic"]
    assert kept["settings"]["discount"] == 0.5
    assert (tmp_path / "linear.png").stat().st_size > 20_000


@pytest.mark.long
def test_closed_forms_alone_are_a_command(tmp_path: Path) -> None:
    """From a folder that is not there, without a network that is trained."""
    result = call_chary(
        "theory", "width", "--widths", 8, "--trained", "--members", 2, "--iterations", 3,
        "--steps", 5, "--episodes", 4, "--out", tmp_path / "new", "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [row["network"] for row in found["rows"]] == [
        "linearised",
        "infinite",
        "infinite, ridge",
    ]
    assert len(found["constants"]) == 8 and found["closed_form_error"] < 1e-10
    assert (tmp_path / "new" / "width.png").stat().st_size > 20_000


@pytest.mark.long
@pytest.mark.usefixtures("jobs_here")
def test_all_writes_every_figure_and_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one command, in a folder that is not there."""
    tmp_path = tmp_path / "new"
    rules = ("independent", "shared-lcb", "shared-min")  # those that claims are about
    monkeypatch.setitem(chain.PRESETS, "quick", to_json(TINY) | {"rules": rules})
    sizes = {"widths": SMALL.widths, "trained": SMALL.trained}
    monkeypatch.setitem(width_config.PRESETS, "quick", to_json(SMALL) | sizes)
    for presets in (chain.PRESETS, width_config.PRESETS):
        del presets["quick"]["seed"]
    monkeypatch.setattr(laboratory, "LinearConfig", lambda seed: LinearConfig(runs=20, seed=seed))
    assert main(["all", "--seed", "3", "--out", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found, page = printed["rows"], Path(printed["page"])
    assert printed["resumed"] is False
    for name in ("linear", "chain", "width"):
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000
        assert json.loads((tmp_path / f"{name}.json").read_text())["settings"]["seed"] == 3
    text = page.read_text()
    told = text.split("## Linear")[0]
    assert told.count("| yes |") + told.count("| no |") == len(found) == 11
    assert "members 3 instead of 64" in text and "![chain](chain.png)" in text
    assert "| shared-lcb |" in text and "| maximal-update | 256 | 3 |" in text
    assert "| linearised | 256 | 6 |" in text and "| sigma_w | sigma_b |" in text
    assert "no sigma_w and sigma_b, here 1.5 and 0.5" in text
    assert text.count("It took ") == 4 and "read back" not in text
    # A second time everything is read back, and the page says so.
    again = laboratory.run_chain(chain.ChainConfig(seed=3, **chain.PRESETS["quick"]), tmp_path)
    assert again.rows == json.loads((tmp_path / "chain.json").read_text())["rows"]
    assert "beside what was read back from an earlier run" in again.notes


FACTS = {
    "runs": 1000, "kept": 920, "shared_optimistic": 230, "independent_optimistic": 0, "members": 64,
    "formula_error_shared": 1e-12, "formula_error_independent": 1e-12,
}  # fmt: skip
CONSTANTS: list[dict[str, Any]] = [
    {"weight_std": 1.0, "bias_std": 0.1, "ratio": 0.9, "ridge_ratio": 1.1},
    {"weight_std": 1.0, "bias_std": 0.5, "ratio": 1.0, "ridge_ratio": 1.2},
    {"weight_std": 1.5, "bias_std": 0.5, "ratio": 2.6, "ridge_ratio": None},
]
WIDTHS: list[dict[str, Any]] = [
    {"network": "linearised", "width": 32, "error": 0.5, "left": 1.0, "ratio": 1.2},
    {"network": "linearised", "width": 128, "error": 0.3, "left": 0.4, "ratio": 1.1},
    {"network": "ntk", "width": 32, "error": 0.4, "ratio": 4.0},
    {"network": "ntk", "width": 128, "error": 0.2, "ratio": 3.0},
    {
        "network": "maximal-update",
        "width": 32,
        "ratio": 5.0,
        "ratio_interval": [2, 8],
        "rises": True,
    },
    {"network": "infinite", "ratio": 1.2, "left": 0.1},
]


def rules(ratio: float, *, rises: bool, gap: float) -> list[dict[str, Any]]:
    first = {"rule": "independent", "ratio": ratio, "rises": rises, "gap": [3, 2, 1], "left": 1.0}
    return [first, *({"rule": r, "bound_gap": gap} for r in ("shared-lcb", "shared-min"))]


def test_claims_agree_only_where_the_numbers_do() -> None:
    good = claims(FACTS, rules(4.0, rises=True, gap=0.5), WIDTHS, CONSTANTS)
    assert all(claim["agrees"] for claim in good)
    assert "0.90 to 1.20 for 2 sigma_b" in good[-2]["measured"]
    assert "but 2.60 with sigma_w 1.5 and sigma_b 0.5" in good[-2]["measured"]
    facts = {
        **FACTS,
        "shared_optimistic": 300,
        "independent_optimistic": 1,
        "formula_error_shared": 1,
    }
    reverse = [
        {**WIDTHS[0], "error": 0.1, "left": 0.05},
        *WIDTHS[1:4],
        {**WIDTHS[4], "ratio_interval": [0.9, 8]},
        {**WIDTHS[5], "ratio": 3.6},
    ]
    for row in ({**CONSTANTS[1], "ratio": 2.0}, {**CONSTANTS[1], "ridge_ratio": None}):
        bad = claims(facts, rules(2.0, rises=False, gap=1.5), reverse, [CONSTANTS[0], row])
        assert not any(claim["agrees"] for claim in bad)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["liner"], "unknown experiment 'liner'. Did you mean linear?"),
        (["chain", "--preset", "papr"], "unknown preset 'papr'. Did you mean paper?"),
        (["all", "--preset", "papr"], "unknown preset 'papr'. Did you mean paper?"),
        (["linear", "--episodes", "100"], "more transitions than the 60 weights"),
    ],
)
def test_wrong_input_gets_one_clear_message(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CharyError, match=re.escape(message)):
        main([*arguments, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
