from pathlib import Path
from typing import Any

import pytest

from chary.data.collect.controllers import Controller, read_controller


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect in this process, where starting others takes longer than the work; lists the jobs done."""
    done: list[Any] = []

    def run_here(work: Any, jobs: Any, *, title: str, **_: int) -> list[Any]:
        assert title
        results = []
        for job in jobs:
            results.append(work(job))
            done.append(job)
        return results

    monkeypatch.setattr("chary.data.collect.run_jobs", run_here)
    return done


@pytest.fixture
def ant(real_data: Path) -> Controller:
    """The goal-reaching ant behind D4RL's antmaze."""
    return read_controller(real_data / "policies" / "d4rl_ant_goal_reaching.npz")
