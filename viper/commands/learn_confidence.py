"""``viper learn confidence``: calibrate the confidence of answers on labelled samples."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.terminal import evaluation_progress, hint_to_go_on, status
from viper.errors import UsageError
from viper.evaluate.calibration import (
    LEAST_ANSWERS,
    Labelled,
    fit_confidence,
    labelled_answers,
    risk_coverage,
)
from viper.evaluate.campaign import SampledEvaluation, answer_all, bound_arenas
from viper.evaluate.reports.tables import with_interval
from viper.evaluate.runs.store import RunStore
from viper.profiles.files import with_values
from viper.reasoner import RunOptions
from viper.schema import to_json
from viper.storage.files import write_file
from viper.strategies.confidence import (
    CALIBRATIONS,
    CHECKED,
    PROGRAM,
    VERIFIED,
    Confidence,
    mode_of,
)


@dataclass(frozen=True, kw_only=True)
class ConfidenceOptions(cli.ProfileChoice):
    """Options of ``viper learn confidence``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split of the labelled samples. By default the first of the data set.")
    limit: int = cli.option("--limit", type=click.IntRange(LEAST_ANSWERS), default=400, metavar="N",
        help="Number of samples, drawn at random.")
    seed: int = cli.seed_field("Random seed for the choice of samples.")
    runs: tuple[Path, ...] = cli.option("--from", metavar="RUN",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Calibrate on a stored run of viper eval instead of SET; repeatable.")
    modes: tuple[str, ...] = cli.option("--mode", type=click.Choice(CALIBRATIONS),
        help="Calibrate plain runs, runs with --verify (verified) or with --checks (checked); "
             "repeatable. By default as the profile runs, and verified.")
    programs: Path | None = cli.programs_option("")
    out: Path = cli.out_field("FILE.toml", "Profile to write.")
    work: Path | None = cli.option("--work", type=cli.OutPath(), metavar="DIR",
        help="Folder for the answers. By default FILE.toml.answers; it is continued from there.")
    as_json: bool = cli.option("--json", help="Print one JSON object.")
    # fmt: on


@click.command()
@click.argument("name", metavar="[SET]", required=False, type=cli.DATA_SET)
@cli.options_as(ConfidenceOptions)
def confidence(options: ConfidenceOptions, name: str | None) -> None:
    """Calibrate the confidence of answers on labelled samples of SET, and write it as a profile.

    Answers with the new profile have a confidence, and `--abstain RISK` gives only those with an
    expected error of at most RISK. Labelled samples must be like the queries to come. The printed
    figures are held out: each answer's confidence comes from a fit on the others. After Ctrl-C the
    same command continues. A profile without a writer answers by --programs; its confidence is then
    about what its models see, not about programs.

    \b
    viper learn confidence world --split val --limit 400 --out calibrated.toml
    viper learn confidence coco --root DIR --split rest --programs DIR --out calibrated.toml
    viper learn confidence --from runs/plain --from runs/verified --out calibrated.toml
    viper run photo.png "…" --profile calibrated.toml --verify --abstain 0.05
    """
    if (name is None) == (not options.runs):
        raise UsageError("give a data set SET or stored runs with --from RUN, one of the two")
    profile = cli.open_profile(options)
    if profile.document.path is None:
        raise UsageError(f"profile {profile.name} is no file; save it as one first")
    out = cli.free_profile(options.out)
    folders = [*options.runs]
    if name is not None:
        bound_arenas()
        cli.quiet_libraries(options.offline)
        with status("reading samples"):
            sampled = SampledEvaluation.of(cli.evaluation_of(name, options))
        work = options.work or out.with_name(f"{out.name}.answers")
        document = to_json(profile.document)
        with closing(profile.components()) as components, hint_to_go_on():
            usual = mode_of(PROGRAM, verify=False, checks=profile.document.run.checks)
            usual_modes = (usual,) if options.programs else (usual, VERIFIED)
            for mode in dict.fromkeys(options.modes or usual_modes):
                folders.append(work / mode)
                asked = RunOptions(verify=mode == VERIFIED, checks=mode == CHECKED)
                of_mode = sampled.under(asked.changed(strategy=PROGRAM))
                with evaluation_progress(len(sampled.samples), 0) as progress:
                    answer_all(components, of_mode, folders[-1], document, progress)
    answers: dict[str, list[Labelled]] = {}
    for folder in folders:
        store = RunStore.read(folder)
        of_run = store.manifest.settings
        flags = {name: bool(of_run.get(name)) for name in ("verify", "checks")}
        mode = mode_of(store.manifest.strategy, **flags)
        answers.setdefault(mode, []).extend(labelled_answers(store))
    fitted: dict[str, Confidence] = {}
    report = {}
    for mode, labelled in answers.items():
        fitted[mode], held_out = fit_confidence(labelled)
        measured = risk_coverage(held_out.tolist(), [answer.right for answer in labelled])
        figures = {"calibration error": measured.calibration_error, "area": measured.area}
        figures |= {f"risk at {coverage}": risk for coverage, risk in measured.at.items()}
        report[mode] = {key: vars(value) for key, value in figures.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, with_values(profile.document.path, out.stem, confidence=fitted))
    if options.as_json:
        click.echo(json.dumps(report))
    else:
        for mode, estimates in report.items():
            click.echo(f"{mode}, {len(answers[mode])} answers, held out:")
            for key, value in estimates.items():
                click.echo(f"  {key}: {with_interval(value)}")
