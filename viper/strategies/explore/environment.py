"""The environment of an agent's code: one sandboxed process and one call log for all its turns.

:meth:`Environment.run` runs a turn's code, and :func:`format_outcome` puts its result into words.
The result of the code becomes text for the agent: the printed text, then a value as a notebook
shows it, or an error with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.llm.messages import Picture
from viper.prompting.exploring import FINAL
from viper.prompting.feedback import CLASSES
from viper.sandbox import Outcome, Ref
from viper.schema import Answer, Failure
from viper.strategies.answers import read_value
from viper.strategies.base import TOOL_STOPS, Components, RunContext, failure_of
from viper.strategies.program import program_arguments
from viper.tools.session import is_shown, media_arguments, note_of

# Code that runs before the first turn, by the kind of media.
OPENING = {
    "image": "image_patch = ImagePatch(image)",
    "images": "image_patches = [ImagePatch(one) for one in image_list]",
    "video": "video_segment = VideoSegment(video)",
}

# The agent must know why its variables are gone, or it calls them until its turns are used up.
LOST = "The process was ended; variables are those of the beginning again."

# Limits of what a turn shows: every later prompt repeats it, and an agent can print the rest.
# The longest value is a paragraph, a print may hold two, and the items of a list are counted.
MOST_ITEMS = 12
MOST_TEXT = 400
MOST_PRINTED = 800

NOTHING = "(nothing)"


@dataclass(frozen=True)
class CodeResult:
    """The result of some code.

    Attributes:
        text: the text for the agent.
        value: value of the last line; None if the code failed.
        calls: indices of the tool calls that it made, in the call log of the whole episode.
        pictures: the pictures that it showed, each with its note.
    """

    text: str
    value: Any = None
    failure: Failure | None = None
    calls: tuple[int, ...] = ()
    pictures: tuple[tuple[Picture, str], ...] = ()


class Environment:
    """Runs code whose variables persist between the turns of one query.

    Code that is ended by force (time, memory) loses its process; the next code starts in a new one.

    Attributes:
        tools: the call log of all turns.
    """

    def __init__(self, components: Components, context: RunContext) -> None:
        self._components, self._context = components, context
        fixed = components.toolbox.settings.start_thresholds(self_tune=False)
        self.tools = components.toolbox.session(context.media, thresholds=fixed, payer=context)
        self.tools.shared = components.arrays(context.settings.api, context.media)
        self._session = self._start_process()

    def captions(self) -> list[str]:
        """Return one caption per picture, or one for a video; an empty list if no model can
        caption.
        """
        named = media_arguments(self._context.media)
        try:
            if "video" in named:
                return [str(self.tools.call("caption_video", (named["video"], None), {}, None))]
            pictures = named["image_list"]
            return [str(self.tools.call("caption_image", (ref,), {}, None)) for ref in pictures]
        except (ToolError, *TOOL_STOPS):  # the agent's next request ends the run
            return []

    def run(self, code: str) -> CodeResult:
        """Run the code of a turn.

        Raises:
            CancelledError: the run was cancelled.
        """
        first, media = len(self.tools.calls), self._context.media
        try:
            outcome = self._session.run(code, cancel=self._context.cancel, shows=True)
        except TOOL_STOPS as stop:
            outcome = Outcome(False, failure=failure_of(stop))
        calls = tuple(range(first, len(self.tools.calls)))
        text = f"{format_outcome(outcome)}{self._reopen_if_ended()}"
        shown = filter(is_shown, self.tools.calls[first:])
        pictures = tuple(
            (Picture(media.pixels(call.result["fields"][0])), note_of(call)) for call in shown
        )
        value = outcome.value if outcome.ok else None
        return CodeResult(text, value, outcome.failure, calls, pictures)

    def stored(self) -> CodeResult:
        """Return the stored answer as the value, or None if no readable answer is stored.

        It is read also when the time is over. The text states that the value was too large for the
        process, which then had to be ended.
        """
        outcome = self._session.run(FINAL, shows=True)
        return CodeResult(self._reopen_if_ended().strip(), outcome.value if outcome.ok else None)

    def read(self, value: Any) -> Answer | Failure:
        """Return a value as the task's answer."""
        return read_value(value, self._context.query, self.tools)

    def close(self) -> None:
        """End the process."""
        self._session.close()

    def _reopen_if_ended(self) -> str:
        """Start a new process if the last code lost its own, and return the note for the agent."""
        if not self._session.ended:
            return ""
        self._session.close()
        self._session = self._start_process()
        return f"\n{LOST}"

    def _start_process(self) -> Any:
        """Start a process that knows the media by name."""
        session = self._components.sandbox.session(tools=self.tools, arrays=self.tools.shared)
        arguments = program_arguments(self._context.query, self._context.media)
        session.run(OPENING[self._context.query.media], args=arguments)
        return session


def format_outcome(outcome: Outcome) -> str:
    """Return the printed text, then the value or the error; "(nothing)" if there is neither."""
    parts = [_cut(outcome.stdout.rstrip(), MOST_PRINTED)]
    failure = outcome.failure
    if failure is not None:
        where = f" (line {failure.line})" if failure.line is not None else ""
        line = f"\n    {failure.source_line.strip()}" if failure.source_line else ""
        error = failure.exception or failure.kind
        # in the form of the last lines of a traceback, as models know it from Python
        parts.append(f"Traceback{where}:{line}\n{error}: {failure.message}")
    elif outcome.value is not None:
        parts.append(format_value(outcome.value))
    return "\n".join(filter(None, parts)) or NOTHING


def format_value(value: Any) -> str:
    """Return a value on one line; a text stays as it is, except in quotes inside lists and
    mappings.
    """
    return _cut(value, MOST_TEXT) if isinstance(value, str) else _format(value, 0)


def _format(value: Any, depth: int) -> str:
    if isinstance(value, Ref):
        if value.kind not in CLASSES:
            return f"<{value.kind}>"
        sides = [side for side in value.fields[1:5] if isinstance(side, int | float)]
        return f"{CLASSES[value.kind]}({', '.join(str(round(float(side))) for side in sides)})"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype} {list(value.shape)}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return repr(_cut(value, MOST_TEXT))
    if depth > 2 and isinstance(value, list | tuple | Mapping):
        return "…"
    if isinstance(value, Mapping):
        items = [f"{_format(k, depth + 1)}: {_format(v, depth + 1)}" for k, v in value.items()]
        return f"{{{_join_items(items)}}}"
    if isinstance(value, list | tuple):
        inside = _join_items([_format(item, depth + 1) for item in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return _cut(str(value), MOST_TEXT)


def _join_items(items: list[str]) -> str:
    more = len(items) - MOST_ITEMS
    first = items[:MOST_ITEMS]
    return ", ".join([*first, f"… {more} more"] if more > 0 else first)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
