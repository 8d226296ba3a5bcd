"""Event handlers of the demo's page."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import gradio as gr

from viper.embedded import MEDIA
from viper.errors import UsageError, ViperError
from viper.evaluate.reports.tables import answer_words
from viper.evaluate.runs.feedback import RIGHT_IS
from viper.strategies import model_role
from viper.web.demo.demo_run import DemoQuestion
from viper.web.demo.manager import (
    AnswerEvent,
    AskEvent,
    ErrorEvent,
    SessionManager,
    Status,
    TrialEvent,
)
from viper.web.demo.rendering import (
    answer_html,
    line_html,
    media_html,
    status_html,
    trace_html,
    trials_html,
)
from viper.web.demo.session import (
    Asked,
    DemoExample,
    DemoMedia,
    DemoSession,
    SceneSource,
    some_number,
)

# Most questions of a session that the page lists, the latest ones.
MOST_HISTORY = 20

LOG = logging.getLogger("viper.demo")

# Value of ``visible`` that hides a component without removing it. A component that gradio removes
# can stay missing when a later update of the same event shows it (gradio-app/gradio, issue 13494).
HIDDEN: Literal["hidden"] = "hidden"


@dataclass(frozen=True)
class Demo:
    """State that the page's handlers share.

    Attributes:
        managers: one for each profile and strategy that visitors may choose, the usual one first.
        uploads: folder for visitors' files.
        trace_address: returns the address of an answer's trace page, by ``NUMBER-ID``: the number
            of the manager and the sample id.
        scenes: source of drawn pictures and clips; None if no installed package offers one.
    """

    managers: Sequence[SessionManager]
    uploads: Path
    trace_address: Callable[[str], str]
    scenes: SceneSource | None = None

    @cached_property
    def starters(self) -> list[tuple[Path, DemoExample]]:
        """Return the examples of the first screen, each with its picture or clip.

        Those of a strategy whose model the first profile lacks are left out.
        """
        items = json.loads((MEDIA / "demo.json").read_text("utf-8")) if self.scenes else []
        roles = ("", *self.managers[0].reasoner.components.models)
        found = []
        for item in items:
            strategy = item.get("strategy", "program")
            example = DemoExample(item["query"], tuple(item.get("options", ())), strategy)
            if model_role(strategy) in roles:
                found.append((MEDIA / item["media"], example))
        return found


@dataclass(frozen=True)
class PageParts:
    """Parts of the page that handlers change."""

    session: gr.State
    media: gr.HTML
    query: gr.Textbox
    options: gr.Textbox
    strategy: gr.Dropdown
    examples: gr.Radio
    history: gr.Radio
    status: gr.HTML
    answer: gr.HTML
    trials: gr.HTML
    trace: gr.HTML
    stop: gr.Button
    right: gr.Textbox
    comment: gr.Textbox
    noted: gr.HTML

    @property
    def choosing(self) -> list[Any]:
        """Return the parts that change when a picture is chosen."""
        return [self.query, self.options, self.strategy, self.examples, *self.asking]

    @property
    def asking(self) -> list[Any]:
        """Return the parts that change when a question is asked."""
        return [
            self.media, self.status, self.answer, self.trials, self.trace, self.stop,
            self.right, self.comment, self.noted, self.history,
        ]  # fmt: skip


class Handlers:
    """Event handlers of the page, one method per action of a visitor.

    Attributes:
        parts: parts that handlers change; set once the page is built.
    """

    parts: PageParts

    def __init__(self, demo: Demo) -> None:
        self._demo = demo

    def upload(self, session: DemoSession, uploaded: str | None) -> dict[Any, Any]:
        """Take an uploaded file."""
        if uploaded is None:
            return {self.parts.session: session}
        path = Path(uploaded)
        return self._choose(session, lambda: session.upload(path, self._demo.uploads))

    def draw_picture(self, session: DemoSession) -> dict[Any, Any]:
        """Draw a scene."""
        draw = self._scenes().draw_picture
        return self._choose(session, lambda: session.draw(draw(some_number()), self._demo.uploads))

    def draw_clip(self, session: DemoSession) -> dict[Any, Any]:
        """Draw a clip."""
        draw = self._scenes().draw_clip
        return self._choose(session, lambda: session.draw(draw(some_number()), self._demo.uploads))

    def _scenes(self) -> SceneSource:
        """Return the source of scenes. Without a source, the page has no button that calls this."""
        assert self._demo.scenes is not None
        return self._demo.scenes

    def example(self, session: DemoSession, number: int) -> dict[Any, Any]:
        """Take an example for the chosen scene, or one of the first screen with its media."""
        changed: dict[Any, Any] = {}
        if session.chosen is not None and session.chosen.examples:
            example = session.chosen.examples[number]
        else:
            path, example = self._demo.starters[number]
            changed = self._choose(session, lambda: session.upload(path, self._demo.uploads))
            changed.pop(self.parts.examples, None)
        return {
            **changed,
            self.parts.query: example.text,
            self.parts.options: "\n".join(example.options),
            self.parts.strategy: example.strategy,
        }

    def ask(
        self,
        session: DemoSession,
        query: str,
        options: str,
        profile: str,
        strategy: str,
        request: gr.Request,
    ) -> Iterator[dict[Any, Any]]:
        """Yield the changes of the page while a question is answered."""
        parts, trials = self.parts, list[TrialEvent]()
        yield {**self._clear(), parts.stop: gr.update(interactive=True)}
        try:
            about = session.asked_about()
            question = DemoQuestion(about, query, split_options(options))
            session.answered = None
            if about.media.video is None:
                yield {parts.media: media_html(about)}  # without the last answer's box
            number = [each.name for each in self._demo.managers].index((profile, strategy))
            for event in self._demo.managers[number].ask(_visitor(request), question):
                if isinstance(event, AnswerEvent):
                    words = f"{event.row.text} → {answer_words(event.row)}"
                    session.answered = Asked(number, event.row.sample_id, about.name, words)
                    session.history.append(session.answered)
                yield self._changes(session, about, event, trials)
        except Exception as error:  # noqa: BLE001 - boundary: one question
            yield {parts.status: status_html(ErrorEvent(_error_text(error)))}
        yield {parts.stop: gr.update(interactive=False)}

    def again(self, session: DemoSession, number: int) -> dict[Any, Any]:
        """Show an answered question of the session again."""
        trials = list[TrialEvent]()
        try:
            asked = session.history[number]
            media, events = self._demo.managers[asked.manager].again(asked.sample_id, asked.name)
            changed = self._choose(session, lambda: session.choose(media))
            session.answered = asked
            for event in events:
                changed |= self._changes(session, media, event, trials)
                if isinstance(event, AnswerEvent):
                    changed[self.parts.query] = event.row.text
                    changed[self.parts.options] = "\n".join(event.row.options)
        except Exception as error:  # noqa: BLE001 - boundary: one question
            return {self.parts.status: line_html(_error_text(error), wrong=True)}
        return changed

    def _changes(
        self, session: DemoSession, about: DemoMedia, event: AskEvent, trials: list[TrialEvent]
    ) -> dict[Any, Any]:
        """Return the changes of the page by one event; ``trials`` collects those of a question."""
        parts, asked = self.parts, session.answered
        changed: dict[Any, Any] = {parts.status: status_html(event)}
        if isinstance(event, TrialEvent):
            trials.append(event)
            changed[parts.trials] = trials_html(trials)
        elif isinstance(event, AnswerEvent) and asked is not None:
            row = event.row
            address = self._demo.trace_address(f"{asked.manager}-{asked.sample_id}")
            changed[parts.answer] = answer_html(event)
            changed[parts.trace] = trace_html(address)
            changed[parts.right] = gr.update(info=RIGHT_IS.get(row.task, "in words"))
            if session.chosen is about and about.media.video is None:
                box = row.prediction.box if row.prediction is not None else None
                changed[parts.media] = media_html(about, box, draws=row.task == "ground")
            earlier = [(each.words, number) for number, each in enumerate(session.history)]
            latest = earlier[-MOST_HISTORY:]
            changed[parts.history] = gr.update(choices=latest, value=None, visible=True)
        return changed

    def stop(self, request: gr.Request) -> str:
        """Stop the visitor's question."""
        stopping = sum(each.stop(_visitor(request)) for each in self._demo.managers)
        text = "stopping; a model that is at work comes to its end first"
        return status_html(Status(text)) if stopping else line_html("nothing is being answered")

    def note(self, session: DemoSession, right: str, comment: str) -> tuple[str, Any, Any]:
        """Store feedback about the last answer."""
        try:
            asked = session.answered
            if asked is None:
                raise UsageError("nothing was answered yet")
            run = self._demo.managers[asked.manager].run()
            run.note(asked.sample_id, right or "", comment or "")
        except Exception as error:  # noqa: BLE001 - boundary: one remark
            return line_html(_error_text(error), wrong=True), gr.skip(), gr.skip()
        return line_html(f"kept for {asked.sample_id}; thank you"), "", ""

    def leave(self, request: gr.Request) -> None:
        """Stop the question of a visitor who has left."""
        self.stop(request)

    def _choose(self, session: DemoSession, choose: Callable[[], DemoMedia]) -> dict[Any, Any]:
        """Return the page with newly chosen media. If choosing fails, return the error line."""
        parts = self.parts
        try:
            chosen = choose()
            html = media_html(chosen)
        except Exception as error:  # noqa: BLE001 - boundary: one file
            return {parts.session: session, parts.status: line_html(_error_text(error), wrong=True)}
        choices = [(example.text, number) for number, example in enumerate(chosen.examples)]
        return {
            **self._clear(),
            parts.session: session,
            parts.media: html,
            parts.query: "",
            parts.options: "",
            parts.examples: gr.update(choices=choices, value=None, visible=bool(choices) or HIDDEN),
            parts.status: line_html("chosen; ask about it"),
        }

    def _clear(self) -> dict[Any, Any]:
        parts = self.parts
        texts = (parts.answer, parts.trials, parts.trace, parts.right, parts.comment, parts.noted)
        return dict.fromkeys(texts, "")


def split_options(text: str) -> tuple[str, ...]:
    """Split candidate answers at line ends or semicolons."""
    return tuple(part.strip() for part in re.split(r"[;\n]", text or "") if part.strip())


def _visitor(request: gr.Request) -> str:
    return str(request.session_hash)


def _error_text(error: Exception) -> str:
    """Return an error in words for the visitor. Log unexpected errors in the terminal only."""
    if isinstance(error, ViperError):
        return str(error)
    LOG.error("unforeseen", exc_info=error)
    return f"this went wrong: {type(error).__name__}; the demo's terminal says more"
