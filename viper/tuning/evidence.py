"""The results of a run's calls as text, for a language model that judges them.

`step_texts` writes one text per call for a large model, `compact_steps` one short line for a small
one. Both name patches after the call that returned them (`_Names`).

Source: CLOVA (Gao et al. 2024, sec. 3.3): results that are not text are converted to text. A patch
becomes its box with the detector's score and, if there is a VQA model, a caption. Boxes have the
coordinates that programs see, with y pointing up. The length of all text is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from viper.errors import ViperError
from viper.prompting.compact import one_line
from viper.schema import ToolCall
from viper.strategies.replay import restore_references
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
    names, caption = _Names(log), _captions(session)
    calls = list(log)
    if len(calls) > MOST_STEPS:
        half = MOST_STEPS // 2
        first, last = calls[:half], calls[-half:]
        texts = [_step(call, names, caption) for call in first]
        texts.append(f"({len(calls) - 2 * half} more calls)")
        return texts + [_step(call, names, caption) for call in last]
    return [_step(call, names, caption) for call in calls]


def compact_steps(log: Sequence[ToolCall], items: int = MOST_ITEMS) -> list[str]:
    """Return one short line per call: ``2 simple_query 0.1, what color is this?: red``.

    ``0.1`` is the patch at index 1 of the result of call 0. A detected patch is written as the x
    and y of its centre and its score in hundredths: ``34 92 83``.

    Args:
        items: most items of a list.
    """
    names = _Names(log)
    return [_compact_step(call, names, items) for call in log]


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
                    self._widen(*item["fields"])

    def _widen(self, image: Any, left: float, lower: float, right: float, upper: float) -> None:
        width, height = self._extents.get(str(image), (0.0, 0.0))
        self._extents[str(image)] = (max(width, right), max(height, upper))

    def _is_whole(self, fields: Sequence[Any]) -> bool:
        """Return whether a patch covers the extent of its picture, as far as the run shows it."""
        return list(fields[1:]) == [0, 0, *self._extents.get(str(fields[0]), ())]

    def of(self, reference: Mapping[str, Any]) -> str:
        fields = reference["fields"]
        name = self._names.get(str(fields))
        if name is not None:
            return name
        if reference["kind"] == "segment":
            return f"frames {fields[1]} to {fields[2]}"
        if reference["kind"] == "patch" and self._is_whole(fields):
            return str(fields[0])
        if reference["kind"] == "patch":
            return f"part {_box(fields)}"
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


def _call_text(call: ToolCall, names: _Names) -> str:
    args = [_value(value, names) for value in call.args]
    args += [f"{name}={_value(value, names)}" for name, value in call.kwargs.items()]
    return f"{call.tool}({', '.join(args)})"


def _step(call: ToolCall, names: _Names, caption: Caption) -> str:
    where = "" if call.line is None else f" (line {call.line})"
    lines = [f"step {call.index}{where}: {_call_text(call, names)}"]
    if call.error is not None:
        lines.append(f"  failed: {_short(call.error, LONGEST_VALUE)}")
    else:
        lines += [f"  {line}" for line in _result(call, names, caption)]
    if call.rejected_by is not None:
        lines.append(f"  {call.rejected_by} let nothing pass; best scores {_scores(call)}")
    elif call.judged_by is not None and call.scores and not isinstance(call.result, list | tuple):
        lines.append(f"  scores {_scores(call)}, judged by {call.judged_by}")
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_STEP else f"{text[: LONGEST_STEP - 1]}…"


def _scores(call: ToolCall) -> str:
    return ", ".join(f"{score:.2f}" for score in call.scores[:MOST_ITEMS])


def _result(call: ToolCall, names: _Names, caption: Caption) -> list[str]:
    items = _items(call.result)
    if not items or not is_reference(items[0]):
        return [f"gave {_value(call.result, names)}"]
    lines = [f"gave {len(items)} {_counted(items[0]['kind'], len(items))}"]
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


def _counted(kind: str, count: int) -> str:
    if count == 1:
        return kind
    return f"{kind}es" if kind.endswith("ch") else f"{kind}s"


def _captions(session: ToolSession | None) -> Caption:
    """Return a function that captions a limited number of different patches.

    Further patches and failed captions get "".
    """
    captions: dict[str, str] = {}

    def caption(reference: Any) -> str:
        key = str(reference)
        if session is None or reference["kind"] not in ("patch", "image"):
            return ""
        if key not in captions and len(captions) < MOST_CAPTIONS:
            try:
                captions[key] = str(
                    session.nested("caption_image", (restore_references(reference),), {})
                )
            except (ViperError, ValueError, IndexError):
                captions[key] = ""
        return captions.get(key, "")

    return caption


def _compact_step(call: ToolCall, names: _Names, items: int) -> str:
    args = ", ".join(_compact_value(value, names) for value in [*call.args, *call.kwargs.values()])
    if call.error is not None:
        return f"{call.index} {call.tool} {args}: failed"
    results = _items(call.result)
    if isinstance(call.result, list | tuple) and all(map(is_reference, results)):
        parts = [f"{len(results)}"]
        for place, item in enumerate(results[:items]):
            parts.append(_compact_patch(item, call.scores[place : place + 1]))
        return f"{call.index} {call.tool} {args}: {'; '.join(parts)}"
    sure = f" {100 * call.scores[0]:.0f}" if call.judged_by and call.scores else ""
    return f"{call.index} {call.tool} {args}: {_compact_value(call.result, names)}{sure}"


def _compact_patch(item: Mapping[str, Any], scores: Sequence[float]) -> str:
    """Return the text of a patch. ``scores`` holds its score, or nothing."""
    if item["kind"] != "patch" or len(item["fields"]) != 5:
        return str(item["kind"])
    left, lower, right, upper = (float(side) for side in item["fields"][1:5])
    text = f"{(left + right) / 2:.0f} {(lower + upper) / 2:.0f}"
    return text + "".join(f" {100 * score:.0f}" for score in scores)


def _compact_value(value: Any, names: _Names) -> str:
    if isinstance(value, list | tuple):
        return _short(" ".join(_compact_value(item, names) for item in value[:MOST_ITEMS]), 80)
    return _short(value if isinstance(value, str) else _value(value, names), 80)
