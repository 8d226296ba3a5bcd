"""The demo's page, built with gradio, with its event handlers.

:meth:`DemoPage.build` lays out the parts and connects each action of a visitor to a method
``on_…``, which returns what changes. Each visitor has a
:class:`~viper.web.demo.session.DemoSession` in gradio's state. Questions go to a
:class:`~viper.web.demo.manager.SessionManager` under the session's name. Both end with the session.
Pictures go to the page as data URLs, so gradio serves no files.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import gradio as gr

from viper.embedded import MEDIA
from viper.errors import UsageError, ViperError
from viper.evaluate.reports.tables import answer_words
from viper.evaluate.runs.feedback import LONGEST, RIGHT_IS
from viper.reasoner import MAX_QUERY_CHARACTERS
from viper.strategies import model_role
from viper.strategies.marked import boxes_of
from viper.web.demo.manager import AnswerEvent, AskEvent, DemoQuestion, SessionManager, TrialEvent
from viper.web.demo.rendering import answer_html, line_html, media_html, status_html, trials_html
from viper.web.demo.session import Asked, DemoExample, DemoMedia, DemoSession, SceneSource
from viper.web.pages import asset, rendered, thumbnail

# Questions that are answered at the same time. Further questions wait; pages stay responsive.
AT_ONCE = 4

# Other actions that run at the same time: choosing, drawing, giving feedback. They are short, but
# must not wait behind questions.
OTHER_AT_ONCE = 8

# Seconds that gradio keeps an upload: the session makes its own copy at once, so ten minutes are
# ample, and the disk does not fill.
UPLOAD_S = 600

# Script that makes screen readers read out changes of an element.
_ANNOUNCE_JS = (
    "element.setAttribute('role', 'status'); element.setAttribute('aria-live', 'polite');"
)

# Script that brings an answer into view, which on a phone is above the button that asked for it.
_SHOW_JS = """new MutationObserver(() => {
  if (element.querySelector(".viper-answer")) element.scrollIntoView({ block: "nearest" });
}).observe(element, { childList: true, subtree: true });"""

# Most questions of a session that the page lists, the latest ones: more than fit on a screen.
MOST_HISTORY = 20

LOG = logging.getLogger("viper.demo")

# Value of ``visible`` that hides a component without removing it. A component that gradio removes
# can stay missing when a later update of the same event shows it (gradio-app/gradio, issue 13494).
HIDDEN: Literal["hidden"] = "hidden"


def theme() -> gr.themes.Base:
    """Return a theme with system fonts and enough contrast in light and dark."""
    base = gr.themes.Default(
        primary_hue="blue",
        font=("system-ui", "sans-serif"),
        font_mono=("ui-monospace", "monospace"),
    )
    return base.set(
        block_info_text_color="*body_text_color",
        block_info_text_color_dark="*body_text_color",
        block_label_text_color="*body_text_color",
        block_title_text_color="*body_text_color",
        button_primary_background_fill="#1d4ed8",
        button_primary_background_fill_dark="#1d4ed8",
        button_primary_background_fill_hover="#1e40af",
        button_primary_background_fill_hover_dark="#1e40af",
    )


class DemoPage:
    """The page and its handlers, one method per action of a visitor.

    Args:
        managers: one for each profile and strategy that visitors may choose, the usual one first.
        uploads: folder for visitors' files.
        trace_address: returns the address of an answer's trace page, by ``NUMBER-ID``: the number
            of the manager and the sample id.
        scenes: source of drawn pictures and clips; None if no installed package offers one.
    """

    def __init__(
        self,
        managers: Sequence[SessionManager],
        uploads: Path,
        trace_address: Callable[[str], str],
        scenes: SceneSource | None = None,
    ) -> None:
        self.managers, self.uploads, self.scenes = managers, uploads, scenes
        self.trace_address = trace_address

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

    @cached_property
    def intro(self) -> str:
        """Return the head of the page: what the models know, and thumbnails of the examples."""
        components = {each.name[0]: each.reasoner.components for each in self.managers}
        domains = {name: each.domain for name, each in components.items() if each.domain}
        addresses = [thumbnail(path) for path, _ in self.starters]
        return rendered("demo_intro.html", domains=domains, addresses=addresses)

    def build(self) -> gr.Blocks:
        """Build the page and connect its handlers."""
        draws = self.scenes is not None
        with gr.Blocks(
            title="viper demo", analytics_enabled=False, delete_cache=(UPLOAD_S, UPLOAD_S)
        ) as blocks:
            self.session = gr.State(DemoSession(), delete_callback=DemoSession.end)
            gr.HTML(self.intro, js_on_load=None)
            with gr.Row(elem_classes="viper-parts"):
                with gr.Column(min_width=280, elem_classes="viper-asked"):
                    with gr.Row(equal_height=True):
                        upload = gr.UploadButton("Upload picture or clip", min_width=120)
                        picture = gr.Button("Generate a picture", min_width=120, visible=draws)
                        clip = gr.Button("Generate a clip", min_width=120, visible=draws)
                    self.media = gr.HTML(
                        media_html(None), js_on_load=asset("demo.js"), elem_classes="viper-shown"
                    )
                    self.query = gr.Textbox(
                        label="Question, or what to find", max_length=MAX_QUERY_CHARACTERS
                    )
                    self.options = gr.Textbox(
                        label="Candidate answers, if there are any, one a line", max_lines=6
                    )
                    self.like = gr.Textbox(
                        label="Examples: drag boxes on the picture, then ask for these",
                        info="x0,y0,x1,y1, one a line",
                        lines=1,
                        max_lines=4,
                        elem_classes="viper-examples",
                    )
                    with gr.Row():
                        profiles = list(dict.fromkeys(each.name[0] for each in self.managers))
                        strategies = list(dict.fromkeys(each.name[1] for each in self.managers))
                        profile = gr.Dropdown(profiles, label="Profile", visible=len(profiles) > 1)
                        self.strategy = gr.Dropdown(strategies, label="Strategy")
                    with gr.Row():
                        ask = gr.Button("Ask", variant="primary", min_width=120)
                        self.stop_button = gr.Button("Stop", interactive=False, min_width=120)
                    self.status = gr.HTML(line_html("nothing asked yet"), js_on_load=_ANNOUNCE_JS)
                    starters = [(each.text, n) for n, (_, each) in enumerate(self.starters)]
                    shown = bool(starters) or HIDDEN
                    self.examples = gr.Radio(
                        starters, label="Examples", visible=shown, elem_classes="viper-starters"
                    )
                    self.history = gr.Radio([], label="Questions of this session", visible=HIDDEN)
                with gr.Column(min_width=280, elem_classes="viper-told"):
                    self.answer = gr.HTML("", js_on_load=_SHOW_JS, elem_classes="viper-first")
                    self.trials = gr.HTML("", js_on_load=None)
                    self.trace = gr.HTML("", js_on_load=None)
                    with gr.Column(elem_classes="viper-feedback"):
                        self.right = gr.Textbox(
                            label="Wrong? What would have been right",
                            elem_classes="viper-right-answer",
                        )
                        self.comment = gr.Textbox(
                            label="A comment in words",
                            info="kept for people to read; only a right answer is learned from",
                            lines=2,
                            max_length=LONGEST,
                        )
                        note = gr.Button("Keep this feedback")
                        self.noted = gr.HTML("", js_on_load=_ANNOUNCE_JS)

            _take_uploads_only(upload)
            # What changes when a question is asked, and also when a picture is chosen.
            asking = [
                self.media, self.status, self.answer, self.trials, self.trace, self.stop_button,
                self.right, self.comment, self.noted, self.history,
            ]  # fmt: skip
            choosing = [self.query, self.options, self.like, self.strategy, self.examples, *asking]
            session, right, comment = self.session, self.right, self.comment
            hidden: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
            to_choose: dict[str, Any] = {"outputs": [session, *choosing], **hidden}
            upload.upload(self.on_upload, [session, upload], **to_choose)
            picture.click(partial(self.on_draw, "draw_picture"), session, **to_choose)
            clip.click(partial(self.on_draw, "draw_clip"), session, **to_choose)
            self.examples.input(self.on_example, [session, self.examples], **to_choose)
            self.history.input(self.on_again, [session, self.history], **to_choose)
            gr.on(
                [ask.click, self.query.submit],
                self.on_ask,
                [session, self.query, self.options, self.like, profile, self.strategy],
                asking,
                concurrency_limit=AT_ONCE,
                # What is asked before the last answer's page is complete is asked after it.
                trigger_mode="always_last",
                **hidden,
            )
            self.stop_button.click(
                self.on_stop, None, self.status, concurrency_limit=None, **hidden
            )
            note.click(
                self.on_note, [session, right, comment], [self.noted, right, comment], **hidden
            )
            blocks.unload(self.on_leave)
        blocks.queue(api_open=False, default_concurrency_limit=OTHER_AT_ONCE)
        return blocks

    def on_upload(self, session: DemoSession, uploaded: str | None) -> dict[Any, Any]:
        """Take an uploaded file."""
        if uploaded is None:
            return {self.session: session}
        path = Path(uploaded)
        return self._choose(session, lambda: session.upload(path, self.uploads))

    def on_draw(self, how: str, session: DemoSession) -> dict[Any, Any]:
        """Draw a scene or a clip by a method of the source of scenes."""
        draw = getattr(self.scenes, how)  # without scenes, the page has no button for this
        number = Random().randrange(1_000_000)
        return self._choose(session, lambda: session.draw(draw(number), self.uploads))

    def on_example(self, session: DemoSession, number: int) -> dict[Any, Any]:
        """Take an example for the chosen scene, or one of the first screen with its media."""
        changed: dict[Any, Any] = {}
        if session.chosen is not None and session.chosen.examples:
            example = session.chosen.examples[number]
        else:
            path, example = self.starters[number]
            changed = self._choose(session, lambda: session.upload(path, self.uploads))
            changed.pop(self.examples, None)
        return {
            **changed,
            self.query: example.text,
            self.options: "\n".join(example.options),
            self.strategy: example.strategy,
        }

    def on_ask(
        self,
        session: DemoSession,
        query: str,
        options: str,
        like: str,
        profile: str,
        strategy: str,
        request: gr.Request,
    ) -> Iterator[dict[Any, Any]]:
        """Yield the changes of the page while a question is answered."""
        trials = list[TrialEvent]()
        yield {**self._clear(), self.stop_button: gr.update(interactive=True)}
        try:
            about = session.asked_about()
            boxes = boxes_of(split_options(like))
            question = DemoQuestion(about, query, split_options(options), boxes)
            session.answered = None
            if about.media.video is None:
                yield {self.media: media_html(about)}  # without the last answer's box
            number = [each.name for each in self.managers].index((profile, strategy))
            for event in self.managers[number].ask(_visitor(request), question):
                if isinstance(event, AnswerEvent):
                    words = f"{event.row.text} → {answer_words(event.row)}"
                    session.answered = Asked(number, event.row.sample_id, about.name, words)
                    session.history.append(session.answered)
                yield self._changes(session, about, event, trials)
        except Exception as error:  # noqa: BLE001 - boundary: one question
            yield {self.status: line_html(_error_text(error), wrong=True)}
        yield {self.stop_button: gr.update(interactive=False)}

    def on_again(self, session: DemoSession, number: int) -> dict[Any, Any]:
        """Show an answered question of the session again."""
        trials = list[TrialEvent]()
        try:
            asked = session.history[number]
            media, events = self.managers[asked.manager].again(asked.sample_id, asked.name)
            changed = self._choose(session, lambda: session.choose(media))
            session.answered = asked
            for event in events:
                changed |= self._changes(session, media, event, trials)
                if isinstance(event, AnswerEvent):
                    changed[self.query] = event.row.text
                    changed[self.options] = "\n".join(event.row.options)
        except Exception as error:  # noqa: BLE001 - boundary: one question
            return {self.status: line_html(_error_text(error), wrong=True)}
        return changed

    def _changes(
        self, session: DemoSession, about: DemoMedia, event: AskEvent, trials: list[TrialEvent]
    ) -> dict[Any, Any]:
        """Return the changes of the page by one event; ``trials`` collects those of a question."""
        asked = session.answered
        changed: dict[Any, Any] = {self.status: status_html(event)}
        if isinstance(event, TrialEvent):
            trials.append(event)
            changed[self.trials] = trials_html(trials)
        elif isinstance(event, AnswerEvent) and asked is not None:
            row = event.row
            address = self.trace_address(f"{asked.manager}-{asked.sample_id}")
            changed[self.answer] = answer_html(event)
            changed[self.trials] = trials_html(trials, row)
            changed[self.trace] = rendered("demo_trace.html", trace=address)
            changed[self.right] = gr.update(info=RIGHT_IS.get(row.task, "in words"))
            if session.chosen is about and about.media.video is None:
                box = row.prediction.box if row.prediction is not None else None
                changed[self.media] = media_html(about, box, draws=row.task == "ground")
            earlier = [(each.words, number) for number, each in enumerate(session.history)]
            latest = earlier[-MOST_HISTORY:]
            changed[self.history] = gr.update(choices=latest, value=None, visible=True)
        return changed

    def on_stop(self, request: gr.Request) -> str:
        """Stop the visitor's question."""
        stopping = sum(each.stop(_visitor(request)) for each in self.managers)
        text = "stopping; a model that is at work comes to its end first"
        return line_html(text, busy=True) if stopping else line_html("nothing is being answered")

    def on_note(self, session: DemoSession, right: str, comment: str) -> tuple[str, Any, Any]:
        """Store feedback about the last answer."""
        try:
            asked = session.answered
            if asked is None:
                raise UsageError("nothing was answered yet")
            run = self.managers[asked.manager].run()
            run.note(asked.sample_id, right or "", comment or "")
        except Exception as error:  # noqa: BLE001 - boundary: one remark
            return line_html(_error_text(error), wrong=True), gr.skip(), gr.skip()
        return line_html(f"kept for {asked.sample_id}; thank you"), "", ""

    def on_leave(self, request: gr.Request) -> None:
        """Stop the question of a visitor who has left."""
        self.on_stop(request)

    def _choose(self, session: DemoSession, choose: Callable[[], DemoMedia]) -> dict[Any, Any]:
        """Return the page with newly chosen media. If choosing fails, return the error line."""
        try:
            chosen = choose()
            html = media_html(chosen)
        except Exception as error:  # noqa: BLE001 - boundary: one file
            return {self.session: session, self.status: line_html(_error_text(error), wrong=True)}
        choices = [(example.text, number) for number, example in enumerate(chosen.examples)]
        return {
            **self._clear(),
            self.session: session,
            self.media: html,
            self.query: "",
            self.options: "",
            self.like: "",
            self.examples: gr.update(
                choices=choices, value=None, visible=bool(choices) or HIDDEN, elem_classes=[]
            ),
            self.status: line_html("chosen; ask about it"),
        }

    def _clear(self) -> dict[Any, Any]:
        texts = (self.answer, self.trials, self.trace, self.right, self.comment, self.noted)
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


def _take_uploads_only(component: gr.UploadButton) -> None:
    """Make a component accept uploaded files only.

    A caller may name any path or address instead of an upload. gradio would fetch the address, and
    under some conditions copy the file.
    """
    folder = Path(component.GRADIO_CACHE).resolve()

    async def checked(upload: str | Path | None) -> str | None:
        if upload is None:
            return None
        path = Path(upload).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise gr.Error("this is no upload", print_exception=False)
        return str(path)

    # Set on the instance, since gradio has no hook for this and does not keep subclasses.
    vars(component)["async_move_resource_to_block_cache"] = checked
