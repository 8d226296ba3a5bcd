"""``viper ace tune``: tune temperature and thresholds on a few labelled samples.

`_plan` lists the settings with the values to try. For each setting, `sweep` answers the samples
once with every value, in stored runs, while the others stay as they are. The best values go into a
copy of the profile, whose comments stay.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from viper.commands import options as cli
from viper.commands.terminal import hint_to_go_on, note
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper.evaluate.campaign import RunProgress, SampledEvaluation
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.sweep import TEMPERATURE, SweepSetup, current_value, sweep, values_between
from viper.profiles.files import whole_api, with_values
from viper.schema import to_json
from viper.storage.files import write_file
from viper.strategies.base import Components

# From greedy to the models' own distribution; each value costs a run.
TEMPERATURES = "0, 0.4, 0.8, 1.0"


@dataclass(frozen=True, kw_only=True)
class TuneOptions(cli.ProfileChoice):
    """Options of ``viper ace tune``."""

    # fmt: off
    set_name: str = cli.option("--data", default="world-a", metavar="SET", type=cli.DATA_SET,
        help="Data set (see viper data list), or your FILE.csv or FILE.jsonl.")
    root: Path | None = cli.given_by(cli.root_option)
    split: str = cli.option("--split", default="train", metavar="NAME",
        help="Split of the labelled samples.")
    shots: int = cli.option("--shots", type=click.IntRange(2, 10_000), default=48,
        help="Number of labelled samples to tune on.")
    validate: str | None = cli.option("--validate", metavar="SPLIT",
        help="Answer this split as well, and print how well the labelled samples predict it.")
    limit: int = cli.option("--limit", type=click.IntRange(2), default=300,
        help="Maximum number of samples of --validate.")
    seed: int = cli.seed_field("Random seed for the choice of samples and for sampling.")
    temperatures: str = cli.option("--temperatures", default=TEMPERATURES, metavar="A, B, …",
        help='Temperatures to try for the language model; "" keeps its temperature.')
    values: tuple[str, ...] = cli.option("--threshold", metavar="NAME=A, B, …",
        help="Values to try for a threshold; repeatable. By default four values of "
             "detector.threshold between floor and start of the profile.")
    examples_bank: str | None = cli.option("--bank", metavar="FILE",
        help="Bank of in-context examples that replaces the bank of the profile.")
    out: Path = cli.out_field("FILE.toml", "Profile to write.")
    work: Path | None = cli.option("--work", type=cli.OutPath(), metavar="DIR",
        help="Folder for the answers. By default FILE.toml.tuning.")
    as_json: bool = cli.option("--json", help="Print one JSON list.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@click.command()
@cli.options_as(TuneOptions)
def tune(options: TuneOptions) -> None:
    """Tune temperature and thresholds on a few labelled samples, and write the best as a profile.

    Each setting is varied alone, without self-tuning; the others keep the values of the profile.
    The best threshold becomes the `fixed` value of the new profile, and the start of self-tuning
    moves in proportion. Every answer is stored at once; after Ctrl-C the same command continues.
    Source: Stanić et al. 2024, sec. 3.2 and tables 3 and 4.

    \b
    viper ace tune --data world-a --validate val --out tuned.toml
    viper ace tune --data refcoco --root refer --profile local --shots 16 \\
        --threshold "detector.threshold=0.05, 0.10, 0.15, 0.20" --out tuned.toml
    """

    def draw(split: str, limit: int) -> SampledEvaluation:
        spec = DatasetSpec(options.root, split, options.seed)
        return SampledEvaluation.of(Evaluation(options.set_name, spec, limit, (options.seed,)))

    def on_progress(name: str, running: RunProgress) -> None:
        if running.done == running.total or running.fresh % 50 == 0:
            note(f"{name}: {running.done}/{running.total}, mean {running.mean:.3f}")

    out = cli.free_profile(options.out)
    profile = cli.open_profile(options)
    with closing(profile.components()) as components, hint_to_go_on():
        plan = _plan(components, options)
        split, validate = options.split, options.validate
        if validate == split:
            raise UsageError(
                f"--validate {validate}: the shots are from there; choose another split"
            )
        swept = SweepSetup(
            draw(split, options.shots),
            draw(validate, options.limit) if validate else None,
            options.work or out.with_name(out.name + ".tuning"),
            to_json(profile.document),
        )
        sweeps = [
            sweep(components, name, values, swept, on_progress) for name, values in plan.items()
        ]
    document = profile.document
    run: dict[str, Any] = {"bank": document.bank} if options.examples_bank else {}
    if options.api:
        run["api"] = whole_api(options.api, Path())
    chosen = {setting.name: setting.chosen.value for setting in sweeps}
    if TEMPERATURE in chosen:
        run["temperature"] = chosen.pop(TEMPERATURE)
    sensitivities = {}
    for name, value in chosen.items():
        threshold = document.tools.sensitivities[name]
        before = threshold.start if threshold.fixed is None else threshold.fixed
        start = max(value, round(value * threshold.start / before, 3)) if before else value
        floor = min(value, threshold.floor)
        sensitivities[name] = replace(threshold, fixed=value, start=start, floor=floor)
    assert document.path is not None
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, with_values(document.path, out.stem, run, sensitivities))
    if options.as_json:
        click.echo(json.dumps([setting.to_json() for setting in sweeps]))
    for setting in () if options.as_json else sweeps:
        click.echo(f"{setting.name} (was {setting.current:g}): {setting.chosen.value:g} is chosen")
        for candidate in setting.points:
            full = "" if candidate.full is None else f"   full {candidate.full:.3f}"
            mark = "  <-" if candidate is setting.chosen else ""
            click.echo(f"  {candidate.value:<6g} shots {candidate.shots:.3f}{full}{mark}")
        if setting.agreement is not None:
            click.echo(f"  agreement of the two orders: Kendall's tau {setting.agreement:+.2f}")
        if setting.regret is not None:
            click.echo(f"  given away by choosing on the shots: {setting.regret:.3f}")


def _plan(components: Components, options: TuneOptions) -> dict[str, Sequence[float]]:
    """Return the values to try for each setting, temperatures first."""
    plan: dict[str, Sequence[float]] = {}
    if options.temperatures.strip():
        plan[TEMPERATURE] = _numbers("--temperatures", options.temperatures)
    for text in options.values:
        name, equals, values = text.partition("=")
        if not equals:
            raise UsageError(f"--threshold {text!r}: expected NAME=A, B, …")
        current_value(components, name.strip())
        plan[name.strip()] = [*plan.get(name.strip(), ()), *_numbers("--threshold", values)]
    threshold = components.toolbox.settings.sensitivities.get("detector.threshold")
    if not options.values and threshold is not None:
        plan["detector.threshold"] = values_between(threshold.floor, threshold.start)
    if not plan:
        raise UsageError("nothing to try; give --temperatures or --threshold NAME=A, B, …")
    return plan


def _numbers(spelling: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{spelling} {text!r}: expected numbers with commas between") from None
    if not all(0 <= value <= 2 for value in numbers):
        raise UsageError(f"{spelling} {text!r}: expected numbers from 0 to 2")
    return numbers
