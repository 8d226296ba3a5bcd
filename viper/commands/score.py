"""``viper data score``: score predictions that were made elsewhere."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from viper.commands.options import SEED, OutPath, option, options_as
from viper.commands.terminal import echo_json, echo_table
from viper.data.registry import choose, data_set
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper.evaluate import predictions as scoring
from viper.evaluate.judgements import read_judgements
from viper.storage.files import replace_file


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """Options of ``viper data score``."""

    # fmt: off
    predictions: Path | None = option("--predictions", metavar="FILE",
        help="File of predictions: CSV for NLVR, JSON for NExT-QA, JSON lines for other sets.")
    judgements: Path | None = option("--judgements", metavar="FILE.csv",
        help="Score a sheet of viper eval --judgements that people filled in.")
    root: Path | None = option("--root", metavar="DIR",
        help="Folder that holds the official files of the data set; images are not needed.")
    split: str | None = option("--split", metavar="NAME",
        help="Split. By default the first of the data set.")
    limit: int | None = option("--limit", type=click.IntRange(1),
        help="Number of samples; the same samples that viper eval draws.")
    seed: int = option("--seed", type=SEED, default=0,
        help="Random seed for the choice of samples.")
    missing: Literal["error", "wrong"] = option("--missing", default="error",
        help="Treat a sample without a prediction as an error, or as wrong.")
    by_group: bool = option("--by-group", help="Print the scores of every group.")
    rows: Path | None = option("--rows", type=OutPath(), metavar="FILE.csv",
        help="Write the score of every sample to this file.")
    as_json: bool = option("--json", help="Print one JSON object.")
    # fmt: on


@click.command()
@click.argument("name", metavar="SET")
@options_as(ScoreOptions)
def score(options: ScoreOptions, name: str) -> None:
    """Score predictions for SET like its official script; no model or image is loaded.

    \b
    viper data score nlvr --root nlvr --split dev --predictions predictions.csv
        dev-1-0-0.png,true
    viper data score nextqa --root nextqa --split val --predictions predictions.json
        {"4010069381_6": {"prediction": 0}}
    viper data score refcoco --root refer --predictions boxes.jsonl
        {"id": "1-0", "box": [x0, y0, x1, y1]}
    viper data score gqa --root gqa --predictions answers.jsonl
        {"id": "1", "answer": "yes"}
    viper data score world-edit --judgements judged.csv
    """
    if (options.predictions is None) == (options.judgements is None):
        raise UsageError("give --predictions FILE, or --judgements FILE.csv that people filled in")
    if options.predictions is None:
        assert options.judgements is not None
        _judged(options.judgements, options.missing, as_json=options.as_json)
        return

    dataset = data_set(name)
    split = options.split or dataset.splits[0]
    spec = DatasetSpec(options.root, split, options.seed, options.limit)
    samples = choose(dataset.samples(spec), options.limit, options.seed)
    scored = scoring.score_predictions(
        samples, dataset.metric, options.predictions, options.missing
    )
    _warn(scored)
    if options.rows is not None:
        _write_rows(options.rows, scored)
    about = {"set": dataset.name, "split": split, "metric": dataset.metric}
    if options.as_json:
        click.echo(
            json.dumps({**about, **scoring.summary(scored)}, allow_nan=False, ensure_ascii=False)
        )
    else:
        click.echo(f"{dataset.name} {split}, {scored.figures.n} samples, metric {dataset.metric}")
        _print(scored, options.by_group)


def _judged(sheet: Path, missing: Literal["error", "wrong"], *, as_json: bool) -> None:
    """Print the scores of a sheet that people filled in."""
    judged = read_judgements(sheet, missing)
    if as_json:
        echo_json(dataclasses.asdict(judged))
        return
    unjudged = f", {len(judged.unfilled)} unjudged" if judged.unfilled else ""
    click.echo(f"{judged.correct.n} edits, {judged.without_picture} without a picture{unjudged}")
    click.echo(f"correct {scoring.percent(judged.correct)}")


def _warn(scored: scoring.ScoredPredictions) -> None:
    if scored.duplicates:
        click.echo(
            f"viper: warning: {scored.duplicates} duplicate predictions; the last of each counts",
            err=True,
        )
    if scored.unknown:
        click.echo(
            f"viper: warning: {len(scored.unknown)} predictions are for ids that the set does not "
            f"have: {scoring.first_few(scored.unknown)}",
            err=True,
        )


def _print(scored: scoring.ScoredPredictions, by_group: bool) -> None:
    overall = scored.figures.overall
    # many figures, as NExT-QA's by type, are also shown side by side, as papers list them
    if len(overall) > 4:
        echo_table(list(overall), [[scoring.percent(estimate) for estimate in overall.values()]])
        click.echo()
    echo_table(scoring.HEADER, list(scoring.figure_rows(scored.figures, by_group)))


def _write_rows(path: Path, scored: scoring.ScoredPredictions) -> None:
    try:
        replace_file(path, scoring.rows_csv(scored.rows).encode(errors="backslashreplace"))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
