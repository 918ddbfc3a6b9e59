"""`chary export RUN --out agent.onnx`: a policy with its doubt, in a file that acts without chary."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from chary.cli.output import Flag, TrustCode, show
from chary.deploy.export import check_out, export, files_of, open_to_export
from chary.errors import CharyError
from chary.evaluation.limits import FLAG_RATE, check_rate
from chary.host.importing import trust

COLUMNS = {
    "file": "file", "bytes": "bytes", "rows": "compared at", "action_error": "actions differ by",
    "value_error": "values differ by",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    def write(
        run: Annotated[Path, tyro.conf.Positional],
        /,
        out: Path,
        which: Literal["last", "best"] = "last",
        flag_rate: float = FLAG_RATE,
        data_file: Path | None = None,
        trust_code: TrustCode = (),
        overwrite: Flag = False,
        json: Flag = False,
    ) -> None:
        """Export a policy with its scalers, critics and the limits of its data.

        The file takes observations and returns actions, both in the environment's units, the critics'
        values and doubt, and whether the state is outside the data. It is compared with the agent on
        logged states before it appears.

        Args:
            run: The run folder.
            out: File to write: .onnx (for onnxruntime), .npz (for NumPy; a reader is written beside it)
                or .stablehlo (for JAX).
            which: The last checkpoint of the run, or the one with the best score in training.
            flag_rate: Share of states like the logged ones that is flagged as outside the data.
            data_file: Where the run's data is now, if it has moved. Needed only where the run does not
                record the limits of its data.
            trust_code: Import this module:Name, which the run names (an ensemble or a simulator).
            overwrite: Replace a file that is there.
            json: Print the result as one JSON object.
        """
        check_rate(flag_rate)
        check_out(out)
        there = [path for path in files_of(out) if path.exists()]
        if there and not overwrite:
            raise CharyError(
                f"{there[0]}: already there. Choose another --out, or add --overwrite."
            )
        trust(trust_code)
        exported = export(open_to_export(run, which, data_file), out, flag_rate=flag_rate)
        shared = {k: v for k, v in exported._asdict().items() if k != "paths"}
        rows = [
            {"file": str(path), "bytes": path.stat().st_size, **shared} for path in exported.paths
        ]
        if not json:
            digits = {key: f"{shared[key]:.0e}" for key in ("action_error", "value_error")}
            rows = [{**row, **digits} for row in rows]
        show(rows, COLUMNS, as_json=json)

    tyro.cli(write, args=arguments, prog="chary export")
    return 0
