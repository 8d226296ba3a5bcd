"""What ``viper learn`` does for a set and for feedback alike: learner, progress, outcome."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.errors import EXIT_FAILED, EXIT_OK, CancelledError

if TYPE_CHECKING:
    from viper.learning.loop import Standing
    from viper.profiles.wiring import Profile
    from viper.reasoner import Reasoner
    from viper.tuning.learner import Learner
    from viper.tuning.lesson import Journal
    from viper.tuning.teach import Memory


def learner_of(
    profile: Profile,
    reasoner: Reasoner,
    of: tuple[str, str],
    given: dict[str, Any],
    cancel: threading.Event,
    memory: Memory | None = None,
) -> Learner:
    """A learner as the options say.

    Args:
        of: set and split that demonstrations say they are from.
        cancel: ends a training that is under way.
        memory: of what was trained for a lesson that was cut off.
    """
    from viper.profiles.document import state_dir
    from viper.profiles.learning import Data, every_tool, learner_for, origin_of
    from viper.tuning.learner import LearnSettings
    from viper.tuning.tool_updates import ToolSettings

    def on_progress(done: int, total: int) -> None:
        if cancel.is_set():
            raise CancelledError("learning was cancelled")

    kept, tools = given["demonstrations"], None
    if given["tools"] != "none":
        only = [one.strip() for one in (given["tools"] or "").split(",") if one.strip()]
        tools = ToolSettings(
            every_tool(only),
            given["updates"],
            given["tries"],
            given["probe"],
            given["validate"],
            given["seed"] if given["seed"] >= 0 else 0,
        )
    return learner_for(
        reasoner.components,
        state_dir(profile.state),
        Data(
            given["annotated"],
            given["annotated_root"],
            given["pictures"],
            given["positives"],
            max(0, given["seed"]),
        ),
        reflection=given["reflection"],
        settings=LearnSettings(
            kept in ("all", "correct"), kept in ("all", "incorrect"), given["validate"]
        ),
        tools=tools,
        origin=origin_of(reasoner.components, *of),
        on_progress=on_progress,
        memory=memory,
    )


class Teller:
    """Says on stderr what is being done and how far it is."""

    def __init__(self, total: int | None = None) -> None:
        self._total, self._told = total, ""

    def follow(self, learner: Learner) -> None:
        """Tells what a learner does."""
        learner.on_step = self.step
        if learner.updates is not None:
            learner.updates.on_step = self.step

    def step(self, text: str) -> None:
        """What is being done now."""
        if text != self._told and text.startswith(("teaching", "collecting")):
            click.echo(text, err=True)
        self._told = text

    def standing(self, standing: Standing) -> None:
        """How far it is."""
        of = "" if self._total is None else f"/{self._total}"
        line = (
            f"{standing.answered}{of} answered, score "
            f"{standing.score / max(1, standing.answered):.3f}, {standing.learned} lessons, "
            f"{standing.updates} updates of tools, {standing.demonstrations} demonstrations"
        )
        if line != self._told:
            click.echo(line, err=True)
        self._told = line


def finish(standing: Standing, journal: Journal, folder: Path, given: dict[str, Any]) -> int:
    """Prints what came of it."""
    from viper.commands.tables import echo_table

    count = max(1, standing.answered)
    lessons = journal.lessons()
    problems = [one.problem for one in lessons if one.problem] + [
        f"{update.tool} {update.concept}: {update.problem}"
        for one in lessons
        for update in one.updates
        if update.problem
    ]
    made = {
        "run": str(folder),
        "samples": standing.answered,
        "score": standing.score / count,
        "score_after": standing.score_after / count,
        "updates": standing.updates,
        "demonstrations": standing.demonstrations,
        "learned": standing.concepts,
        "problems": problems,
    }
    if given["as_json"]:
        click.echo(json.dumps(made, ensure_ascii=False))
        return EXIT_OK
    name = "first answers" if given["online"] else "before its lesson"
    echo_table(
        ("samples", name, "after its lesson", "updates", "demonstrations"),
        [(str(standing.answered), f"{made['score']:.3f}", f"{made['score_after']:.3f}",
          str(standing.updates), str(standing.demonstrations))],
    )  # fmt: skip
    if standing.concepts:
        click.echo("\nlearned: " + ", ".join(
            f"{what} ({prompts})" for what, prompts in sorted(standing.concepts.items())
        ))  # fmt: skip
    for problem in dict.fromkeys(problems):
        click.echo(f"viper: {problem}", err=True)
    return EXIT_OK if standing.learned == standing.total else EXIT_FAILED
