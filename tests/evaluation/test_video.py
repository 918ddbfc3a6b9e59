"""Films of episodes: what is drawn is the episode that is evaluated."""

from pathlib import Path

import numpy as np
import pytest

import chary
from chary.data.tasks import find_task
from chary.errors import CharyError
from chary.evaluation import video
from chary.evaluation.rollouts import evaluate
from tests.conftest import call_chary
from tests.online.walk import Walk


def still(observations: np.ndarray, moments: object) -> np.ndarray:
    del moments
    return np.full((len(observations), 2), 0.3, np.float32)


@pytest.mark.parametrize("kind", ["gif", "webp", "png"])
def test_it_is_the_episode_of_the_evaluation(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    task = find_task("pointmaze-umaze")
    assert task is not None
    # Drawing needs graphics; what is drawn here is the ball's place as a shade.
    monkeypatch.setattr(
        "chary.envs.mazes.PointMaze.render",
        lambda self: np.full((8, 6, 3), 100 + 50 * self.position[0], np.uint8),
    )
    told = video.film(still, task, tmp_path / f"a.{kind}", seed=3, episode=1)
    same = evaluate(still, task, episodes=2, seed=3)
    assert told == {"return": same.returns[1], "length": same.lengths[1], "success": False}
    with Image.open(tmp_path / f"a.{kind}") as picture:
        if kind == "png":
            assert picture.size == (6 * video.STRIP, 8)
        else:
            assert (
                getattr(picture, "n_frames", 1) <= video.FRAMES
            )  # equal frames of a film may be one
            assert picture.size == (6, 8)


def test_what_cannot_be_drawn(tmp_path: Path, dataset: chary.Dataset) -> None:
    from chary.envs import Task

    with pytest.raises(CharyError, match=r"walk draws no pictures"):
        video.film(still, Task("walk", lambda **_: Walk()), tmp_path / "a.gif", seed=0)
    with pytest.raises(CharyError, match=r"walk cannot be drawn"):
        video.film(still, Task("walk", lambda: Walk()), tmp_path / "a.gif", seed=0)
    chary.train("bc", dataset, run=tmp_path / "r", steps=2, batch_size=8, final_episodes=0)
    wrong = call_chary("eval", tmp_path / "r", "--video", "a.mp4")
    assert wrong.returncode == 2 and "must end in .gif or .webp" in wrong.stderr
    assert not list(tmp_path.glob("a.*"))
