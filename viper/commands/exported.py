"""The command line of a script that ``viper export`` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from viper.commands import options as cli
from viper.commands.present import answer_line
from viper.commands.terminal import echo_json, end_with, status
from viper.errors import EXIT_FAILED, EXIT_OK, MediaError
from viper.escape import for_terminal
from viper.profiles.exported import ExportedProgram
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner, RunOptions
from viper.record import record_from_json, result_record
from viper.run_result import RunResult


@dataclass(frozen=True, kw_only=True)
class ScriptOptions(cli.ProfileChoice):
    """Options of an exported script."""

    # fmt: off
    as_json: bool = cli.option("--json",
        help="Print one JSON object with the whole trace for each picture.")
    # fmt: on


def main(values: Mapping[str, Any]) -> None:
    """Run the script on the pictures of the command line, and end the process.

    Args:
        values: the literal of the script.
    """
    exported = record_from_json(ExportedProgram, values)

    @click.command(context_settings={"help_option_names": ["-h", "--help"]})
    @click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...")
    @cli.options_as(ScriptOptions)
    def script(options: ScriptOptions, pictures: tuple[str, ...]) -> int:
        return _answer(exported, options, pictures)

    about = f"Answer about each PICTURE (an image or a video): {for_terminal(exported.query, 200)}"
    script.help = f"{about}\n\nThe profile of the export answers unless --profile names another."
    end_with(script, prog_name="python SCRIPT")


def profile_of(exported: ExportedProgram, choice: cli.ProfileChoice) -> Profile:
    """Return the profile of an export, or the one that ``--profile`` names, with its thresholds."""
    if choice.profile != "auto":
        return exported.tuned(cli.open_profile(choice))
    cli.quiet_libraries(choice.offline)
    return exported.pinned_profile(
        sandbox=choice.sandbox,
        state=choice.state,
        max_memory_gb=choice.max_memory_gb,
        learned=choice.learned,
        **({"api": choice.api} if choice.api else {}),
    )


def warn_of_models(exported: ExportedProgram, reasoner: Reasoner) -> None:
    """Warn of loaded models that are not those which gave the exported answer."""
    for role, model in reasoner.components.toolbox.models.loaded().items():
        seen, pinned = str(getattr(model, "model_id", "")), exported.models.get(role)
        if pinned and seen and seen != pinned:
            click.echo(f"viper: warning: the {role} is {seen}; the export used {pinned}", err=True)


def _answer(exported: ExportedProgram, options: ScriptOptions, pictures: Sequence[str]) -> int:
    profile = profile_of(exported, options)
    cli.fetch_models(profile)
    exit_code = EXIT_OK
    together = exported.media == "images"
    with Reasoner(profile, preload=False) as reasoner:
        for media in [list(pictures)] if together else [[each] for each in pictures]:
            name = "" if together or len(pictures) == 1 else f"{Path(media[0]).name}:"
            try:
                with status("answering"):
                    result = _execute(reasoner, exported, media)
            except MediaError as error:
                click.echo(f"viper: {error}", err=True)
                exit_code = EXIT_FAILED
                continue
            if options.as_json:
                echo_json({"media": media, **result_record(result.trace)})
            else:
                click.echo(f"{for_terminal(name)}{' ' if name else ''}{answer_line(result)}")
            if result.answer is None:
                exit_code = EXIT_FAILED
        warn_of_models(exported, reasoner)
    return exit_code


def _execute(reasoner: Reasoner, exported: ExportedProgram, media: Sequence[str]) -> RunResult:
    options = RunOptions(task=exported.task, options=exported.options)
    return reasoner.execute(exported.program, list(media), exported.query, options)
