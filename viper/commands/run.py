"""``viper run``: answer a question about pictures or a video."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from viper.commands.correction_options import correction_options, run_changes
from viper.commands.options import (
    api_option,
    learned_option,
    open_reasoner,
    profile_options,
    split_options,
)
from viper.commands.out_path import OutPath
from viper.commands.repeating import command_line
from viper.errors import EXIT_FAILED, EXIT_OK
from viper.schema import TASKS
from viper.strategies import STRATEGIES

if TYPE_CHECKING:
    from viper.reasoner import Reasoner, RunOptions, RunResult


_STRATEGY_LINES = "\n".join(
    f"  {name:<12} {shipped.summary}" for name, shipped in STRATEGIES.items()
)


@click.command(epilog=f"\b\nStrategies:\n{_STRATEGY_LINES}")
@click.argument("media_and_query", nargs=-1, required=True, metavar="MEDIA... QUERY")
@click.option("--task", type=str, default="auto", show_default=True, help=f"{', '.join(TASKS)}.")
@api_option
@click.option(
    "--strategy", default="program", show_default=True, help="How to go about it; see below."
)
@click.option(
    "--options",
    "choices",
    multiple=True,
    help='Candidate answers: "a; b; c", or the option repeated. Makes the task a choice.',
)
@correction_options
@click.option("--seed", type=int, default=0, show_default=True, help="Of sampling.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the whole trace.")
@click.option(
    "--save",
    type=OutPath(),
    default=None,
    help="Write the answer drawn on the picture.",
)
@click.option(
    "--html",
    type=OutPath(),
    default=None,
    help="Write what happened as a page: each line of the program beside what it produced.",
)
@click.option("--show-prompt", is_flag=True, help="Print the prompt and ask no model.")
@click.option(
    "--dry-run", is_flag=True, help="Say which models would load and what would be asked of them."
)
@click.option("--program-only", is_flag=True, help="Print the program of the run and nothing else.")
@learned_option()
@profile_options
def run(media_and_query: tuple[str, ...], **given: Any) -> int:
    """Answer QUERY about MEDIA: one or more pictures, or one video file.

    The answer goes to stdout; the program, its tool calls and progress go to stderr.

    \b
    viper run table.png "what color is the second cube from the left?"
    viper run table.png "the ball closest to the red cube" --save found.png --json
    viper run table.png "how many cubes are there?" --html what-happened.html
    viper run clip.mp4 "what happens first?" --options "the ball stops; the cube appears"
    """
    if len(media_and_query) < 2:
        raise click.UsageError(
            "expected MEDIA... QUERY: at least one picture or video, then the question"
        )
    from viper.models.media import media_from

    *paths, query = media_and_query
    media = media_from(paths)
    options = _run_options(given)
    if not _writes_programs(options.strategy) and (given["show_prompt"] or given["program_only"]):
        raise click.UsageError(f"strategy {options.strategy} writes no program; nothing to show")
    if given["dry_run"]:
        return _dry_run(given, media, query, options)
    with open_reasoner(given) as reasoner:
        if given["show_prompt"]:
            click.echo(reasoner.prompt(media, query, options))
            return EXIT_OK
        result = _answer(reasoner, media, query, options)
        exit_code = _print(result, given)
        if given["html"] is not None:
            from viper.commands.pages import write_run_page

            again = command_line(click.get_current_context(), ("html", "save", "as_json"))
            write_run_page(result, reasoner, given["html"], again)
    return exit_code


def _run_options(given: dict[str, Any]) -> RunOptions:
    from viper.reasoner import RunOptions
    from viper.strategies import strategy

    strategy(given["strategy"])
    return RunOptions(
        task=given["task"],
        options=split_options(given["choices"]),
        strategy=given["strategy"],
        seed=given["seed"],
        **run_changes(given),
    )


def _writes_programs(strategy: str) -> bool:
    """Whether there are a prompt and a program to show; taken to be so of installed ones."""
    return strategy not in STRATEGIES or STRATEGIES[strategy].writes_programs


def _dry_run(given: dict[str, Any], media: Any, query: str, options: RunOptions) -> int:
    """Prints what the run would cost; loads no weights."""
    from dataclasses import replace

    from viper.commands.options import open_profile
    from viper.commands.profile import place_of
    from viper.commands.tables import echo_table
    from viper.models.llm.scripted import ScriptedLLM
    from viper.profiles.inventory import inventory
    from viper.reasoner import Reasoner

    profile = open_profile(given)
    states = list(inventory(profile, given["offline"]))
    echo_table(
        ("role", "backend", "model", "weights"),
        [(s.role, s.backend, s.model or "-", s.problem or place_of(s)) for s in states],
    )
    sizes = [state.size_bytes for state in states if state.size_bytes]
    click.echo(f"weights on this disk: {sum(sizes) / 1e6:,.0f} MB; each loads when first needed")
    exit_code = EXIT_FAILED if any(state.problem for state in states) else EXIT_OK
    if not _writes_programs(options.strategy):
        click.echo(f"strategy {options.strategy}: {STRATEGIES[options.strategy].summary}")
        return exit_code
    # Router and examples count tokens with the model itself, which would load it.
    parts = profile.components()
    parts = parts.with_models(**{role: ScriptedLLM() for role in parts.models})
    parts = replace(parts, settings=replace(parts.settings, api_budget=0))
    with Reasoner(parts, preload=False) as reasoner:
        prompt = reasoner.prompt(media, query, options)
        settings = options.settings(parts.settings)
    written = "plans and as many programs" if options.strategy == "plan" else "programs"
    fewest, most = (settings.votes + 1) // 2, settings.trials * settings.votes
    click.echo(
        f"language model: {fewest} to {most} {written}, a prompt of {len(prompt):,} characters "
        f"(roughly {len(prompt) // 4:,} tokens), at most {settings.max_tokens} tokens each"
    )
    most = profile.document.limits.calls
    click.echo(f"vision models: as many calls as the program makes, at most {most}")
    return exit_code


def _answer(reasoner: Reasoner, media: Any, query: str, options: RunOptions) -> RunResult:
    from viper.commands.present import failure_line
    from viper.commands.progress import status
    from viper.schema import Trial

    def report(trial: Trial) -> None:
        if not trial.ok:
            click.echo(f"trial {trial.index + 1}: {failure_line(trial.failure)}", err=True)

    with status("answering"):
        return reasoner.run(media, query, options, on_trial=report)


def _print(result: RunResult, given: dict[str, Any]) -> int:
    import json

    from viper.commands.present import answer_line, details
    from viper.record import result_record

    images = []
    if given.get("save") is not None:
        from viper.draw import save_answer

        save_answer(result, given["save"])
        images = [str(given["save"])]
    if given["as_json"]:
        click.echo(json.dumps(result_record(result.trace, images), ensure_ascii=False))
    elif given.get("program_only"):
        click.echo(result.program or "")
    else:
        for line in details(result):
            click.echo(line, err=True)
        click.echo(answer_line(result))
    return EXIT_OK if result.answer is not None else EXIT_FAILED
