"""The data that a run learned from, found again by what its folder records."""

from pathlib import Path

from chary import data
from chary.data import sources
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.runs.folder import RunFolder
from chary.training import plan, records
from chary.training.run_config import RunConfig


def learned_from(path: Path, data_file: Path | None = None) -> Dataset:
    """The episodes that a run learned from, without those that it held out.

    `data_file` is where the run's file is now, if it has moved.
    """
    return plan.split(*dataset_of(path, data_file))[0]


def set_limits(agent: Agent, data_file: Path | None = None) -> None:
    """Tell a run's agent where its data ends, for which the data is loaded once more."""
    agent.set_limits(*records.known_and_held_out(*dataset_of(agent.folder, data_file)))


def dataset_of(path: Path, data_file: Path | None = None) -> tuple[Dataset, RunConfig]:
    """All data of a run, with what it held out, and the run's settings."""
    folder = RunFolder.open(path)
    run = records.spec_of(folder).run
    if data_file is not None:
        named = sources.find(run.dataset) is not None
        dataset = data.load(run.dataset, data_file=data_file) if named else data.load(data_file)
    elif is_from_memory(run):
        raise CharyError(
            f"{path}: was started with a dataset from memory ('{run.dataset}'). Write it to a file "
            "(chary.data.formats.write(dataset, 'mine.npz')), and give that with --data-file."
        )
    else:
        recorded = Path(run.data_file or run.dataset)
        if recorded.is_absolute() and not recorded.exists():
            raise CharyError(
                f"{path}: the data that this run learned from is no longer at {recorded}. Say where it "
                "is with --data-file."
            )
        dataset = load_again(path, run)
    check_data(folder, dataset)
    return dataset, run


def check_data(folder: RunFolder, dataset: Dataset) -> None:
    """Refuse other data than the run's."""
    recorded = folder.config["dataset"]["fingerprint"]
    if dataset.fingerprint != recorded:
        raise CharyError(
            f"{folder.path}: the data of '{folder.config['run']['dataset']}' is not what this run "
            f"learned from (fingerprint {dataset.fingerprint[:12]}, not {recorded[:12]})."
        )


def load_again(run: Path, config: RunConfig) -> Dataset:
    """The dataset of a run, by its name or file; data from memory only its maker has."""
    if is_from_memory(config):
        raise CharyError(
            f"{run}: was started with a dataset from memory ('{config.dataset}'), which no command can "
            f"load. Make the same dataset in Python and call chary.resume('{run}', dataset=dataset). To "
            "train and resume from the command line, write it to a file first: "
            "chary.data.formats.write(dataset, 'mine.npz')."
        )
    return data.load(config.dataset, data_file=config.data_file)


def is_from_memory(config: RunConfig) -> bool:
    """Whether the run's dataset was neither a name nor a file."""
    known = Path(config.dataset).is_absolute() or sources.find(config.dataset) is not None
    return not known and config.data_file is None
