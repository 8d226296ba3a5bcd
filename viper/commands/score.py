"""``viper data score``: score predictions that were made elsewhere."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from viper.commands.options import DATA_SET, OutPath, option, options_as, seed_field, split_field
from viper.commands.terminal import echo_json, echo_table, warn
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
        help="File of predictions: CSV for NLVR, JSON for NExT-QA, the official file of GQA, "
             "OK-VQA or InfoSeek, JSON lines for other sets.")
    judgements: Path | None = option("--judgements", metavar="FILE.csv",
        help="Score a sheet of viper eval --judgements that people filled in.")
    root: Path | None = option("--root", metavar="DIR",
        help="Folder that holds the official files of the data set; images are not needed.")
    split: str | None = split_field("Split. By default the first of the data set.")
    limit: int | None = option("--limit", type=click.IntRange(1),
        help="Number of samples; the same samples that viper eval draws.")
    seed: int = seed_field("Random seed for the choice of samples.")
    missing: Literal["error", "wrong"] = option("--missing", default="error",
        help="Treat a sample without a prediction as an error, or as wrong.")
    by_group: bool = option("--by-group", help="Print the scores of every group.")
    rows: Path | None = option("--rows", type=OutPath(), metavar="FILE.csv",
        help="Write the score of every sample to this file.")
    as_json: bool = option("--json", help="Print one JSON object.")
    # fmt: on


@click.command()
@click.argument("name", metavar="SET", type=DATA_SET)
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
    viper data score gqa --root gqa --predictions testdev_predictions.json
        [{"questionId": "1", "prediction": "yes"}]
    viper data score vstar --root vstar --predictions answers.jsonl
        {"id": "1", "answer": "yes"}
    viper data score world-edit --judgements judged.csv
    """
    if (options.predictions is None) == (options.judgements is None):
        raise UsageError("give --predictions FILE, or --judgements FILE.csv that people filled in")
    if options.judgements is not None:
        judged = read_judgements(options.judgements, options.missing)
        if options.as_json:
            echo_json(dataclasses.asdict(judged))
            return
        unjudged = f", {len(judged.unfilled)} unjudged" if judged.unfilled else ""
        pictures = f"{judged.without_picture} without a picture"
        click.echo(f"{judged.correct.n} edits, {pictures}{unjudged}")
        click.echo(f"correct {scoring.percent(judged.correct)}")
        return
    assert options.predictions is not None
    dataset = data_set(name)
    split = options.split or dataset.splits[0]
    spec = DatasetSpec(options.root, split, options.seed, options.limit)
    samples = choose(dataset.samples(spec), options.limit, options.seed)
    scored = scoring.score_predictions(
        samples, dataset.metric, options.predictions, options.missing
    )
    if scored.duplicates:
        warn(f"{scored.duplicates} duplicate predictions; the last of each counts")
    if scored.unknown:
        warn(
            f"{len(scored.unknown)} predictions are for ids that the set does not "
            f"have: {scoring.first_few(scored.unknown)}"
        )
    if options.rows is not None:
        content = scoring.rows_csv(scored.rows).encode(errors="backslashreplace")
        try:
            replace_file(options.rows, content)
        except OSError as error:
            raise UsageError(f"cannot write {options.rows}: {error.strerror or error}") from None
    if options.as_json:
        about = {"set": dataset.name, "split": split, "metric": dataset.metric}
        record = {**about, **scoring.summary(scored)}
        click.echo(json.dumps(record, allow_nan=False, ensure_ascii=False))
        return
    click.echo(f"{dataset.name} {split}, {scored.figures.n} samples, metric {dataset.metric}")
    overall = scored.figures.overall
    # many figures, as NExT-QA's by type, are also shown side by side, as papers list them
    if len(overall) > 4:
        echo_table(list(overall), [[scoring.percent(estimate) for estimate in overall.values()]])
        click.echo()
    echo_table(scoring.HEADER, list(scoring.figure_rows(scored.figures, options.by_group)))
