"""Which actions have to be produced, what is read before, and which tokens of it count."""

from __future__ import annotations

import pytest

from tests.tuning.agent.tiny import CHAT_TEMPLATES, tokenizer
from tests.tuning.agent.turns import COUNT, DONE, DOUBT, FIND, STORE, WHOLE, failed, workflow
from viper.models.llm.messages import as_text
from viper.models.llm.prompt_tokens import PromptTokens
from viper.prompting.exploring import action_text
from viper.strategies.explore.workflow import step_of
from viper.tuning.agent.masking import (
    HOLE,
    IGNORED,
    VARIANTS,
    EncodedWorkflow,
    Encoder,
    masked,
    padded,
)

MADE = workflow(WHOLE, DOUBT, failed("patches[9]"), FIND, COUNT, STORE, DONE)


@pytest.mark.parametrize(
    ("variant", "turns"),
    [("masking", [3, 4, 5, 6]), ("sft", [0, 1, 2, 3, 4, 5, 6]), ("rethink", [1, 3, 4, 5, 6])],
)
def test_what_is_masked(variant: str, turns: list[int]) -> None:
    found = list(masked(MADE, (), style="compact", variant=variant))
    assert [one.turn for one in found] == turns


def test_somebody_else_may_say_what_was_of_use() -> None:
    labels = {0: True, 4: False, 1: False}
    found = list(masked(MADE, (), style="compact", labels=labels))
    assert [one.turn for one in found] == [0, 3, 5, 6]


def test_at_random_as_many_are_masked_and_the_same_ones_again() -> None:
    first = [one.turn for one in masked(MADE, (), style="compact", variant="random", seed=1)]
    again = [one.turn for one in masked(MADE, (), style="compact", variant="random", seed=1)]
    chosen = {
        tuple(one.turn for one in masked(MADE, (), style="compact", variant="random", seed=s))
        for s in range(20)
    }
    assert first == again and len(first) == 4 and len(chosen) > 5
    assert any(0 in one for one in chosen)


def test_what_was_of_no_use_is_read_and_never_produced() -> None:
    for one in masked(MADE, (), style="compact"):
        assert "simple_query" in one.prompt and "simple_query" not in one.target
        assert "Rethink" in one.prompt and "Traceback" in one.prompt
    first = next(iter(masked(MADE, (), style="compact")))
    assert first.target == "<code>\npatches = image_patch.find('cube')\n</code>\n"
    assert "find" not in first.prompt.split("# caption")[1].replace("patches[9]", "")
    assert first.prompt.startswith("# question: how many cubes are there?\n# caption: two cubes\n")


def test_the_rest_may_be_what_comes_after_too() -> None:
    first = next(iter(masked(MADE, (), style="compact", rest="all")))
    assert "str(len(patches))" in first.prompt and first.prompt.count(HOLE) == 2
    assert "image_patch.find('cube')" not in first.prompt
    before = next(iter(masked(MADE, (), style="compact")))
    assert "str(len(patches))" not in before.prompt


def test_what_was_of_no_use_may_be_cut_from_the_context() -> None:
    texts = list(masked(MADE, (), style="compact", rest="effective"))
    assert [one.turn for one in texts] == [3, 4, 5, 6]
    assert [one.is_first for one in texts] == [True, False, False, False]
    for one in texts:
        assert not any(cut in one.prompt for cut in ("simple_query", "Rethink", "Traceback"))
    assert "find('cube')" in texts[1].prompt and "str(len(patches))" in texts[2].prompt
    assert not any(one.is_first for one in masked(MADE, (), style="compact"))
    sft = masked(MADE, (), style="compact", variant="sft")
    assert [one.turn for one in sft if one.is_first] == [0]


def test_large_models_are_asked_in_words() -> None:
    first = next(iter(masked(MADE, (), style="chat")))
    assert "## Rules" in as_text(first.prompt) and "Query: how many cubes" in as_text(first.prompt)


EFFECTIVE = [action_text(step_of(MADE.turns[n]).action) for n in (3, 4, 5, 6)]


def counted(row: EncodedWorkflow, made: object) -> list[str]:
    """The stretches of tokens that count, as text."""
    assert len(row.ids) == len(row.labels)
    stretches: list[list[int]] = [[]]
    for token, label in zip(row.ids, row.labels, strict=True):
        if label == IGNORED:
            stretches.append([])
        else:
            assert label == token
            stretches[-1].append(token)
    return [made.decode(one) for one in stretches if one]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CHAT_TEMPLATES)
def test_loss_is_on_masked_actions_alone(name: str) -> None:
    made = tokenizer(CHAT_TEMPLATES[name])
    texts = list(masked(MADE, (), style="chat"))
    rows = Encoder(made, "chat", 10_000).encoded(texts)
    assert [counted(row, made) for row in rows] == [[one] for one in EFFECTIVE]
    for row, text in zip(rows, texts, strict=True):
        pairs = zip(row.ids, row.labels, strict=True)
        read = made.decode([token for token, label in pairs if label == IGNORED])
        assert read == PromptTokens(made, "chat").wrapped(text.prompt)
        assert "simple_query" in read and "Traceback" in read


def test_a_plain_workflow_is_one_row() -> None:
    made = tokenizer()
    (row,) = Encoder(made, "plain", 10_000).encoded(masked(MADE, (), style="compact"))
    stretches = counted(row, made)
    # Where nothing stands between two actions their stretches touch.
    assert "".join(stretches) == "".join(EFFECTIVE)
    assert made.decode(row.ids).startswith("# question: how many cubes are there?\n")
    assert "simple_query" in made.decode(row.ids)


def test_rows_of_single_actions_have_the_same_loss_as_one_row() -> None:
    made = tokenizer()
    texts = list(masked(MADE, (), style="compact"))
    (joined,) = Encoder(made, "plain", 10_000).encoded(texts)
    single = [Encoder(made, "plain", 10_000).encoded([one])[0] for one in texts]
    for one in single:
        assert joined.ids[: len(one.ids)] == one.ids
        places = [n for n, label in enumerate(one.labels) if label != IGNORED]
        assert all(joined.labels[n] == one.labels[n] for n in places)
    assert sum(label != IGNORED for label in joined.labels) == sum(
        label != IGNORED for one in single for label in one.labels
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_variants_count_what_they_say(variant: str) -> None:
    made = tokenizer(CHAT_TEMPLATES["chatml"])
    texts = list(masked(MADE, (), style="chat", variant=variant))
    rows = Encoder(made, "chat", 10_000).encoded(texts)
    assert [counted(row, made) for row in rows] == [[one.target] for one in texts]


def test_workflows_do_not_run_into_one_another() -> None:
    made = tokenizer()
    two = [*masked(MADE, (), style="compact"), *masked(MADE, (), style="compact")]
    assert len(Encoder(made, "plain", 10_000).encoded(two)) == 2


def test_what_is_too_long_is_left_out() -> None:
    made = tokenizer()
    texts = list(masked(MADE, (), style="compact"))
    short = len(made.encode(texts[1].prompt + texts[1].target))
    (row,) = Encoder(made, "plain", short).encoded(texts)
    assert len(row.ids) == short


def test_padding_counts_nowhere() -> None:
    filled = padded([EncodedWorkflow((5, 6, 7), (IGNORED, 6, 7)), EncodedWorkflow((8,), (8,))], 0)
    assert filled["input_ids"] == [[5, 6, 7], [8, 0, 0]]
    assert filled["attention_mask"] == [[1, 1, 1], [1, 0, 0]]
    assert filled["labels"] == [[IGNORED, 6, 7], [8, IGNORED, IGNORED]]
