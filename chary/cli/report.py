"""`chary report`: a page that shows what was learned, and whether to believe it."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from chary.cli.output import Flag, tell


def main(arguments: list[str]) -> int:
    def report(
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
        /,
        out: Path | None = None,
        format: Literal["html", "md", "tex", "csv"] = "html",
        json: Flag = False,
    ) -> None:
        """Write one page about run folders: scores, curves, ensemble health, mazes, data, commands.

        Args:
            runs: Run folders, or folders that contain run folders.
            out: File to write. If omitted: report.html, or with --format md report.md and its figures
                in the same folder. tex and csv write each table to a file of its own, such as
                report-summary.csv.
            format: html: a page that opens in any browser without a network. md: tables and static
                figures for a README. tex: all tables for a paper, as booktabs tabulars to \\input. csv:
                all tables in plain numbers.
            json: Print the page's data as one JSON object and write nothing.
        """
        from chary.report.page_data import page_data
        from chary.report.selection import read_selections
        from chary.report.story import read_runs

        (stories, problems), (selections, odd) = read_runs(runs), read_selections(runs)
        data = page_data(stories, [*problems, *odd], selections)
        if json:
            import json as text

            print(text.dumps(data))
            return
        destination = out or Path(f"report.{format}")
        if format == "tex" or format == "csv":
            from chary.report.export import write_tables

            for path in write_tables(data, destination, format):
                tell(f"report: {path}")
            return
        if format == "md":
            from chary.report.markdown import write_markdown

            write_markdown(data, destination)
        else:
            from chary.report.page import write_report

            write_report(data, destination)
        tell(f"report: {destination}")

    tyro.cli(report, args=arguments, prog="chary report")
    return 0
