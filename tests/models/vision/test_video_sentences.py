import pytest

from viper.models.vision.roles import EventWindow
from viper.models.vision.video_sentences import SeenEvent, bearing_on, mentioned

NAMES = ("red cube", "red ball", "blue ball")
TEMPLATES = {
    "start": "{a} starts moving",
    "stop": "{a} stops",
    "hit": "{a} hits {b}",
    "fall": "{a} falls off the table",
}


def seen(kind: str, actor: str, target: str = "") -> SeenEvent:
    text = TEMPLATES[kind].format(a=f"the {actor}", b=f"the {target}")
    return SeenEvent(text, kind, actor, target, EventWindow(0, 5, 0.9))


START = seen("start", "red cube")
HIT = seen("hit", "red cube", "blue ball")
PUSHED = seen("start", "blue ball")
STOP = seen("stop", "red cube")
FALL = seen("fall", "blue ball")
EVENTS = (START, HIT, PUSHED, STOP, FALL)


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("", EVENTS),
        ("what happens?", EVENTS),
        ("What does the red cube do?", (START, HIT, STOP)),
        ("what does the red cube hit?", (HIT,)),
        ("what hits the blue ball?", (HIT,)),
        ("what starts moving?", (START, PUSHED)),
        ("what falls off the table?", (FALL,)),
        ("what happens to the blue ball?", (HIT, PUSHED, FALL)),
        ("what does the cube do", (START, HIT, STOP)),
        ("does the blue ball stop?", (HIT, PUSHED, FALL)),
        ("what hits the red ball?", ()),
    ],
)
def test_events_that_bear_on_a_question(question: str, kept: tuple[SeenEvent, ...]) -> None:
    assert bearing_on(question, EVENTS, NAMES, TEMPLATES) == list(kept)


def test_names_in_full_count_before_single_words() -> None:
    assert mentioned("does the red cube hit the blue ball", NAMES) == {"red cube", "blue ball"}
    assert mentioned("what about the red thing", NAMES) == {"red cube", "red ball"}
    assert mentioned("what happens last?", NAMES) == set()
