"""The results of a run's calls as text, for a language model that judges them.

`step_texts` writes one text per call. Patches are named after the call that returned them.

Source: CLOVA (Gao et al. 2024, sec. 3.3): results that are not text are converted to text. A patch
becomes its box with the detector's score and, if there is a VQA model, a caption. Boxes have the
coordinates that programs see, with y pointing up. The length of all text is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from viper.errors import ViperError
from viper.prompting.compact import one_line
from viper.schema import ToolCall
from viper.tools.call_log import from_plain
from viper.tools.session import ToolSession
from viper.tuning.case import is_reference

# These five bound a prompt to some 60 steps of a few lines each: the bounds of single values keep a
# step short, and captions are limited because each is a call of the VQA model.
LONGEST_STEP = 900
MOST_STEPS = 60
MOST_ITEMS = 8
MOST_CAPTIONS = 24
LONGEST_VALUE = 200

# Returns the caption of a reference in a call log; "" if there is none.
Caption = Callable[[Any], str]


def step_texts(log: Sequence[ToolCall], session: ToolSession | None = None) -> list[str]:
    """Return one text per call, in order: the question and the result.

    The middle of a very long log is replaced by the number of its calls.

    Args:
        session: captions patches and pictures with the VQA model; None gives no captions.
    """
    names, caption, half = _Names(log), captions_by(session), MOST_STEPS // 2
    calls = log if len(log) <= MOST_STEPS else [*log[:half], *log[-half:]]
    texts = [_step(call, names, caption) for call in calls]
    if len(log) > MOST_STEPS:
        texts.insert(half, f"({len(log) - 2 * half} more calls)")
    return texts


class _Names:
    """Names of patches, after the call that returned them."""

    def __init__(self, log: Sequence[ToolCall]) -> None:
        self._names: dict[str, str] = {}
        self._extents: dict[str, tuple[float, float]] = {}
        for call in log:
            for place, item in enumerate(_items(call.result)):
                if is_reference(item):
                    self._names.setdefault(str(item["fields"]), f"{call.index}.{place}")
            for item in call.args:
                if is_reference(item) and item["kind"] == "patch" and len(item["fields"]) == 5:
                    image, _, _, right, upper = item["fields"]
                    width, height = self._extents.get(str(image), (0.0, 0.0))
                    self._extents[str(image)] = (max(width, right), max(height, upper))

    def of(self, reference: Mapping[str, Any]) -> str:
        fields = reference["fields"]
        name = self._names.get(str(fields))
        if name is not None:
            return name
        if reference["kind"] == "segment":
            return f"frames {fields[1]} to {fields[2]}"
        if reference["kind"] == "patch":
            # whether it covers the extent of its picture, as far as the run shows it
            is_whole = list(fields[1:]) == [0, 0, *self._extents.get(str(fields[0]), ())]
            return str(fields[0]) if is_whole else f"part {_box(fields)}"
        return str(fields[0]) if fields else str(reference["kind"])


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _box(fields: Sequence[Any]) -> str:
    return "[" + ", ".join(f"{float(side):.0f}" for side in fields[1:5]) + "]"


def _short(text: str, limit: int) -> str:
    flat = one_line(text)
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def _value(value: Any, names: _Names) -> str:
    if is_reference(value):
        return names.of(value)
    if isinstance(value, list | tuple):
        text = ", ".join(_value(item, names) for item in value[:MOST_ITEMS])
        more = f", {len(value) - MOST_ITEMS} more" if len(value) > MOST_ITEMS else ""
        return f"[{text}{more}]"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return _short(", ".join(f"{key}: {value[key]}" for key in value), LONGEST_VALUE)
    return _short(repr(value) if isinstance(value, str) else str(value), LONGEST_VALUE)


def _step(call: ToolCall, names: _Names, caption: Caption) -> str:
    where = "" if call.line is None else f" (line {call.line})"
    args = [_value(value, names) for value in call.args]
    args += [f"{name}={_value(value, names)}" for name, value in call.kwargs.items()]
    lines = [f"step {call.index}{where}: {call.tool}({', '.join(args)})"]
    if call.error is not None:
        lines.append(f"  failed: {_short(call.error, LONGEST_VALUE)}")
    else:
        lines += [f"  {line}" for line in _result(call, names, caption)]
    scores = ", ".join(f"{score:.2f}" for score in call.scores[:MOST_ITEMS])
    if call.rejected_by is not None:
        lines.append(f"  {call.rejected_by} let nothing pass; best scores {scores}")
    elif call.judged_by is not None and call.scores and not isinstance(call.result, list | tuple):
        lines.append(f"  scores {scores}, judged by {call.judged_by}")
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_STEP else f"{text[: LONGEST_STEP - 1]}…"


def _result(call: ToolCall, names: _Names, caption: Caption) -> list[str]:
    items = _items(call.result)
    if not items or not is_reference(items[0]):
        return [f"gave {_value(call.result, names)}"]
    kind = str(items[0]["kind"])
    plural = "" if len(items) == 1 else "es" if kind.endswith("ch") else "s"
    lines = [f"gave {len(items)} {kind}{plural}"]
    for place, item in enumerate(items[:MOST_ITEMS]):
        if not is_reference(item):
            continue
        text = f"  {call.index}.{place}"
        if item["kind"] == "patch" and len(item["fields"]) == 5:
            text += f": box {_box(item['fields'])}"
        if call.tool == "find" and place < len(call.scores):
            text += f", score {call.scores[place]:.2f}"
        sentence = caption(item)
        lines.append(text + (f", shows: {_short(sentence, LONGEST_VALUE)}" if sentence else ""))
    if len(items) > MOST_ITEMS:
        lines.append(f"  and {len(items) - MOST_ITEMS} more")
    return lines


def captions_by(session: ToolSession | None) -> Caption:
    """Return a function that captions a limited number of different patches.

    Further patches and failed captions get "".
    """
    captions: dict[str, str] = {}

    def caption(reference: Any) -> str:
        key = str(reference)
        if session is None or reference["kind"] not in ("patch", "image"):
            return ""
        if key not in captions and len(captions) < MOST_CAPTIONS:
            captions[key] = ""
            with suppress(ViperError, ValueError, IndexError):
                patch = from_plain(reference)
                captions[key] = str(session.nested("caption_image", (patch,), {}))
        return captions.get(key, "")

    return caption
