"""``viper score``: score predictions that somebody else made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.out_path import OutPath
from viper.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.evaluate.predictions import Scored


@click.command()
@click.argument("name", metavar="SET")
@click.option(
    "--predictions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="NLVR: CSV; NExT-QA: JSON; others: JSON lines.",
)
@click.option(
    "--judgements",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="Instead: a sheet of viper eval --judgements that people filled in.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the set's official files; pictures are not needed.",
)
@click.option("--split", metavar="NAME", help="By default the set's first.")
@click.option(
    "--limit", type=click.IntRange(1), help="Only so many samples, those that viper eval takes."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which ones.")
@click.option(
    "--missing",
    type=click.Choice(["error", "wrong"]),
    default="error",
    show_default=True,
    help="What a sample without a prediction is.",
)
@click.option("--by-group", is_flag=True, help="Print the figures of every group.")
@click.option(
    "--rows",
    type=OutPath(),
    metavar="FILE.csv",
    help="Write every sample's score.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def score(name: str, **given: Any) -> int:
    """Score predictions for SET as its official script does; no model or picture is loaded.

    \b
    viper score nlvr --root nlvr --split dev --predictions said.csv     dev-1-0-0.png,true
    viper score nextqa --root nextqa --split val --predictions said.json
        {"4010069381_6": {"prediction": 0}}
    viper score refcoco --root refer --predictions boxes.jsonl
        {"id": "1-0", "box": [x0, y0, x1, y1]}
    viper score gqa --root gqa --predictions answers.jsonl              {"id": "1", "answer": "yes"}
    viper score world-edit --judgements judged.csv
    """
    if (given["predictions"] is None) == (given["judgements"] is None):
        raise UsageError("give --predictions FILE, or --judgements FILE.csv that people filled in")
    if given["judgements"] is not None:
        return _judged(given)
    from viper.data.registry import chosen, data_set
    from viper.data.sample import Where
    from viper.evaluate.predictions import score_predictions

    found = data_set(name)
    split = given["split"] or found.splits[0]
    where = Where(given["root"], split, given["seed"], given["limit"])
    samples = chosen(found.samples(where), given["limit"], given["seed"])
    scored = score_predictions(samples, found.metric, given["predictions"], given["missing"])
    _warn(scored)
    if given["rows"] is not None:
        _write_rows(given["rows"], scored)
    about = {"set": found.name, "split": split, "metric": found.metric}
    if given["as_json"]:
        from viper.evaluate.predictions.score import summary

        click.echo(json.dumps({**about, **summary(scored)}, allow_nan=False, ensure_ascii=False))
    else:
        click.echo(f"{found.name} {split}, {scored.figures.n} samples, metric {found.metric}")
        _print(scored, given["by_group"])
    return EXIT_OK


def _judged(given: dict[str, Any]) -> int:
    """The figures of a sheet that people filled in."""
    import dataclasses

    from viper.evaluate.judgements import read_judgements
    from viper.evaluate.predictions.score import percent

    judged = read_judgements(given["judgements"], given["missing"])
    if given["as_json"]:
        click.echo(json.dumps(dataclasses.asdict(judged), ensure_ascii=False))
        return EXIT_OK
    unjudged = f", {len(judged.unfilled)} unjudged" if judged.unfilled else ""
    click.echo(f"{judged.correct.n} edits, {judged.without_picture} without a picture{unjudged}")
    click.echo(f"correct {percent(judged.correct)}")
    return EXIT_OK


def _warn(scored: Scored) -> None:
    from viper.evaluate.predictions.score import first_few

    if scored.duplicates:
        click.echo(
            f"viper: warning: {scored.duplicates} duplicate predictions; the last of each counts",
            err=True,
        )
    if scored.unknown:
        click.echo(
            f"viper: warning: {len(scored.unknown)} predictions are for ids that the set does not "
            f"have: {first_few(scored.unknown)}",
            err=True,
        )


def _print(scored: Scored, by_group: bool) -> None:
    from viper.commands.tables import echo_table
    from viper.evaluate.predictions.score import HEADER, figure_rows, percent

    overall = scored.figures.overall
    if len(overall) > 4:
        echo_table(list(overall), [[percent(estimate) for estimate in overall.values()]])
        click.echo()
    echo_table(HEADER, list(figure_rows(scored.figures, by_group)))


def _write_rows(path: Path, scored: Scored) -> None:
    from viper.evaluate.predictions.score import rows_csv
    from viper.storage.files import replace_file

    try:
        replace_file(path, rows_csv(scored.rows).encode(errors="backslashreplace"))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
