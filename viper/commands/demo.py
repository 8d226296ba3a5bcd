"""``viper demo``: ask about images and videos in a browser; the questions of ``make demo``.

:func:`demo` opens the profiles, a manager for each with each strategy, and serves the page.
"""

from __future__ import annotations

import json
import sys
import webbrowser
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from viper.commands import options as cli
from viper.commands.doctor import strict_holds
from viper.commands.present import answer_line, print_details
from viper.commands.terminal import note, status
from viper.embedded import MEDIA
from viper.errors import EXIT_FAILED, EXIT_OK
from viper.plugins import need_packages
from viper.profiles.backends import SHIPPED
from viper.profiles.document import ProfileDocument
from viper.reasoner import Reasoner, RunOptions
from viper.sandbox.sandbox import Mode
from viper.schema import to_json
from viper.serve.settings import address_of, listening_at
from viper.strategies import STRATEGIES
from viper.strategies.replay import Replayer
from viper.web.demo.manager import RunOpener, SessionManager, check_folder


@dataclass(frozen=True, kw_only=True)
class DemoOptions(cli.ProfileChoice):
    """Options of ``viper demo``."""

    # fmt: off
    host: str = cli.option("--host", default="127.0.0.1",
        help="Address to listen on. For other machines, the address of the page holds a random "
             "token; everybody who has it may ask.")
    port: int = cli.option("--port", type=click.IntRange(0, 65535), default=7860,
        help="Port to listen on; 0 takes a free port.")
    open_browser: bool = cli.option("--open/--no-open", default=True,
        help="Open the page in a browser.")
    out: Path | None = cli.option("--out", type=cli.OutPath(), metavar="RUN",
        help="Folder for the questions and answers, new or from an earlier demo. By default "
             "runs/demo-TIME.")
    force: bool = cli.option("--force",
        help="Show answers even if the profile withholds them, because the picture is unlike "
             "those that its models know, or the query has words that they do not know.")
    also: tuple[str, ...] = cli.option("--also", metavar="PROFILE",
        help="Further profile to choose on the page, repeatable. Its models load with its first "
             "question and stay loaded.")
    api: str | None = cli.given_by(cli.api_option)
    learned: bool = cli.learned_field()
    # fmt: on


@click.command()
@cli.options_as(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Ask about images and videos in a browser, until Ctrl-C.

    Upload an image or a video, or generate one of the embedded world. Ask a question, watch the
    trials, see the steps to the answer, and give feedback. The questions are stored as a run, with
    their images, for viper view and viper learn feedback.

    \b
    viper demo
    viper demo --out runs/mine --port 0 --no-open
    """
    need_packages(("gradio",), "viper demo")
    time = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = options.out or Path("runs") / f"demo-{time}"
    check_folder(folder)
    names = (options.profile, *options.also)
    profiles = [cli.open_profile(replace(options, profile=name)) for name in names]
    for profile in profiles:
        cli.fetch_models(profile)
    with ExitStack() as stack:
        listening = stack.enter_context(listening_at(options.host, options.port))
        with status("starting"):
            from viper.web.demo.serving import DemoAddress, make_server, private_folder
            from viper.web.demo.session import scene_source

            uploads = stack.enter_context(private_folder())
            managers: list[SessionManager] = []
            replayers = {}
            for profile in profiles:
                reasoner = stack.enter_context(Reasoner(profile, preload=False))
                library, name = reasoner.components.library, profile.document.name
                replayers[name] = stack.enter_context(Replayer(library, options.sandbox))
                usual = profile.document.run.strategy
                for strategy in dict.fromkeys((usual, *STRATEGIES)):
                    suffix = f"-{name}-{strategy}" if managers else ""
                    run = folder.with_name(f"{folder.name}{suffix}")
                    opener = RunOpener(reasoner, run, to_json(profile.document), strategy)
                    stack.callback(opener.close)
                    managers.append(SessionManager(reasoner, opener, force=options.force))
            place = DemoAddress.at(options.host)
            scenes = scene_source() if shows_scenes(profiles[0].document) else None
            server = make_server(managers, place, replayers, uploads, scenes)
        address = address_of(listening, f"{place.access.prefix}/")
        click.echo(address)
        note(f"questions are kept in {folder}; Ctrl-C stops it")
        if options.open_browser:
            webbrowser.open(address)
        server.run(sockets=[listening])
        managers[0].opener.wait(0)


def shows_scenes(document: ProfileDocument) -> bool:
    """Return whether the demo draws scenes; a detector of the user's own is for other pictures."""
    detector = document.roles.get("detector")
    return detector is None or detector.backend in SHIPPED["detector"]


@click.command("demo-questions", hidden=True)
@click.option("--out", type=cli.OutPath(), default=Path("demo-output"), show_default=True,
              help="Folder for the images.")  # fmt: skip
def demo_questions(out: Path) -> int:
    """Ask about shipped media; print answer, program or turns, and calls; write the images."""
    mode: Mode = "strict" if strict_holds() else "weak"
    if mode == "weak":
        note(
            f"notice: the full sandbox needs Linux with seccomp; on {sys.platform} this demo "
            "goes on with --sandbox=weak"
        )
    questions: list[dict[str, Any]] = json.loads((MEDIA / "demo.json").read_text())
    out.mkdir(parents=True, exist_ok=True)
    answered = 0
    choice = cli.ProfileChoice(profile="embedded", sandbox=mode, offline=True)
    with cli.open_reasoner(choice, many_queries=True) as reasoner:
        for number, item in enumerate(questions, start=1):
            candidates = item.get("options", ())
            options = RunOptions(item["task"], candidates, strategy=item.get("strategy"))
            result = reasoner.run(str(MEDIA / item["media"]), item["query"], options)
            answered += result.answer is not None
            picture = out / f"{number}-{item['task']}.png"
            result.save(picture)
            click.echo(f"\n[{number}] {item['media']}: {item['query']}")
            for index, candidate in enumerate(candidates):
                click.echo(f"    ({index}) {candidate}")
            click.echo(f"answer: {answer_line(result)}")
            print_details(result)
            click.echo(f"picture: {picture}")
    return EXIT_OK if answered == len(questions) else EXIT_FAILED
