"""What the tools had to choose from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.strategies.bench import HEIGHT, WIDTH, Bench, picture
from viper.errors import ToolError
from viper.models.llm.scripted import ScriptedLLM
from viper.models.media import media_from
from viper.sandbox import Ref
from viper.tools import candidates, tool_functions
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession
from viper.tools.settings import ToolSettings
from viper.tools.text import LanguageTool
from viper.tools.toolbox import Toolbox

WHOLE = Ref("patch", ("image0", 0, 0, WIDTH, HEIGHT))


@pytest.fixture
def session() -> Iterator[ToolSession]:
    with Bench([]) as bench:
        shown = picture()
        shown[..., 0] = 250
        yield bench.reasoner.components.toolbox.session(media_from(shown))


def test_boxes_below_the_threshold_are_among_them(session: ToolSession) -> None:
    found = candidates.boxes(session, WHOLE, "ring")
    assert [score for _, score in found] == [0.9, 0.25]
    kept = session.nested("find", (WHOLE, "ring"), {})
    assert kept == [ref for ref, score in found if score >= 0.4]
    assert candidates.boxes(session, WHOLE, "rings") == found


def test_texts_and_patches_have_log_probabilities(session: ToolSession) -> None:
    fits = candidates.text_fits(session, WHOLE, ["red", "green", "blue"])
    assert np.exp(fits).sum() == pytest.approx(1)
    assert max(fits) == fits[0]
    assert candidates.patch_fits(session, [WHOLE, WHOLE], ["red"]) == pytest.approx(
        [-np.log(2)] * 2
    )


def test_models_that_tell_no_likelihoods(session: ToolSession) -> None:
    assert candidates.answer_likelihoods(session, WHOLE, "what color?", ["red"]) is None
    assert candidates.option_likelihoods(session, "it is red", "what?", ["red", "blue"]) is None


def test_options_are_scored_as_a_whole() -> None:
    llm = ScriptedLLM(scores={"red": -1.0, "dark blue": -2.0})
    toolbox = Toolbox(ModelSet({"text": lambda: LanguageTool(llm)}), ToolSettings())
    session = toolbox.session(media_from(picture()))
    found = candidates.option_likelihoods(session, "it is red", "what?", ["red", "dark blue"])
    # means per token, times the words of each
    assert found == [-1.0, -4.0]


def test_windows_are_cut_to_the_segment() -> None:
    with Bench([]) as bench:
        frames = np.full((8, 20, 30, 3), 90, np.uint8)
        session = bench.reasoner.components.toolbox.session(media_from(frames))
        part = Ref("segment", ("video0", 3, 8))
        (found,) = tool_functions.windows(session, part, "the cube stops")
        assert (found.start, found.end) == (3, 4)
        with pytest.raises(ToolError):
            tool_functions.windows(session, part, " ")
