"""Ten questions about drawn pictures as files, and the run of `viper eval` on them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from PIL import Image

from viper.cli import cli
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.evaluate.runs.store import RunStore
from viper.models.media import media_from

COLORS = ("red", "green", "blue", "yellow", "purple", "cyan", "brown", "gray")


@dataclass(frozen=True)
class Question:
    """A question about a picture; ``answer`` is one of the options if there are some."""

    name: str
    picture: Path
    text: str
    answer: str
    options: tuple[str, ...]


def ten_questions(folder: Path) -> list[Question]:
    """Write the pictures and `table.csv`, and return the questions."""
    world = data_set("world").samples(DatasetSpec(None, "val", 0, 60))
    drawn = [sample for sample in world if sample.task == "question"][:10]
    questions = []
    for sample in drawn:
        picture = folder / f"{sample.sample_id}.png"
        Image.fromarray(media_from(sample.load()).images[0]).save(picture)
        answer = str(sample.target)
        options = COLORS if answer in COLORS else ()
        questions.append(Question(sample.sample_id, picture, sample.text, answer, options))
    assert {bool(each.options) for each in questions} == {True, False}
    with (folder / "table.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "media", "query", "answer", "options", "task"])
        for each in questions:
            options, task = "; ".join(each.options), "choice" if each.options else "question"
            table.writerow([each.name, each.picture.name, each.text, each.answer, options, task])
    return questions


def run_of(folder: Path) -> tuple[Path, dict[str, tuple[float, str]]]:
    """Run `viper eval` on the table; return its folder, and score and answer of each sample."""
    run = folder / "run"
    table = str(folder / "table.csv")
    result = CliRunner().invoke(cli, ["eval", table, "--out", str(run)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    with RunStore.read(run) as store:
        rows = {row.sample_id: row for row in store.rows()}
    return run, {
        name: (row.score, "" if row.prediction is None else str(row.prediction.value))
        for name, row in rows.items()
    }
