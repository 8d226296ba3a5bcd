"""``viper demo``: ask about pictures and clips in the browser."""

from __future__ import annotations

import importlib.util
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from viper.commands.options import api_option, learned_option, open_profile, profile_options
from viper.commands.out_path import OutPath
from viper.errors import EXIT_OK, MissingExtraError


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on. Beyond this machine the page's address holds a random "
                   "token; who has it may ask.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=7860, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@click.option("--open/--no-open", "open_browser", default=True, show_default=True,
              help="Open a browser.")  # fmt: skip
@click.option("--out", type=OutPath(), metavar="RUN",
              help="Folder for what is asked, new or of an earlier demo; by default "
                   "runs/demo-TIME.")  # fmt: skip
@api_option
@learned_option()
@profile_options
def demo(**given: Any) -> int:
    """Ask about pictures and clips in a browser, until Ctrl-C.

    Upload a picture or a clip, or draw one from the embedded world, ask, watch the trials arrive,
    see how the answer came about, say what would have been right. What was asked is kept as a run,
    pictures included, for viper view and viper feedback.

    \b
    viper demo
    viper demo --out runs/mine --port 0 --no-open
    """
    if importlib.util.find_spec("gradio") is None:
        raise MissingExtraError("gradio", "demo", "viper demo")
    profile = open_profile(given)
    from viper.commands.progress import status
    from viper.schema import to_json
    from viper.serve.settings import address_of, listening_at
    from viper.web.demo.asked_run import check_folder

    folder = given["out"] or default_folder()
    check_folder(folder)
    with ExitStack() as stack:
        listening = stack.enter_context(listening_at(given["host"], given["port"]))
        with status("starting"):
            from viper.reasoner import Reasoner
            from viper.strategies.replay import Replayer
            from viper.web.demo.asked_run import Opening
            from viper.web.demo.asking import Desk
            from viper.web.demo.serving import Place, make_server, private_folder

            visits = stack.enter_context(private_folder())
            reasoner = stack.enter_context(Reasoner(profile, preload=False))
            opening = Opening(reasoner, folder, to_json(profile.document))
            stack.callback(opening.close)
            library = reasoner.components.library
            replayer = stack.enter_context(Replayer(library, given["sandbox"]))
            place = Place.at(given["host"])
            server = make_server(Desk(reasoner, opening), place, replayer, visits)
        address = address_of(listening, f"{place.prefix}/")
        click.echo(address)
        click.echo(f"questions are kept in {folder}; Ctrl-C ends it", err=True)
        if given["open_browser"]:
            webbrowser.open(address)
        server.run(sockets=[listening])
        opening.wait(0)
    return EXIT_OK


def default_folder() -> Path:
    """``runs/demo-TIME`` below the working folder."""
    from datetime import UTC, datetime

    return Path("runs") / f"demo-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}"
