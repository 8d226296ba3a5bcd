"""The demo's page, built with gradio.

Each visitor has a :class:`~viper.web.demo.session.DemoSession` in gradio's state. Questions
go to the :class:`~viper.web.demo.manager.SessionManager` under the session's name. Both end
with the session. Pictures go to the page as data URLs, so gradio serves no files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from viper.evaluate.runs.feedback import LONGEST
from viper.reasoner import MAX_QUERY_CHARACTERS
from viper.web.demo.handlers import HIDDEN, Demo, Handlers, PageParts
from viper.web.demo.rendering import line_html, media_html
from viper.web.demo.session import DemoSession
from viper.web.pages import asset

# Questions that are answered at the same time. Further questions wait; pages stay responsive.
AT_ONCE = 4

# Other actions that run at the same time: choosing, drawing, giving feedback.
OTHER_AT_ONCE = 8

# Seconds that gradio keeps an upload. The session has a copy by then.
UPLOAD_S = 600

# Script that makes screen readers read out changes of an element.
_ANNOUNCE_JS = (
    "element.setAttribute('role', 'status'); element.setAttribute('aria-live', 'polite');"
)

_INTRO = """<h1>viper</h1>
<p>Choose a picture or a clip and ask about it. A language model writes a program, a sandbox runs
it, vision models answer its calls.</p>"""


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


def css() -> str:
    """Return the style of the page."""
    return asset("demo.css")


def build(demo: Demo) -> gr.Blocks:
    """Build the page with its handlers."""
    handlers, draws = Handlers(demo), demo.scenes is not None
    with gr.Blocks(
        title="viper demo", analytics_enabled=False, delete_cache=(UPLOAD_S, UPLOAD_S)
    ) as blocks:
        session = gr.State(DemoSession(), delete_callback=DemoSession.end)
        gr.HTML(_INTRO, js_on_load=None)
        with gr.Row():
            with gr.Column(min_width=280):
                with gr.Row(equal_height=True):
                    upload = gr.UploadButton("Upload picture or clip", min_width=120)
                    picture = gr.Button("Draw a picture", min_width=120, visible=draws)
                    clip = gr.Button("Draw a clip", min_width=120, visible=draws)
                media = gr.HTML(media_html(None), js_on_load=asset("demo.js"))
                query = gr.Textbox(
                    label="Question, or what to find", max_length=MAX_QUERY_CHARACTERS, lines=1
                )
                options = gr.Textbox(
                    label="Candidate answers, if there are any, one a line", lines=1, max_lines=6
                )
                with gr.Row():
                    profiles = list(dict.fromkeys(each.name[0] for each in demo.managers))
                    strategies = list(dict.fromkeys(each.name[1] for each in demo.managers))
                    profile = gr.Dropdown(profiles, label="Profile", visible=len(profiles) > 1)
                    strategy = gr.Dropdown(strategies, label="Strategy")
                with gr.Row():
                    ask = gr.Button("Ask", variant="primary", min_width=120)
                    stop = gr.Button("Stop", interactive=False, min_width=120)
                starters = [(each.text, number) for number, (_, each) in enumerate(demo.starters)]
                shown = bool(starters) or HIDDEN
                examples = gr.Radio(starters, label="Examples", visible=shown)
                history = gr.Radio([], label="Questions of this session", visible=HIDDEN)
            with gr.Column(min_width=280, elem_classes="viper-told"):
                status = gr.HTML(line_html("nothing asked yet"), js_on_load=_ANNOUNCE_JS)
                answer = gr.HTML("", js_on_load=None)
                trials = gr.HTML("", js_on_load=None)
                trace = gr.HTML("", js_on_load=None)
                with gr.Column(elem_classes="viper-feedback"):
                    right = gr.Textbox(
                        label="Wrong? What would have been right",
                        lines=1,
                        elem_classes="viper-right-answer",
                    )
                    comment = gr.Textbox(
                        label="A comment in words",
                        info="kept for people to read; only a right answer is learned from",
                        lines=2,
                        max_length=LONGEST,
                    )
                    note = gr.Button("Keep this feedback")
                    noted = gr.HTML("", js_on_load=_ANNOUNCE_JS)

        _take_uploads_only(upload)
        parts = PageParts(
            session, media, query, options, strategy, examples, history, status, answer, trials,
            trace, stop, right, comment, noted,
        )  # fmt: skip
        handlers.parts = parts
        hidden: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        choosing: dict[str, Any] = {"outputs": [session, *parts.choosing], **hidden}
        upload.upload(handlers.upload, [session, upload], **choosing)
        picture.click(handlers.draw_picture, session, **choosing)
        clip.click(handlers.draw_clip, session, **choosing)
        examples.input(handlers.example, [session, examples], **choosing)
        history.input(handlers.again, [session, history], **choosing)
        gr.on(
            [ask.click, query.submit],
            handlers.ask,
            [session, query, options, profile, strategy],
            parts.asking,
            concurrency_limit=AT_ONCE,
            **hidden,
        )
        stop.click(handlers.stop, None, status, concurrency_limit=None, **hidden)
        note.click(handlers.note, [session, right, comment], [noted, right, comment], **hidden)
        blocks.unload(handlers.leave)
    blocks.queue(api_open=False, default_concurrency_limit=OTHER_AT_ONCE)
    return blocks


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
