"""``world-fine``: samples, their plans on the real tools, wordings, and the data set."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image
from transformers import AutoProcessor

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.embedded import WEIGHTS
from viper.models.llm.messages import pictures_of
from viper.models.llm.prompt_tokens import ChatTemplate
from viper.models.media import media_from
from viper.prompting.exploring import read_action
from viper.tools.session import SHOW
from viper_lab.datasets import fine
from viper_lab.recipes.looker_data import encoded
from viper_lab.recipes.looker_episodes import (
    SHARES,
    Mode,
    conversation,
    episode,
    namespace_of,
    tiles_of,
    toolbox,
)
from viper_lab.recipes.looker_model import END
from viper_lab.world.fine.canvas import HEIGHT, WIDTH
from viper_lab.world.fine.kinds import DONE, FACTS, KINDS, WORDINGS, FineSample, fine_sample, said

SAMPLES = [fine_sample("val", 1, index) for index in range(2 * len(KINDS))]
IDS = [f"{number}-{one.kind}" for number, one in enumerate(SAMPLES)]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_plan_reaches_the_answer(sample: FineSample) -> None:
    media = media_from(list(sample.pictures))
    session = toolbox().session(media)
    names = namespace_of(session, media)
    for reply in sample.plan[:-1]:
        action = read_action(reply)
        assert action is not None and action.kind == "code"
        exec(action.text, names)
    shown = [call for call in session.calls if call.tool == SHOW]
    assert len(shown) == len(sample.facts)
    if sample.plan[-1] == DONE:
        assert names["final_answer"] == sample.answer
    else:
        assert sample.plan[-1] == said(sample.answer) and shown


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_pictures_and_facts(sample: FineSample) -> None:
    assert all(one.shape == (HEIGHT, WIDTH, 3) and one.dtype == np.uint8 for one in sample.pictures)
    assert len(sample.pictures) == (2 if sample.kind == "pair" else 1)
    for facts in sample.facts:
        assert facts and all(0 <= number < FACTS[name] for name, number in facts.items())


def test_the_same_arguments_give_the_same_sample() -> None:
    first, again = (fine_sample("val", 2, 4) for _ in range(2))
    assert first.question == again.question and first.plan == again.plan
    assert (first.pictures[0] == again.pictures[0]).all()
    assert (
        first.answer != fine_sample("val", 3, 4).answer
        or first.plan != fine_sample("val", 3, 4).plan
    )


def plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z{}]+", text.lower()))


@pytest.mark.parametrize("kind", KINDS)
def test_no_wording_is_in_two_splits(kind: str) -> None:
    by_split = {split: [plain(text) for text in WORDINGS[split][kind]] for split in WORDINGS}
    assert set(by_split) == {"train", "val", "test"}
    assert len(by_split["train"]) >= 70 and len(by_split["test"]) >= 10
    everything = [text for texts in by_split.values() for text in texts]
    assert len(set(everything)) == len(everything)
    assert len({"{color}" in text for text in everything}) == 1


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_question_is_in_a_wording_of_its_split(split: str) -> None:
    for index in range(len(KINDS)):
        sample = fine_sample(split, 1, index)
        texts = [
            re.escape(text).replace(r"\{color\}", r"\w+") for text in WORDINGS[split][sample.kind]
        ]
        assert any(re.fullmatch(text, sample.question) for text in texts)


def test_the_data_set_draws_kinds_in_turn_and_by_id() -> None:
    assert tuple(KINDS) == fine.KINDS
    world = data_set("world-fine")
    samples = world.samples(DatasetSpec(None, "val", 0, 9))
    assert [one.groups["kind"] for one in samples] == [*KINDS, *list(KINDS)[:2]]
    assert samples[8].sample_id == "val-0-sign-1" and samples[4].media == "images"
    (same,) = world.samples(DatasetSpec(None, "val:sign", 0, 2))[1:]
    assert (same.sample_id, same.text, same.target) == (
        samples[8].sample_id, samples[8].text, samples[8].target,
    )  # fmt: skip
    found = world.by_id(DatasetSpec(None), ["val-0-sign-1", "val-0-none-1", "x"])  # type: ignore[attr-defined]
    assert (
        set(found) <= {"val-0-sign-0", "val-0-sign-1"}
        and found["val-0-sign-1"].text == samples[8].text
    )


def test_modes_of_an_episode() -> None:
    sample = SAMPLES[1]
    looked, blind = (conversation(sample, mode, 6) for mode in ("look", "blind"))  # type: ignore[arg-type]
    assert len(pictures_of(looked)) == 1 + len(sample.facts) and not pictures_of(blind)
    assert [m.role for m in looked] == [m.role for m in blind]
    whole, tiled = (conversation(sample, mode, 6) for mode in ("whole", "tiles"))  # type: ignore[arg-type]
    assert (len(pictures_of(whole)), len(pictures_of(tiled))) == (1, 12)
    assert whole[-1].text == said(sample.answer)
    assert np.concatenate(tiles_of(sample.pictures[0])).size == sample.pictures[0].size
    assert sum(SHARES.values()) == pytest.approx(1)


def test_an_episode_has_a_fact_entry_for_each_picture() -> None:
    for index in range(14):
        messages, facts = episode("train", 4, index)
        assert len(facts) == len(pictures_of(messages)) and messages[-1].role == "assistant"


@pytest.mark.parametrize("mode", ["look", "blind", "one_shot", "whole"])
def test_training_reads_the_tokens_that_the_model_gets(mode: Mode) -> None:
    processor = AutoProcessor.from_pretrained(WEIGHTS / "looker")
    template = ChatTemplate(processor, processor.tokenizer, None, takes_parts=True)
    messages = conversation(SAMPLES[1], mode, 6)
    tokens = encoded(messages, processor).tokens.tolist()
    for at, message in enumerate(messages):
        if message.role == "assistant":
            pictures = [Image.fromarray(each.pixels) for each in pictures_of(messages[:at])]
            given = {"images": pictures} if pictures else {}
            text = template.render(messages[:at])
            inputs = processor(text=[text], add_special_tokens=False, return_tensors="np", **given)
            prompt = inputs["input_ids"][0].tolist()
            assert tokens[: len(prompt)] == prompt
            reply = processor.tokenizer.encode(message.text + END, add_special_tokens=False)
            assert tokens[len(prompt) :][: len(reply)] == reply
    assert len(tokens) == len(prompt) + len(reply)
