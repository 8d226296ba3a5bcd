"""The kind of answer that viper reads from a question fits the right answer."""

import pytest

from viper.prompting.expected_answer import expected_answer
from viper_lab.world.everyday.samples import PARTS, everyday_samples


@pytest.mark.parametrize("clips", [False, True])
def test_hardly_a_right_answer_is_of_another_kind_than_the_question_seems_to_ask_for(
    clips: bool,
) -> None:
    samples = [
        sample
        for part in PARTS.values()
        for sample in everyday_samples("val", 9, 60, part, clips=clips)
        if sample.box is None
    ]
    expected = [expected_answer(sample.query.text) for sample in samples]
    refused = [
        sample.query.text
        for sample, kind in zip(samples, expected, strict=True)
        if kind is not None and not kind.fits(str(sample.answer))
    ]
    assert len(samples) >= 200
    assert sum(kind is not None for kind in expected) >= 0.6 * len(samples)
    assert len(refused) <= 0.01 * len(samples), refused
