"""``viper run``: answer a question about images or a video."""

from __future__ import annotations

import click

from viper.commands.options import command_line, open_reasoner, options_as, split_options
from viper.commands.run_options import QueryOptions, run_changes
from viper.commands.sections import SectionedCommand
from viper.errors import EXIT_OK
from viper.strategies import STRATEGIES, strategy

_STRATEGY_LINES = "\n".join(
    f"  {name:<12} {shipped.summary}" for name, shipped in STRATEGIES.items()
)


@click.command(
    cls=SectionedCommand,
    first="choices task strategy profile api save html as_json seed dry_run",
    epilog=f"\b\nStrategies:\n{_STRATEGY_LINES}",
)
@click.argument("media_and_query", nargs=-1, required=True, metavar="MEDIA... QUERY")
@options_as(QueryOptions)
def run(chosen: QueryOptions, media_and_query: tuple[str, ...]) -> int:
    """Answer QUERY about MEDIA: one or more images, or one video.

    The answer goes to stdout. The program, its tool calls and progress go to stderr.

    \b
    viper run table.png "what color is the second cube from the left?"
    viper run table.png "the ball closest to the red cube" --save answer.png --json
    viper run table.png "how many cubes are there?" --html answer.html
    viper run clip.mp4 "what starts moving first?" --options "the blue cube; the green cone"
    """
    if len(media_and_query) < 2:
        raise click.UsageError(
            "expected MEDIA... QUERY: at least one image or video, then the question"
        )
    # Importing these takes longer than all of --help.
    from viper.commands.pages import write_run_page
    from viper.commands.present import answer, print_result, tell_cost
    from viper.models.media import media_from
    from viper.reasoner import RunOptions

    *paths, query = media_and_query
    media = media_from(paths)
    strategy(chosen.strategy)
    options = RunOptions(
        task=chosen.task,
        options=split_options(chosen.choices),
        strategy=chosen.strategy,
        seed=chosen.seed,
        **run_changes(chosen.settings),
    )
    shipped = STRATEGIES.get(chosen.strategy)  # assume that installed strategies write programs
    writes_programs = shipped is None or shipped.writes_programs
    if not writes_programs and (chosen.show_prompt or chosen.program_only):
        raise click.UsageError(f"strategy {options.strategy} writes no program; nothing to show")
    if chosen.dry_run:
        return tell_cost(chosen, media, query, options, writes_programs)
    with open_reasoner(chosen) as reasoner:
        if chosen.show_prompt:
            click.echo(reasoner.prompt(media, query, options))
            return EXIT_OK
        result = answer(reasoner, media, query, options)
        exit_code = print_result(
            result, chosen.save, as_json=chosen.as_json, program_only=chosen.program_only
        )
        if chosen.html is not None:
            command = command_line(click.get_current_context(), ("html", "save", "as_json"))
            write_run_page(result, reasoner, chosen.html, command)
    return exit_code
