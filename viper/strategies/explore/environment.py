"""Where an agent's code runs: one sandboxed process and one log of calls for all of its turns.

What the code came to is told in words that an agent reads: a value as a notebook shows it, what was
printed before it, an error with the line it arose on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.media import Media
from viper.prompting.exploring import FINAL
from viper.sandbox import Outcome, Ref
from viper.schema import Answer, Failure
from viper.strategies.base import Components, RunContext
from viper.strategies.program import program_arguments, read_value

OPENING = {
    "image": "image_patch = ImagePatch(image)",
    "images": "image_patches = [ImagePatch(one) for one in image_list]",
    "video": "video_segment = VideoSegment(video)",
}
"""Code before the first turn, by the kind of media."""

LOST = "The process was ended; variables are those of the beginning again."

MOST_ITEMS = 12
"""Of a list that are shown; the rest is counted."""

MOST_TEXT = 400
"""Characters of a text that are shown."""

MOST_PRINTED = 800

NOTHING = "(nothing)"

TRACEBACK = "Traceback"
"""How the answer to code that failed begins."""


@dataclass(frozen=True)
class Feedback:
    """What came of some code.

    Attributes:
        text: as the agent reads it.
        value: what the last line was worth; None where the code failed.
        calls: indices of the tool calls that it made, in the log of the whole episode.
    """

    text: str
    value: Any = None
    failure: Failure | None = None
    calls: tuple[int, ...] = ()


class Environment:
    """Runs code whose variables live on between the turns of one query.

    Code that is ended by force (time, memory) ends its process; the next code finds a new one.

    Attributes:
        tools: the log of calls of all turns.
    """

    def __init__(self, components: Components, context: RunContext) -> None:
        self._components, self._context = components, context
        fixed = components.toolbox.settings.start_thresholds(self_tune=False)
        self.tools = components.toolbox.session(
            context.media, thresholds=fixed, cancel=context.cancel
        )
        self._session = self._opened()

    def captions(self) -> list[str]:
        """What the pictures show, each in a sentence; of a video one. None where nobody can say."""
        media, found = self._context.media, []
        for ref in _views(media):
            try:
                if media.video is not None:
                    text = self.tools.call("caption_video", (ref, None), {}, None)
                else:
                    text = self.tools.call("caption_image", (ref,), {}, None)
            except ToolError:
                return []
            found.append(str(text))
        return found

    def run(self, code: str) -> Feedback:
        """Runs the code of a turn.

        Raises:
            CancelledError: the run was cancelled.
        """
        first = len(self.tools.calls)
        outcome = self._session.run(code, cancel=self._context.cancel, shows=True)
        calls = tuple(range(first, len(self.tools.calls)))
        text = f"{shown_outcome(outcome)}{self._reopened()}"
        return Feedback(text, outcome.value if outcome.ok else None, outcome.failure, calls)

    def stored(self) -> Feedback:
        """The stored answer as the value, None where there is none that can be read.

        The text says where the value was too large for the process, which then had to be ended.
        """
        outcome = self._session.run(FINAL, cancel=self._context.cancel, shows=True)
        return Feedback(self._reopened().strip(), outcome.value if outcome.ok else None)

    def read(self, value: Any) -> Answer | Failure:
        """A value as the task's answer."""
        return read_value(value, self._context, self.tools)

    def close(self) -> None:
        """Ends the process."""
        self._session.close()

    def _reopened(self) -> str:
        """Opens a new process where the last code ended its own; what the agent has to know."""
        if not self._session.ended:
            return ""
        self._session.close()
        self._session = self._opened()
        return f"\n{LOST}"

    def _opened(self) -> Any:
        """A process that knows the media by name."""
        session = self._components.sandbox.session(tools=self.tools)
        arguments = program_arguments(self._context.query, self._context.media)
        session.run(OPENING[self._context.query.media], args=arguments)
        return session


def _views(media: Media) -> list[Ref]:
    """The pictures as wholes, or the clip."""
    if media.video is not None:
        count, height, width = media.video.shape[:3]
        return [Ref("video", ("video0", count, width, height))]
    return [
        Ref("image", (f"image{number}", picture.shape[1], picture.shape[0]))
        for number, picture in enumerate(media.images)
    ]


def shown_outcome(outcome: Outcome) -> str:
    """What was printed, then the value or the error; "(nothing)" where there is none of them."""
    parts = [_cut(outcome.stdout.rstrip(), MOST_PRINTED)]
    if outcome.failure is not None:
        parts.append(shown_failure(outcome.failure))
    elif outcome.value is not None:
        parts.append(shown_value(outcome.value))
    return "\n".join(filter(None, parts)) or NOTHING


def shown_failure(failure: Failure) -> str:
    """The error with the line that it arose on, as the last lines of a traceback have them."""
    where = f" (line {failure.line})" if failure.line is not None else ""
    line = f"\n    {failure.source_line.strip()}" if failure.source_line else ""
    what = failure.exception or failure.kind
    return f"{TRACEBACK}{where}:{line}\n{what}: {failure.message}"


def shown_value(value: Any) -> str:
    """A value in one line; a text as it is, within lists and records in quotes."""
    return _cut(value, MOST_TEXT) if isinstance(value, str) else _shown(value, 0)


def _shown(value: Any, depth: int) -> str:
    if isinstance(value, Ref):
        return _reference(value)
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
        items = [f"{_shown(k, depth + 1)}: {_shown(v, depth + 1)}" for k, v in value.items()]
        return f"{{{_listed(items)}}}"
    if isinstance(value, list | tuple):
        inside = _listed([_shown(item, depth + 1) for item in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return _cut(str(value), MOST_TEXT)


def _reference(value: Ref) -> str:
    numbers = [round(float(one)) for one in value.fields[1:5] if isinstance(one, int | float)]
    names = {"patch": "ImagePatch", "segment": "VideoSegment", "image": "image", "video": "video"}
    name = names.get(value.kind, value.kind)
    if value.kind in ("patch", "segment"):
        return f"{name}({', '.join(map(str, numbers))})"
    return f"<{name}>"


def _listed(items: list[str]) -> str:
    more = len(items) - MOST_ITEMS
    shown = items[:MOST_ITEMS]
    return ", ".join([*shown, f"… {more} more"] if more > 0 else shown)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
