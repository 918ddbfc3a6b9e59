"""A policy as a film: one episode, drawn by its simulator."""

from pathlib import Path
from typing import Any

import numpy as np

from chary.envs import Task
from chary.errors import CharyError, reason
from chary.evaluation.rollouts import Act, Moments
from chary.host.files import whole

FRAMES = 300
"""Of a film at most; longer episodes are shown faster."""
STRIP = 8
"""Pictures of a strip."""
KINDS = (".gif", ".webp", ".png")


def require_kind(path: Path) -> None:
    """Refuse other files than films and strips, before anything is run."""
    if path.suffix.lower() not in KINDS:
        raise CharyError(
            f"--video {path}: must end in .gif or .webp for a film, or in .png for a strip of pictures."
        )


def film(act: Act, task: Task, path: Path, *, seed: int, episode: int = 0) -> dict[str, Any]:
    """Run an episode and draw it into a file; what it earned and how long it was.

    It is the episode of that number in an evaluation with the same seed.
    """
    require_kind(path)
    environment = _make(task)
    try:
        sequence = np.random.SeedSequence([seed, 0, episode])
        current, info = environment.reset(seed=int(sequence.generate_state(1)[0]))
        frames, total, time, over = [_drawn(environment, task)], 0.0, 0, False
        while not over:
            moment = Moments(np.array([episode], np.uint32), np.array([time], np.uint32))
            action = act(np.asarray(current)[None], moment)[0]
            current, reward, terminated, truncated, info = environment.step(action)
            total, time, over = total + float(reward), time + 1, bool(terminated or truncated)
            frames.append(_drawn(environment, task))
            if len(frames) > 2 * FRAMES:  # every second is enough, from here on too
                frames = frames[::2]
    finally:
        environment.close()
    success = bool(info["success"]) if task.has_success and "success" in info else None
    _write(frames, path, fps=environment.metadata.get("render_fps", 30) * len(frames) / (time + 1))
    return {"return": total, "length": time, "success": success}


def _make(task: Task) -> Any:
    try:
        return task.make(render_mode="rgb_array")
    except TypeError as error:
        raise CharyError(f"--video: {task.name} cannot be drawn ({reason(error)}).") from error


def _drawn(environment: Any, task: Task) -> np.ndarray:
    try:
        picture = environment.render()
    except NotImplementedError:
        picture = None
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise CharyError(f"--video: {task.name} draws no pictures (render_mode rgb_array).")
    return picture


def _write(frames: list[np.ndarray], path: Path, *, fps: float) -> None:
    """A film, or side by side a few of its pictures."""
    from PIL import Image

    count = STRIP if path.suffix.lower() == ".png" else FRAMES
    chosen = np.linspace(0, len(frames) - 1, min(count, len(frames))).round().astype(int)
    pictures = [Image.fromarray(np.ascontiguousarray(frames[i])) for i in chosen]
    milliseconds = max(20, round(1000.0 / fps * len(frames) / len(pictures)))
    with whole(path) as beside:
        if count == STRIP:
            width, height = pictures[0].size
            strip = Image.new("RGB", (width * len(pictures), height))
            for place, picture in enumerate(pictures):
                strip.paste(picture, (place * width, 0))
            strip.save(beside, format="PNG")
            return
        kind = {".gif": "GIF", ".webp": "WEBP"}[path.suffix.lower()]
        first, *others = pictures
        first.save(
            beside, format=kind, save_all=True, append_images=others, duration=milliseconds, loop=0
        )
