"""Requests that wait are decided together: one call for many rows costs little more than one for one."""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from chary.deploy.source import Decide, Rows

WAITING = 256
"""Requests that may wait."""
LARGEST = 16
"""So many of the largest requests may wait: their rows are kept in memory."""


class BusyError(Exception):
    """Too many requests wait already."""


class Job(NamedTuple):
    """A request that waits."""

    observations: Rows
    actions: Rows | None
    answer: asyncio.Future[dict[str, np.ndarray]]


class Batches:
    """Calls a function in a thread of its own, each time for all requests that have come meanwhile."""

    def __init__(self, decide: Decide, max_rows: int):
        self._decide, self._max_rows = decide, max_rows
        self._waiting: deque[Job] = deque()
        self._rows = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decide")
        self._work: asyncio.Task[None] | None = None
        self.calls = 0

    async def decide(self, observations: Rows, actions: Rows | None) -> dict[str, np.ndarray]:
        """The decisions of one request."""
        rows = self._rows + len(observations)
        if len(self._waiting) >= WAITING or rows > LARGEST * self._max_rows:
            raise BusyError
        job = Job(observations, actions, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._rows = rows
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._decide_waiting())
        return await job.answer

    async def _decide_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            jobs = self._taken()
            try:
                found = await loop.run_in_executor(self._thread, self._together, jobs)
            except Exception as error:
                for job in jobs:
                    if not job.answer.done():
                        job.answer.set_exception(error)
            else:
                for job, answer in zip(jobs, found, strict=True):
                    if not job.answer.done():
                        job.answer.set_result(answer)

    def _taken(self) -> list[Job]:
        """The one that has waited longest and others like it, up to the largest number of rows: all
        judge actions, or none does."""
        judged = self._waiting[0].actions is not None
        jobs: list[Job] = []
        left: deque[Job] = deque()
        rows = 0
        for job in self._waiting:
            fits = rows + len(job.observations) <= self._max_rows
            if (job.actions is not None) == judged and fits:
                jobs.append(job)
                rows += len(job.observations)
            else:
                left.append(job)
        self._waiting = left
        self._rows -= rows
        self.calls += 1
        return jobs

    def _together(self, jobs: list[Job]) -> list[dict[str, np.ndarray]]:
        actions = [job.actions for job in jobs if job.actions is not None]
        found = self._decide(
            np.concatenate([job.observations for job in jobs]),
            np.concatenate(actions) if actions else None,
        )
        ends = list(accumulate(len(job.observations) for job in jobs))
        return [
            {name: values[start:end] for name, values in found.items()}
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]
