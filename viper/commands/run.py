"""``viper run``: answer a question about images or a video.

Its options are in :mod:`viper.commands.run_options` and, for settings of a run, in
:mod:`viper.strategies.settings`. :func:`run` checks them, opens the profile or the client of a
server, and answers one query or, with ``-i``, each line of standard input. ``--dry-run`` and
``--show-prompt`` answer none.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from viper.commands import options as cli
from viper.commands.run_options import QueryOptions, run_changes, sent_parameters
from viper.commands.terminal import note, status
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError, ViperError
from viper.strategies import STRATEGIES, strategy

if TYPE_CHECKING:
    from viper.models.media import Media
    from viper.reasoner import Reasoner, RunOptions
    from viper.run_result import RunResult
    from viper.schema import Trial
    from viper.serve.client import RemoteReasoner

# Pairs of options of which each would make the other one meaningless.
_CONTRADICTORY = (("verbose", "quiet"), ("as_json", "program_only"), ("dry_run", "show_prompt"))

_HINT = "hint: models load anew for each command; -i asks several questions, --server a viper serve"

_STRATEGY_LINES = "\n".join(f"  {name:<12} {each.summary}" for name, each in STRATEGIES.items())


@click.command(
    cls=cli.SectionedCommand,
    first="choices task strategy profile api save html as_json interactive seed dry_run",
    epilog=f"\b\nStrategies:\n{_STRATEGY_LINES}",
)
@click.argument(
    "media_and_query", nargs=-1, required=True, metavar="MEDIA... QUERY", type=cli.MEDIA
)
@cli.options_as(QueryOptions)
def run(chosen: QueryOptions, media_and_query: tuple[str, ...]) -> int:
    """Answer QUERY about MEDIA: one or more images, or one video.

    The answer goes to stdout. The program, its tool calls and progress go to stderr.

    \b
    viper run table.png "what color is the second cube from the left?"
    viper run table.png "the ball closest to the red cube" --save answer.png --json
    viper run table.png "how many cubes are there?" --html answer.html
    viper run receipt.jpg --schema total:money,date:date,company:text
    viper run clip.mp4 "what starts moving first?" --options "the blue cube; the green cone"
    viper run table.png -i
    viper run photo.jpg "who is this?" --force
    """
    *before, last = media_and_query
    # Path.exists raises for a question that is longer than a file's name.
    if chosen.fields and (not before or os.path.exists(last)):  # noqa: PTH110
        media_and_query = (*media_and_query, f"read the fields {chosen.fields}")
    if len(media_and_query) < 2 and not chosen.interactive:
        raise click.UsageError(
            "expected MEDIA... QUERY: at least one image or video, then the question"
        )
    _check_together(chosen)
    from viper.models.decoding import limited, start_worker

    start_worker()
    # Importing these takes longer than all of --help.
    from viper.reasoner import RunOptions, checked_query

    if not chosen.interactive:
        checked_query(media_and_query[-1])
    paths = list(media_and_query if chosen.interactive else media_and_query[:-1])
    query = media_and_query[-1]
    options = RunOptions(
        task=chosen.task,
        options=";".join(chosen.choices),
        like=chosen.like,
        fields=chosen.fields,
        strategy=chosen.strategy,
        seed=chosen.seed,
        **run_changes(chosen.settings),
    )
    with limited(options.max_seconds or None):
        media = cli.read_media(paths, chosen.page)
    if chosen.server is not None:
        from viper.serve.client import RemoteReasoner

        if chosen.api is not None:  # the profile's otherwise, which is the server's
            options = options.changed(changes={**options.changes, "api": chosen.api})
        server = RemoteReasoner(chosen.server, os.environ.get("VIPER_SERVE_TOKEN"), paths)
        return _answer(chosen, server, media, query, options)
    from viper.strategies.base import ShowsPrompt

    profile = cli.open_profile(chosen)
    name = chosen.strategy or profile.document.run.strategy
    built, shipped = (
        strategy(name),
        STRATEGIES.get(name),
    )  # assume that installed strategies write programs
    writes_programs = shipped is None or shipped.writes_programs
    if not writes_programs and (
        chosen.program_only or (chosen.show_prompt and not isinstance(built, ShowsPrompt))
    ):
        raise click.UsageError(f"strategy {name} writes no program; nothing to show")
    if chosen.dry_run:
        from viper.commands.dry_run import tell_cost

        return tell_cost(profile, chosen.offline, media, query, options)
    if chosen.show_prompt:
        from viper.commands.dry_run import show_prompt

        show_prompt(profile, media, query, options)
        return EXIT_OK
    if chosen.fields and chosen.strategy is None:
        profile = profile.with_ocr_alone()
    with cli.open_reasoner(profile, many_queries=chosen.interactive and os.isatty(0)) as reasoner:
        if writes_programs:  # its processes start while the libraries of the models are imported
            reasoner.components.sandbox.start()
        return _answer(chosen, reasoner, media, query, options)


def _check_together(chosen: QueryOptions) -> None:
    """Refuse options that contradict each other, or that ``-i`` or ``--server`` could not heed.

    Raises:
        UsageError: names them.
    """
    context = click.get_current_context()
    explicit = {
        parameter.name or "": "/".join([*parameter.opts, *parameter.secondary_opts])
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    for first, second in _CONTRADICTORY:
        if first in explicit and second in explicit:
            raise UsageError(f"{explicit[first]} and {explicit[second]}: give one of them")
    local = [option for name, option in explicit.items() if name not in sent_parameters()]
    if chosen.server is not None and local:
        raise UsageError(
            f"--server answers with its own models and settings; leave out {', '.join(local)}"
        )
    for name in ("save", "html", "dry_run", "show_prompt"):
        if chosen.interactive and name in explicit:
            raise UsageError(f"{explicit[name]} is for a single query; leave it out with -i")


def _answer(
    chosen: QueryOptions,
    reasoner: Reasoner | RemoteReasoner,
    media: Media,
    query: str,
    options: RunOptions,
) -> int:
    from viper.commands.present import print_result, trial_line

    def report(trial: Trial) -> None:
        if chosen.verbose:
            note(trial_line(trial))

    def answer(question: str) -> int:
        run = partial(reasoner.run, media, question, options, on_trial=report)
        with status("answering"):
            if not chosen.interactive or chosen.server is not None:
                result: RunResult = run()
            else:
                # Ctrl-C ends the run in order, so that the reasoner can answer further questions.
                cancel = threading.Event()
                with ThreadPoolExecutor(1) as thread:
                    try:
                        result = thread.submit(run, cancel=cancel).result()
                    except KeyboardInterrupt:
                        cancel.set()
                        raise
        result = result if chosen.force else result.withheld()
        exit_code = print_result(
            result,
            chosen.save,
            as_json=chosen.as_json and chosen.json_schema,
            program_only=chosen.program_only,
            quiet=chosen.quiet,
        )
        if chosen.html is not None:
            command = cli.command_line(click.get_current_context(), ("html", "save", "as_json"))
            with status("writing the page"):
                result.html(chosen.html, command)
        is_watched = sys.stdout.isatty() and sys.stderr.isatty() and not chosen.quiet
        if is_watched and not chosen.interactive and chosen.server is None:
            cli.note_once(chosen.state, "hint: -i and --server", _HINT)
        return exit_code

    return _answer_each(answer) if chosen.interactive else answer(query)


def _answer_each(answer: Callable[[str], int]) -> int:
    """Answer questions from standard input, a line each, until an empty line or the end.

    Ctrl-C ends the answer to one question, and while waiting for a question the command.
    """
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401  the arrow keys edit the line
    exit_code = EXIT_OK
    while question := _next_question().strip():
        code = EXIT_FAILED
        try:
            code = answer(question)
        except ViperError as error:
            note(f"viper: {error}")
        except KeyboardInterrupt:
            note("cancelled")
        exit_code = exit_code or min(code, EXIT_FAILED)
    return exit_code


def _next_question() -> str:
    """Return a line of standard input, or "" at its end."""
    if not sys.stdin.isatty():
        return sys.stdin.readline()
    click.echo(err=True)
    try:
        return input("? ")
    except EOFError:
        return ""
