"""``viper seek record``: a page on which people answer questions by choosing actions."""

from __future__ import annotations

import importlib.util
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from viper.commands.option_groups import root_option
from viper.commands.options import open_profile, profile_options
from viper.commands.out_path import OutPath
from viper.errors import EXIT_OK, MissingExtraError


@click.command()
@click.argument("set_name", metavar="SET")
@click.option("--out", type=OutPath(), default=Path("records.jsonl"),
              show_default=True, metavar="FILE.jsonl",
              help="Takes the records; what it holds stays.")  # fmt: skip
@click.option("--split", metavar="NAME", help="By default the set's first.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Questions, the same for everybody, in an order of each one's own.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Which questions.")  # fmt: skip
@root_option
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on. The page's address holds a random token; who has it may "
                   "take part.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default a free one.")
@click.option("--open/--no-open", "open_browser", default=True, show_default=True,
              help="Open a browser.")  # fmt: skip
@profile_options
def record(**given: Any) -> int:
    """Record how people find answers: a page where they choose each action, until Ctrl-C.

    Questions of SET, which must be about one picture each. Whoever opens the page answers them by
    choosing from all actions, saying what each result is worth, and ends with "Found it" or "Could
    not find it". Each ended question is a line of FILE, under a random number that says nothing of
    anybody. viper seek induce makes a graph of the lines, viper seek stats counts them.

    \b
    viper seek record world-knowledge --limit 10 --out records.jsonl
    viper seek record okvqa --root okvqa --profile openai --host 0.0.0.0 --port 8010 --no-open
    """
    for module in ("starlette", "uvicorn"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(module, "serve", "viper seek record")
    import uvicorn

    from viper.data.sample import Where
    from viper.evaluate.evaluation import Evaluation
    from viper.reasoner import Reasoner
    from viper.serve.listening import address_of, listening_at
    from viper.web.behind_token import new_token
    from viper.web.study.app import Study, create_study
    from viper.web.study.desk import StudyDesk

    where = Where(given["root"], given["split"], given["seed"])
    samples = Evaluation(given["set_name"], where, given["limit"]).samples()
    with ExitStack() as stack:
        listening = stack.enter_context(listening_at(given["host"], given["port"]))
        reasoner = stack.enter_context(Reasoner(open_profile(given), preload=False))
        study = Study(StudyDesk(reasoner, samples, given["out"]), new_token())
        address = address_of(listening, f"/{study.token}/")
        click.echo(address)
        click.echo(f"records go to {given['out']}; Ctrl-C ends it", err=True)
        if given["open_browser"]:
            webbrowser.open(address)
        config = uvicorn.Config(
            create_study(study), log_level="warning", access_log=False, lifespan="off"
        )
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            click.echo(f"{study.desk.kept} questions recorded in {given['out']}", err=True)
    return EXIT_OK
