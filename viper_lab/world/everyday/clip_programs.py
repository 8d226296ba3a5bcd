"""Programs of everyday questions about clips."""

from __future__ import annotations

from viper_lab.world.events import VERBS
from viper_lab.world.everyday.clips import FRAME_TYPES, ClipAsk, Event
from viper_lab.world.queries.programs import ATTRIBUTE_QUESTIONS

# Where a sentence about an object has these words: ``the red cube stops``.
WORD_PLACES = {"color": 1, "shape": 2}

_ENDS = ("return info", "return select_answer(info, question, possible_answers)")

_COUNT = "info = str(len(patches))"
_NAME = (
    f"color = patches[0].simple_query('{ATTRIBUTE_QUESTIONS['color']}')",
    f"shape = patches[0].simple_query('{ATTRIBUTE_QUESTIONS['shape']}')",
    "info = color + ' ' + shape",
)

_AT_ONE_PLACE = (
    "abs(p.horizontal_center - o.horizontal_center) + "
    "abs(p.vertical_center - o.vertical_center) < p.width / 4"
)


def clip_program(ask: ClipAsk, *, options: bool) -> str:
    """Return the program of a question; ``options`` are there to choose from."""
    lines = [
        "def execute_command(video, question, possible_answers):",
        "video_segment = VideoSegment(video)",
    ]
    if ask.type in FRAME_TYPES:
        lines += [line.replace("{x}", ask.actor) for line in _frame_lines(ask)]
        return "\n    ".join([*lines, _ENDS[options]])
    segment = "video_segment"
    if ask.event is not None:
        routine = {"after": "after", "before": "before"}.get(ask.moment, "of")
        segment = "segment"
        sentence = ask.event.sentence()
        lines.append(f"segment = video_segment.get_video_segment_{routine}_event('{sentence}')")
    is_found = ask.type == "ever" and ask.event is not None and not ask.moment
    if not is_found:
        lines.append(f"info = {segment}.caption_video('{_asked(ask)}')")
    return "\n    ".join([*lines, *_last_lines(ask, is_found), _ENDS[options]])


def _frame_lines(ask: ClipAsk) -> list[str]:
    """Return the lines of a question about what can be seen in single frames."""
    start = "start = video_segment.frame_from_index(0)"
    end = "end = video_segment.frame_from_index(-1)"
    if ask.type == "count_at":
        if ask.moment == "first":
            return [start, "patches = start.find('{x}')", _COUNT]
        return [end, "patches = end.find('{x}')", _COUNT]
    if ask.type == "still":
        return [
            start,
            end,
            "patches = start.find('{x}')",
            "others = end.find('{x}')",
            f"patches = [p for p in patches if any({_AT_ONE_PLACE} for o in others)]",
            *([_COUNT] if ask.word else _NAME),
        ]
    if ask.type == "way":
        sentence = Event("start", ask.actor).sentence()
        words, sign = ("yes", "no"), "<" if ask.word == "left" else ">"
        if not ask.word:
            words = ("right", "left")
        moved = f"others[0].horizontal_center {sign} patches[0].horizontal_center"
        return [
            f"segment = video_segment.get_video_segment_of_event('{sentence}')",
            start.replace("video_segment", "segment"),
            end.replace("video_segment", "segment"),
            "patches = start.find('{x}')",
            "others = end.find('{x}')",
            f"info = '{words[0]}' if {moved} else '{words[1]}'",
        ]
    seen = "info = 'yes' if len(patches) > 0 else 'no'"
    if ask.type == "look_of":
        seen = f"info = patches[0].simple_query('{ATTRIBUTE_QUESTIONS[ask.word]}')"
    return [start, end, "patches = start.find('{x}') + end.find('{x}')", seen]


def _asked(ask: ClipAsk) -> str:
    """Return the program's question to the video model."""
    if ask.type == "happens":
        return "what happens?"
    if ask.type == "hits":
        return f"what does the {ask.actor} hit?"
    if ask.type in ("hit_by", "why"):
        return f"what hits the {ask.actor}?"
    return f"what does the {ask.actor} do?" if ask.actor else f"what {VERBS[ask.kind]}?"


def _last_lines(ask: ClipAsk, is_found: bool) -> list[str]:
    verb = VERBS[ask.kind] if ask.kind else ""
    if ask.type in ("ever", "before"):
        fact = "segment.num_frames > 0" if is_found else f"'{verb}' in info"
        words = ("'no'", "'yes'") if ask.negated else ("'yes'", "'no'")
        return [f"info = {words[0]} if {fact} else {words[1]}"]
    if ask.type == "times":
        return [f"info = str(info.count('{verb}'))"]
    late = ask.moment in ("last", "before") or ask.type in ("becomes", "why")
    lines = [f"info = info.split('. ')[{-1 if late else 0}]"]
    if ask.type == "which":
        lines.append(f"info = info.split(' {verb}')[0]")
    elif ask.type == "hits":
        lines.append("info = info.split(' hits ')[-1]")
    elif ask.type == "hit_by":
        lines.append("info = info.split(' hits ')[0]")
    elif ask.type == "property":
        lines.append(f"info = info.split()[{WORD_PLACES[ask.word]}]")
    return lines
