"""``viper ace tune``: temperature and thresholds chosen on a few labelled samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from viper.commands.options import (
    OutPath,
    ProfileChoice,
    api_option,
    given_by,
    open_profile,
    option,
    options_as,
    root_option,
    seed_option,
)
from viper.commands.terminal import hint_to_go_on
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_OK, UsageError
from viper.evaluate.answered import (
    TEMPERATURE,
    Drawn,
    Sweep,
    Swept,
    current_value,
    sweep,
    values_between,
)
from viper.evaluate.evaluation import Evaluation
from viper.profiles.document import ProfileDocument
from viper.profiles.edit import whole_api, with_values
from viper.schema import to_json
from viper.storage.files import write_file
from viper.strategies.base import Components

TEMPERATURES = "0, 0.4, 0.8, 1.0"


@dataclass(frozen=True, kw_only=True)
class TuneOptions(ProfileChoice):
    """The options of ``viper ace tune``."""

    # fmt: off
    set_name: str = option("--data", default="world-a", metavar="SET",
        help="See viper data list; or a FILE.csv, FILE.jsonl of your own.")
    root: Path | None = given_by(root_option)
    split: str = option("--split", default="train", metavar="NAME",
        help="Where the few labelled samples are from.")
    shots: int = option("--shots", type=click.IntRange(2, 10_000), default=48,
        help="Labelled samples to choose on.")
    validate: str | None = option("--validate", metavar="SPLIT",
        help="Also answer this split, and say how well the shots foretold it.")
    limit: int = option("--limit", type=click.IntRange(2), default=300,
        help="Samples of --validate at most.")
    seed: int = given_by(seed_option("Chooses samples, and is the seed of sampling."))
    temperatures: str = option("--temperatures", default=TEMPERATURES, metavar="A, B, …",
        help='Of the language model; "" leaves it alone.')
    values: tuple[str, ...] = option("--threshold", metavar="NAME=A, B, …",
        help="Values of a sensitivity; by default four of detector.threshold between the profile's "
             "floor and start.")
    examples_bank: str | None = option("--bank", metavar="FILE",
        help="Examples to show instead of the profile's.")
    out: Path = option("--out", type=OutPath(), required=True, metavar="FILE.toml",
        help="The profile to write.")
    work: Path | None = option("--work", type=OutPath(), metavar="DIR",
        help="Where the answers are kept; by default FILE.toml.tuning.")
    as_json: bool = option("--json", help="Print one JSON list.")
    api: str | None = given_by(api_option)
    # fmt: on


@click.command()
@options_as(TuneOptions)
def tune(wanted: TuneOptions) -> int:
    """Try temperatures and thresholds on a few labelled samples; write the best as a profile.

    Settings are tried one after another, each with everything else as the profile has it and
    without self-tuning. A threshold that is chosen becomes the profile's `fixed` value, and the
    start of self-tuning moves in proportion. Every answer is stored at once: after Ctrl-C
    the same line goes on. Source: Stanić et al. 2024, sec. 3.2 and tables 3 and 4.

    \b
    viper ace tune --data world-a --validate val --out tuned.toml
    viper ace tune --data refcoco --root refer --profile local --shots 16 \\
        --threshold "detector.threshold=0.05, 0.10, 0.15, 0.20" --out tuned.toml
    """
    out = _free(wanted.out)
    profile = open_profile(wanted)
    with closing(profile.components()) as components, hint_to_go_on():
        plan = _plan(components, wanted)
        work = wanted.work or out.with_name(out.name + ".tuning")
        swept = Swept(*_drawn(wanted), work, to_json(profile.document))
        found = [sweep(components, name, values, swept, _say) for name, values in plan.items()]
    run = {"bank": profile.document.bank} if wanted.examples_bank else {}
    if wanted.api:
        run["api"] = whole_api(wanted.api, Path())
    _write(profile.document, found, run, out)
    click.echo(json.dumps([one.to_json() for one in found]) if wanted.as_json else _table(found))
    click.echo(out, err=True)
    return EXIT_OK


def _free(out: Path) -> Path:
    """The file to write, if one may: told before anything is answered."""
    if out.suffix != ".toml":
        raise UsageError(f"--out {out}: the name of a profile's file ends in .toml")
    if out.exists():
        raise UsageError(f"{out}: there already; choose another name or remove it")
    return out


def _plan(components: Components, wanted: TuneOptions) -> dict[str, Sequence[float]]:
    """Each setting with the values to try, temperatures first."""
    plan: dict[str, Sequence[float]] = {}
    if wanted.temperatures.strip():
        plan[TEMPERATURE] = _numbers("--temperatures", wanted.temperatures)
    for text in wanted.values:
        name, equals, values = text.partition("=")
        if not equals:
            raise UsageError(f"--threshold {text!r}: expected NAME=A, B, …")
        current_value(components, name.strip())
        plan[name.strip()] = [*plan.get(name.strip(), ()), *_numbers("--threshold", values)]
    known = components.toolbox.settings.sensitivities.get("detector.threshold")
    if not wanted.values and known is not None:
        plan["detector.threshold"] = values_between(known.floor, known.start)
    if not plan:
        raise UsageError("nothing to try; give --temperatures or --threshold NAME=A, B, …")
    return plan


def _numbers(option: str, text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} {text!r}: expected numbers with commas between") from None
    if not all(0 <= value <= 2 for value in found):
        raise UsageError(f"{option} {text!r}: expected numbers from 0 to 2")
    return found


def _drawn(wanted: TuneOptions) -> tuple[Drawn, Drawn | None]:
    def asked(split: str, limit: int) -> Drawn:
        where = DatasetSpec(wanted.root, split, wanted.seed)
        return Drawn.of(Evaluation(wanted.set_name, where, limit, (wanted.seed,)))

    split, validate = wanted.split, wanted.validate
    if validate == split:
        raise UsageError(f"--validate {validate}: the shots are from there; choose another split")
    return asked(split, wanted.shots), asked(validate, wanted.limit) if validate else None


def _say(name: str, running: Any) -> None:
    if running.done == running.total or running.fresh % 50 == 0:
        click.echo(f"{name}: {running.done}/{running.total}, mean {running.mean:.3f}", err=True)


def _write(
    document: ProfileDocument, found: Sequence[Sweep], run: dict[str, Any], out: Path
) -> None:
    """The profile's own file with the chosen values in it, comments kept.

    Args:
        run: what else of ``[run]`` is new: the values were chosen with it.
    """
    assert document.path is not None
    chosen = {one.name: one.chosen.value for one in found}
    if TEMPERATURE in chosen:
        run = {**run, "temperature": chosen.pop(TEMPERATURE)}
    sensitivities = {}
    for name, value in chosen.items():
        known = document.tools.sensitivities[name]
        before = known.start if known.fixed is None else known.fixed
        start = max(value, round(value * known.start / before, 3)) if before else value
        floor = min(value, known.floor)
        sensitivities[name] = replace(known, fixed=value, start=start, floor=floor)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, with_values(document.path, out.stem, run, sensitivities))


def _table(found: Sequence[Sweep]) -> str:
    lines = []
    for one in found:
        lines.append(f"{one.name} (was {one.current:g}): {one.chosen.value:g} is chosen")
        for tried in one.tried:
            full = "" if tried.full is None else f"   full {tried.full:.3f}"
            mark = "  <-" if tried is one.chosen else ""
            lines.append(f"  {tried.value:<6g} shots {tried.shots:.3f}{full}{mark}")
        if one.agreement is not None:
            lines.append(f"  agreement of the two orders: Kendall's tau {one.agreement:+.2f}")
        if one.regret is not None:
            lines.append(f"  given away by choosing on the shots: {one.regret:.3f}")
    return "\n".join(lines)
