"""Strategy look with scripted replies, real pixels and the real sandbox."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench
from viper.commands.present import details
from viper.errors import UsageError
from viper.models.llm.messages import Picture, pictures_of
from viper.models.llm.scripted import RecordedCall
from viper.models.media import media_from
from viper.record import record_from_json
from viper.run_result import RunResult
from viper.schema import Trace, to_json
from viper.tools.toolbox import with_pictures_of
from viper.web.trace_page import Extras, replay_all, trace_page
from viper.web.trace_view import shown_pictures

SHOW = (
    "<code>red = components(threshold_color(image_patch, 'red'), image_patch)[0]['patch']\n"
    "show(enlarge(red, 4), 'the red part')</code>"
)
END = "The answer is brick."


def scene() -> np.ndarray[Any, Any]:
    pixels = np.full((120, 160, 3), 90, np.uint8)
    pixels[20:40, 30:60] = (255, 0, 0)
    return pixels


def looked(
    replies: list[str], media: Any = None, style: str = "chat", **settings: Any
) -> tuple[RunResult, list[RecordedCall]]:
    bench = Bench(replies, parts={"sees": frozenset({"llm"})}, prompt_style=style)
    bench.llm.sees_pictures = True
    with bench.reasoner:
        shown = scene() if media is None else media
        result = bench.reasoner.run(shown, "what is red?", strategy="look", **settings)
        return result, bench.llm.calls


def sizes(call: RecordedCall) -> list[tuple[int, int]]:
    return [picture.pixels.shape[1::-1] for picture in pictures_of(call.messages)]


def test_a_shown_picture_is_in_the_next_message_with_its_note() -> None:
    result, calls = looked([f"I look closer.\n{SHOW}", END])
    assert result.answer is not None and result.answer.value == "brick"
    assert sizes(calls[0]) == [(160, 120)] and sizes(calls[1]) == [(160, 120), (120, 80)]
    message = calls[1].messages[-1]
    assert message.role == "user" and message.parts[0] == "the red part"
    assert isinstance(message.parts[1], Picture)
    assert (message.parts[1].pixels == (255, 0, 0)).all()
    assert [turn.kind for turn in result.trace.turns] == ["thought", "code", "done"]


def test_what_is_sent_is_what_the_trace_shows() -> None:
    result, calls = looked([SHOW, SHOW.replace("4", "2"), END])
    sent = pictures_of(calls[-1].messages)[1:]
    names = shown_pictures(result.trace)
    assert [Picture(result.media.pixels(name)) for name in names] == sent


def test_the_same_episode_twice_is_the_same_trace() -> None:
    def told(result: RunResult) -> Any:
        record = to_json(result.trace)
        for trial in record["trials"]:
            trial.update(seconds=0, writing_seconds=0)
            for call in trial["tool_calls"]:
                call["seconds"] = 0
        for turn in record["turns"]:
            turn["seconds"] = 0
        return {**record, "seconds": 0}

    first, second = (looked([SHOW, SHOW, END])[0] for _ in range(2))
    assert told(first) == told(second)


def test_the_oldest_pictures_leave_and_their_notes_stay() -> None:
    replies = [SHOW.replace("4", str(n)).replace("red part", f"part {n}") for n in range(2, 7)]
    _, calls = looked([*replies, END], keep_pictures=2)
    assert [len(pictures_of(call.messages)) for call in calls] == [1, 2, 3, 3, 3, 3]
    text = calls[-1].prompt
    assert "[the part 2: no longer shown]" in text and "[the part 4: no longer shown]" in text
    assert sizes(calls[-1])[1:] == [(150, 100), (180, 120)]


def test_a_long_episode_stays_within_its_bound() -> None:
    result, calls = looked([SHOW] * 29 + [END], max_turns=30, keep_pictures=3, max_pictures=40)
    assert result.answer is not None and len(calls) == 30
    assert max(len(pictures_of(call.messages)) for call in calls) == 4


def test_too_many_pictures_are_an_error_that_the_model_reads() -> None:
    result, _ = looked([SHOW, SHOW, END], max_pictures=1)
    assert result.answer is not None
    assert "1 pictures were shown" in result.trace.turns[1].result


def test_large_pictures_are_scaled_down() -> None:
    result, calls = looked([SHOW.replace("4", "16"), END], picture_pixels=10_000)
    width, height = sizes(calls[1])[1]
    assert width * height <= 10_000 and abs(width / height - 1.5) < 0.05


def test_the_last_turn_says_so_and_counts_what_there_is() -> None:
    result, calls = looked(["<code>final_answer = 'a red block'</code>"], max_turns=1)
    assert "This is the last turn" in calls[0].prompt
    assert result.answer is not None and result.answer.value == "a red block"
    assert result.trace.turns[-1].kind == "forced"


def test_the_chat_prompt_lists_the_vocabulary_and_the_compact_one_the_turns() -> None:
    _, calls = looked([END])
    assert "def enlarge(patch: ImagePatch, factor: float = 2)" in calls[0].prompt
    assert "There are 12 turns" in calls[0].prompt and "24 pictures at most" in calls[0].prompt


def test_a_model_without_eyes_is_refused_in_one_line() -> None:
    with (
        Bench([END], prompt_style="chat") as bench,
        pytest.raises(UsageError, match=r"takes no pictures; give the profile a table \[looker\]"),
    ):
        bench.reasoner.run(scene(), "what is red?", strategy="look")


def test_the_page_shows_every_picture_in_order() -> None:
    result, _ = looked([SHOW, SHOW.replace("the red part", "<script>"), END])
    bench = Bench([])
    with bench.reasoner:
        replays = replay_all(result.trace, result.media, None)  # type: ignore[arg-type]
        page = trace_page(result.trace, result.media, replays, Extras())
    name = shown_pictures(result.trace)[0]
    assert page.count('<figure class="shown">') == 2 and f'data-point="{name}"' in page
    assert "<figcaption>the red part</figcaption>" in page
    assert "<figcaption>&lt;script&gt;</figcaption>" in page


def test_the_pictures_of_a_stored_run_are_made_again() -> None:
    result, _ = looked([SHOW, SHOW.replace("enlarge(red, 4)", "rotate(red, 20)"), END])
    names = shown_pictures(result.trace)
    stored = record_from_json(Trace, json.loads(json.dumps(to_json(result.trace))))
    fresh = media_from(scene())
    again = with_pictures_of(fresh, stored.tool_calls)
    assert not any(name in fresh.edits for name in names)
    for name in names:
        assert (again.pixels(name) == result.media.pixels(name)).all()
    with Bench([]).reasoner:
        replays = replay_all(stored, fresh, None)  # type: ignore[arg-type]
    page = trace_page(stored, fresh, replays, Extras())
    assert all(f'data-point="{name}"' in page for name in names)


@pytest.mark.parametrize("media", ["pair", "clip"])
def test_pairs_and_clips(media: str) -> None:
    pixels = scene()
    later = pixels.copy()
    later[60:70, 60:70] = 255
    if media == "pair":
        code = "<code>show(difference(image_patches[0], image_patches[1]))</code>"
        result, calls = looked([code, END], [pixels, later])
    else:
        code = "<code>show(frame_difference(video_segment, 0, 1))</code>"
        result, calls = looked([code, END], np.stack([pixels, later]))
    assert result.trace.failure is None or media == "clip"
    assert pictures_of(calls[1].messages)[-1].pixels.max() == 165


def test_the_terminal_gets_note_and_picture_after_the_turn_that_showed_it() -> None:
    result, _ = looked([f"I look closer.\n{SHOW}", END])
    lines = list(details(result))
    (at,) = [at for at, line in enumerate(lines) if isinstance(line, Picture)]
    picture, before = lines[at], lines[at - 1]
    assert isinstance(picture, Picture) and picture.pixels.shape == (80, 120, 3)
    assert isinstance(before, str) and before.endswith("> edited picture (120 x 80) the red part")
