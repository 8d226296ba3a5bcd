"""``viper run``: answer a question about pictures or a video."""

from __future__ import annotations

import click

from viper.commands.options import command_line, open_reasoner, options_as, split_options
from viper.commands.run_options import QueryOptions, run_changes
from viper.errors import EXIT_OK
from viper.strategies import STRATEGIES, strategy

_STRATEGY_LINES = "\n".join(
    f"  {name:<12} {shipped.summary}" for name, shipped in STRATEGIES.items()
)


@click.command(epilog=f"\b\nStrategies:\n{_STRATEGY_LINES}")
@click.argument("media_and_query", nargs=-1, required=True, metavar="MEDIA... QUERY")
@options_as(QueryOptions)
def run(question: QueryOptions, media_and_query: tuple[str, ...]) -> int:
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
    # These cost more than all of --help.
    from viper.commands.pages import write_run_page
    from viper.commands.present import answer, print_result, tell_cost
    from viper.models.media import media_from
    from viper.reasoner import RunOptions

    *paths, query = media_and_query
    media = media_from(paths)
    strategy(question.strategy)
    options = RunOptions(
        task=question.task,
        options=split_options(question.choices),
        strategy=question.strategy,
        seed=question.seed,
        **run_changes(question.settings),
    )
    shipped = STRATEGIES.get(question.strategy)  # an installed one is taken to write programs
    writes_programs = shipped is None or shipped.writes_programs
    if not writes_programs and (question.show_prompt or question.program_only):
        raise click.UsageError(f"strategy {options.strategy} writes no program; nothing to show")
    if question.dry_run:
        return tell_cost(question, media, query, options, writes_programs)
    with open_reasoner(question) as reasoner:
        if question.show_prompt:
            click.echo(reasoner.prompt(media, query, options))
            return EXIT_OK
        result = answer(reasoner, media, query, options)
        exit_code = print_result(
            result, question.save, as_json=question.as_json, program_only=question.program_only
        )
        if question.html is not None:
            again = command_line(click.get_current_context(), ("html", "save", "as_json"))
            write_run_page(result, reasoner, question.html, again)
    return exit_code
