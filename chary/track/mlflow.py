"""MLflow: a SQLite file beside the runs, or the store that the user names."""

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from chary.runs.schema import Record
from chary.track import Point, RunInfo, Status

TAG = "chary.id"
BATCH = 1000
"""Metrics that MLflow takes in a call."""
PARAMS = 100
"""Parameters that it takes in a call."""
STATUS = {"finished": "FINISHED", "unfinished": "KILLED", "diverged": "FAILED"}


class MlflowRun:
    """A run of MLflow, found again by a tag."""

    def __init__(self, info: RunInfo):
        # Read as it is imported. A server that does not answer is not to hold training up for minutes.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        from mlflow import entities
        from mlflow.tracking import MlflowClient

        self._entities: Any = entities
        place = (info.where or info.folder.parent).absolute()
        given = None if info.where else os.environ.get("MLFLOW_TRACKING_URI")
        uri = given or f"sqlite:///{place / 'mlflow.db'}"
        place.mkdir(parents=True, exist_ok=True)
        self.look = (
            f"mlflow: `mlflow ui --backend-store-uri {uri}`" if not given else f"mlflow: {uri}"
        )
        self._client = MlflowClient(uri)
        project = os.environ.get("MLFLOW_EXPERIMENT_NAME") or info.project
        artifacts = None if given else (place / "mlflow-artifacts").as_uri()
        self._run = self._found(project, info, artifacts)
        self._there = set(self._steps_there())
        self._add_params(info.config)

    def _found(self, project: str, info: RunInfo, artifacts: str | None) -> str:
        """The id of the run in the store, made if it is not there."""
        experiment = self._client.get_experiment_by_name(project)
        if experiment is None:
            number = self._client.create_experiment(project, artifact_location=artifacts)
        else:
            number = experiment.experiment_id
        for run in self._client.search_runs([number], f"tags.`{TAG}` = '{info.id}'"):
            self._client.update_run(run.info.run_id, status="RUNNING")
            return run.info.run_id
        return self._client.create_run(number, run_name=info.name, tags={TAG: info.id}).info.run_id

    def _steps_there(self) -> Iterator[tuple[str, int]]:
        """What the store has already; a resumed run logs the same numbers at these steps again."""
        for name in self._client.get_run(self._run).data.metrics:
            for metric in self._client.get_metric_history(self._run, name):
                yield name, metric.step

    def _add_params(self, config: Record) -> None:
        """Settings, by their path in config.json. The store lets none change, so known ones are left."""
        known = self._client.get_run(self._run).data.params
        param = self._entities.Param
        new = [param(k, str(v)[:500]) for k, v in _flat(config) if k not in known]
        for first in range(0, len(new), PARAMS):
            self._client.log_batch(self._run, params=new[first : first + PARAMS])

    def log(self, points: Sequence[Point]) -> None:
        metric = self._entities.Metric
        new = {
            (name, step): metric(name, number, round(1000 * at), step)
            for step, at, numbers in points
            for name, number in numbers.items()
            if (name, step) not in self._there
        }
        metrics = [*new.values()]
        for first in range(0, len(metrics), BATCH):
            self._client.log_batch(self._run, metrics=metrics[first : first + BATCH])
        self._there |= new.keys()

    def end(self, status: Status, summary: Point) -> None:
        self.log([summary])
        self._client.set_terminated(self._run, STATUS[status], round(1000 * time.time()))


def _flat(record: Record, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


begin = MlflowRun
