"""`make try-wheel`: the wheel as users get it, in a clean environment of every Python that is found."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MADE = """
import numpy as np
rng = np.random.default_rng(0)
size, ends = 600, np.arange(1, 601) % 20 == 0
np.savez(
    "log.npz", observations=rng.normal(size=(size, 3)), actions=rng.uniform(-1, 1, (size, 2)),
    rewards=rng.normal(size=size), terminals=np.zeros(size, bool), timeouts=ends,
)
"""
TRAIN = "train msg --dataset log.npz --members 2 --hidden 8 8 --steps 200 --warmup-steps 10 --run runs/x"


def supported() -> list[str]:
    """The Pythons that pyproject.toml names."""
    text = (ROOT / "pyproject.toml").read_text()
    return re.findall(r"Python :: (3\.\d+)", text)


def find_python(version: str) -> str | None:
    """An interpreter of that version, on the path or among pyenv's, that starts."""
    own = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for candidate in (shutil.which(f"python{version}"), *map(str, own)):
        if (
            candidate
            and not subprocess.run([candidate, "--version"], capture_output=True).returncode
        ):
            return candidate
    return None


def check_contents(wheel: Path) -> None:
    """The pages' assets and the mark of typed packages are in it; tests and benchmarks are not."""
    names = zipfile.ZipFile(wheel).namelist()
    assets = {f"chary/report/assets/{p.name}" for p in (ROOT / "chary/report/assets").iterdir()}
    missing = {"chary/py.typed", *assets} - set(names)
    foreign = {name.split("/")[0] for name in names} - {"chary"}
    assert not missing, missing
    assert all(name.endswith(".dist-info") for name in foreign), foreign


def try_wheel(wheel: Path, python: str, *, demo: bool) -> None:
    """Install it, and train and report with nothing but what it asks for."""
    with tempfile.TemporaryDirectory(prefix="chary-wheel-") as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/env"], check=True)
        asked = f"{wheel}[sim]" if demo else str(wheel)
        inside = f"{folder}/env/bin/python"
        fast = ["uv", "pip", "install", "--python", inside]  # the same packages, sooner
        install = fast if shutil.which("uv") else [inside, "-m", "pip", "install"]
        subprocess.run([*install, "--quiet", asked], check=True)
        subprocess.run([inside, "-c", MADE], cwd=folder, check=True)
        commands = [
            "--version",
            "--help",
            TRAIN,
            "runs",
            "report runs",
            *(["demo"] if demo else []),
        ]
        for command in commands:
            words = [f"{folder}/env/bin/chary", *command.split()]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{python}: chary {command} failed:\n{done.stdout}{done.stderr}")
        assert (Path(folder) / "report.html").stat().st_size > 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--demo", action="store_true", help="also run `chary demo`, with simulators"
    )
    demo = parser.parse_args().demo
    (wheel,) = (ROOT / "dist").glob("*.whl")
    check_contents(wheel)
    for version in supported():
        python = find_python(version)
        if python is None:
            print(f"Python {version}: not found on this machine", flush=True)
            continue
        try_wheel(wheel, python, demo=demo)
        print(f"Python {version}: works ({python})", flush=True)


if __name__ == "__main__":
    main()
