"""Feedback after typical mistakes names what mends them; the programs run in the real sandbox."""

from __future__ import annotations

import pytest

from tests.prompting.mistakes import MISTAKES, NEVER, Mistake, feedback_after, fenced


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_feedback_names_what_mends_a_mistake(mistake: Mistake) -> None:
    replies = [mistake.reply, fenced(mistake.mended)]
    result, prompt = feedback_after(replies, mistake.query, mistake.finish_reason)
    assert len(prompt) == 4, "the mistake gave no answer, and so there is feedback"
    text = prompt[-1].text
    assert [words for words in mistake.says if words not in text] == []
    assert [words for words in NEVER if words in text] == []
    assert result.answer is not None, "one correction mends it"
