"""Ensembles of your own: what is asked of them, and the example as a user runs it."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chary.ensembles import make_ensemble
from chary.errors import CharyError
from tests.conftest import call_chary, run_chary
from tests.ensembles.shapes import BATCH, make_inputs, make_shape

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_ensemble.py"

PARTS = """
import jax, jax.numpy as jnp
class Good:
    shares_weights = False
    def __init__(self, shape): self.shape = shape
    def init(self, key): return {"b": jax.random.normal(key, (self.shape.members, self.shape.heads))}
    def heads(self, params, observations, actions, *, key=None):
        batch = jnp.broadcast_shapes(observations.shape[:-1], actions.shape[:-1])[-1]
        return jnp.broadcast_to(params["b"][..., None], (*params["b"].shape, batch))
"""

BAD: dict[str, tuple[str, str, str]] = {
    "no such module": ("", "nowhere_at_all:Good", "no module 'nowhere_at_all' in .*Run from the folder"),
    "no such part": ("", "{m}.deeper:Good", "no module '{m}.deeper'"),
    "no such name": ("", "{m}:God", "unknown name 'God'. Did you mean Good"),
    "no name": ("", "{m}:", "write module:Name"),
    "fails to import": ("1 / 0", "{m}:Good", "'{m}' fails to import .ZeroDivisionError: division"),
    "needs a module": ("import nowhere_at_all", "{m}:Good", "'{m}' fails to import .ModuleNotFound"),
    "syntax": ("def f(:", "{m}:Good", "'{m}' fails to import .SyntaxError"),
    "not a maker": ("Good = 3", "{m}:Good", "is of type int, not something that makes an"),
    "not an ensemble": ("def Good(shape): return 3", "{m}:Good", "of type int without init, heads,"),
    "raises": ("def Good(shape): raise KeyError('x')", "{m}:Good", "fails when called .* .KeyError"),
    "no parameters": ("Good.init = lambda s, k: {}", "{m}:Good", "init must give float32 arrays"),
    "raises in heads": (
        "Good.heads = lambda s, p, o, a, *, key: 1 / 0",
        "{m}:Good",
        "fails when asked for heads.params, observations.5, 4.,.* .ZeroDivisionError",
    ),
    "wrong shape": (
        "Good.heads = lambda s, p, o, a, *, key: o[:, 0]",
        "{m}:Good",
        "gives .5,., but must give .3, 2, 5.: members, heads, batch",
    ),
    "no actions of its own": (
        "Good.heads = lambda s, p, o, a, *, key: jnp.zeros((3, 2, len(a)))",
        "{m}:Good",
        "actions.3, 5, 2., key=key. gives .3, 2, 3., but must give .3, 2, 5.",
    ),
    "arranges separate networks": (
        "Good.arrange = lambda s, batch, key: None",
        "{m}:Good",
        "arranges rows but does not share weights",
    ),
    "arranges wrongly": (
        "Good.shares_weights = True; Good.arrange = lambda s, batch, key: jnp.arange(batch)",
        "{m}:Good",
        "arrange.batch, key. gives .5,., but must give .3, 5.: members, batch",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, forgotten by Python afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_what_has_the_parts_of_an_ensemble_is_one(folder: Path) -> None:
    (folder / "mine_good.py").write_text(PARTS)
    ensemble = make_ensemble("mine_good:Good", make_shape(heads=2))
    heads = ensemble.heads(ensemble.init(jax.random.key(0)), *make_inputs())
    assert heads.shape == (3, 2, BATCH) and not ensemble.shares_weights


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_ensemble_is_refused_in_one_sentence(case: str, folder: Path) -> None:
    more, named, words = BAD[case]
    module = f"mine_{case.replace(' ', '_')}"
    (folder / f"{module}.py").write_text(f"{PARTS}\n{more}\n")
    with pytest.raises(CharyError, match=words.format(m=module)) as caught:
        make_ensemble(named.format(m=module), make_shape(heads=2))
    assert "\n" not in str(caught.value)


def test_the_example_is_an_ensemble(folder: Path) -> None:
    shutil.copy(EXAMPLE, folder / "mine_example.py")
    ensemble = make_ensemble("mine_example:MyEnsemble", make_shape(heads=2))
    params, inputs = ensemble.init(jax.random.key(0)), make_inputs()
    values = np.asarray(ensemble.heads(params, *inputs))
    x = np.concatenate(inputs, axis=-1)
    for i, layer in enumerate(jax.tree.map(np.asarray, params)):
        weight = layer["W"] + layer["A"][1, 1] @ layer["B"][1, 1]
        x = x @ weight + layer["b"][1, 1]
        x = x if i == len(params) - 1 else np.maximum(x, 0)
    np.testing.assert_allclose(values[1, 1], x[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_the_example_trains_resumes_and_evaluates_from_any_folder(
    maze_file: Path, tmp_path: Path
) -> None:
    shutil.copy(EXAMPLE, tmp_path / "mine.py")

    def run(*arguments: object, cwd: Path = tmp_path) -> Any:
        # As with the installed command, Python itself does not look in the current folder.
        return run_chary(*arguments, "--json", cwd=cwd, PYTHONSAFEPATH="1")

    def call(*arguments: object) -> Any:
        return call_chary(*arguments, "--json", cwd=tmp_path)

    options = ["--members", 2, "--hidden", 8, "--batch-size", 16, "--warmup-steps", 1]
    trained = run(
        "train", "msg", "--dataset", maze_file, "--preset", "none", "--run", "here", "--steps", 10,
        "--final-episodes", 1, "--ensemble", "mine:MyEnsemble", *options,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    settings = json.loads((tmp_path / "here" / "config.json").read_text())["settings"]
    assert settings["ensemble"] == "mine:MyEnsemble"
    resumed = call("resume", "here", "--steps", 20)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["rows"][0]["step"] == 20
    evaluated = call("eval", "here", "--episodes", 1)
    assert len(json.loads(evaluated.stdout)["rows"][0]["returns"]) == 1

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    lost = run("eval", tmp_path / "here", cwd=elsewhere)
    assert lost.returncode == 2 and "--trust-code mine:MyEnsemble" in lost.stderr
    assert lost.stderr.startswith("chary: error: ") and len(lost.stderr.splitlines()) == 1
