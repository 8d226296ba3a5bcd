"""``viper audit``: labels that programs contradict."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.fit import FitChoice, fit_table
from viper.commands.terminal import echo_json, note
from viper.errors import UsageError
from viper.jobs.audit import Format


@dataclass(frozen=True, kw_only=True)
class AuditOptions(FitChoice):
    """Options of ``viper audit``."""

    # fmt: off
    out: Path | None = cli.option("-o", "--out", type=cli.OutPath(), metavar="JOB",
        help="Folder of the job that the labels are fitted as. By default TABLE.audit.")
    export: Path | None = cli.option("--export", type=cli.OutPath(), metavar="FILE",
        help="Write the answers about suspected cases, with confidence, for a labelling tool.")
    form: Format = cli.option("--format", default="label-studio",
        help="Format of --export. coco and yolo (a folder) hold boxes alone.")
    as_json: bool = cli.option("--json", help="Print one JSON object a case.")
    # fmt: on


@click.command()
@click.argument("table", type=click.Path(path_type=Path))
@cli.options_as(AuditOptions)
def audit(options: AuditOptions, table: Path) -> None:
    """List the labels of TABLE that are probably wrong, the surest suspicion first.

    The labels are fitted as viper fit does. A case is listed if programs that were chosen without
    it agree with each other, and not with its label.

    \b
    viper audit labels.csv --query "is the shelf empty?" > suspects.csv
    viper audit boxes.csv --export suspects.json --format coco
    """
    from viper.jobs.audit import export, suspects
    from viper.jobs.job import Job

    out = options.out or table.with_name(f"{table.name}.audit")
    record = fit_table(options, table, out)
    with Job(out) as job:
        found = suspects(record, job.labels())
    if options.export is not None:
        if options.export.exists():
            raise UsageError(f"{options.export}: there already; choose another name")
        export(options.export, options.form, found)
    rows = [
        (each.label.media[0], each.label.words, each.judged.answer, each.judged.confidence)
        for each in found
    ]
    header = ("media", "label", "answer", "confidence")
    if options.as_json:
        for row in rows:
            echo_json(dict(zip(header, row, strict=True)))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([header, *rows])
    note(f"{len(found)} of {record.labelled} labels are contradicted")
