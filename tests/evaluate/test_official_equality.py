"""Our figures of NLVR, NLVR2 and NExT-QA are those of the published scripts, to the last digit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.evaluate.official import nextqa_counts, nlvr2_counts, nlvr_counts, real
from viper.data.nextqa import NEXTQA
from viper.data.nlvr import NLVR, NLVR2
from viper.data.sample import DatasetSpec
from viper.evaluate.predictions import percent, score_predictions

FILES = 20
"""Random predictions files for each real set."""

TYPES = ["CW", "CH", "TN", "TP", "TC", "DC", "DL", "DO"]
COLUMNS = "video,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4"


def nlvr_file(labels: dict[str, str], draw: random.Random) -> str:
    """Random predictions: any case, other splits, no suffix, more columns, duplicates, words."""
    skill, odd = draw.random(), draw.random() * 0.1
    lines = []
    for name, label in labels.items():
        other = "false" if label == "true" else "true"
        word = label if draw.random() < skill else other
        if draw.random() < odd:
            word = draw.choice(["", " true", "yes", "1", "truefalse", "maybe"])
        if draw.random() < odd:
            lines.append(f"dev-{name}.png,{draw.choice(['true', 'false', 'x'])}")
        split = draw.choice(["dev", "dev", "test", "images/2/dev"])
        word = draw.choice([word, word.upper(), word.title()])
        lines.append(f"{split}-{name}{draw.choice(['.png', ''])},{word}{draw.choice(['', ',0.7'])}")
    return "\n".join(lines) + draw.choice(["", "\n"])


def nextqa_file(rows: dict[str, int], draw: random.Random) -> dict[str, Any]:
    """Random predictions: any option, unknown options, texts, nothing, other notations."""
    skill, odd = draw.random(), draw.random() * 0.1
    said: dict[str, Any] = {}
    for name, answer in rows.items():
        value: Any = answer if draw.random() < skill else draw.randrange(5)
        if draw.random() < odd:
            value = draw.choice(
                [5, -1, 99, None, str(answer), "", [answer], float(answer), 0.5, True]
            )
        said[name] = {"prediction": value, "answer": answer}
    return said


def nlvr_labels(examples: str) -> dict[str, str]:
    return {
        f"{example['identifier']}-{permutation}": example["label"].lower()
        for example in map(json.loads, examples.splitlines())
        for permutation in range(6)
    }


def check_nlvr(samples: Any, examples: str, text: str, folder: Path) -> None:
    (folder / "said.csv").write_text(text)
    ours = score_predictions(samples, "nlvr", folder / "said.csv").figures.overall
    assert (ours["accuracy"].value, ours["consistency"].value) == nlvr_counts(examples, text)


def check_nextqa(samples: Any, table: str, said: dict[str, Any], folder: Path) -> None:
    (folder / "said.json").write_text(json.dumps(said))
    ours = score_predictions(samples, "nextqa", folder / "said.json").figures.overall
    official = nextqa_counts(table, said)
    for name, estimate in ours.items():
        right, asked = official.get(name, (0, 0))
        assert estimate.n == asked
        assert estimate.value == (right / asked if asked else 0.0), name
        if asked:
            assert percent(estimate) == f"{right * 100.0 / asked:.2f}"
    assert official.keys() <= ours.keys()


def test_nlvr_on_the_real_development_split(tmp_path: Path) -> None:
    root = real("nlvr")
    examples = (root / "dev" / "dev.json").read_text()
    samples, labels = NLVR.samples(DatasetSpec(root, "dev")), nlvr_labels(examples)
    assert len(samples) == len(labels) == 5934
    for seed in range(FILES):
        check_nlvr(samples, examples, nlvr_file(labels, random.Random(seed)), tmp_path)
    perfect = "\n".join(f"dev-{name}.png,{label}" for name, label in labels.items())
    check_nlvr(samples, examples, perfect, tmp_path)
    for word in ("true", "false"):
        check_nlvr(samples, examples, "\n".join(f"dev-{n}.png,{word}" for n in labels), tmp_path)


def test_nextqa_on_the_real_validation_split(tmp_path: Path) -> None:
    root = real("nextqa")
    table = (root / "val.csv").read_text()
    samples = NEXTQA.samples(DatasetSpec(root, "val"))
    answers = {sample.sample_id: sample.target for sample in samples}
    assert len(answers) == 4996
    for seed in range(FILES):
        check_nextqa(samples, table, nextqa_file(answers, random.Random(seed)), tmp_path)
    for index in range(6):
        check_nextqa(samples, table, {n: {"prediction": index} for n in answers}, tmp_path)


def test_nlvr2_on_real_lines(tmp_path: Path) -> None:
    examples = (real("nlvr2") / "dev_first300.jsonl").read_text()
    (tmp_path / "dev.json").write_text(examples)
    samples = NLVR2.samples(DatasetSpec(tmp_path, "dev"))
    for seed in range(FILES):
        draw = random.Random(seed)
        skill = draw.random()
        lines = []
        for sample in samples:
            hit = draw.random() < skill
            lines.append(f"{sample.sample_id},{sample.target if hit else not sample.target}")
        (tmp_path / "said.csv").write_text("\n".join(lines))
        ours = score_predictions(samples, "nlvr2", tmp_path / "said.csv").figures.overall
        official = nlvr2_counts(examples, "\n".join(lines))
        assert (ours["accuracy"].value, ours["consistency"].value) == official


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 3), st.sampled_from(["true", "False"])),
        min_size=1,
        max_size=12,
        unique_by=lambda example: example[:2],
    ),
    st.randoms(use_true_random=False),
)
def test_nlvr_on_small_sets(tmp_path: Path, drawn: list[Any], draw: random.Random) -> None:
    (tmp_path / "dev").mkdir(exist_ok=True)
    examples = "\n".join(
        json.dumps({"identifier": f"{n}-{m}", "sentence": "x", "label": label, "directory": "0"})
        for n, m, label in drawn
    )
    (tmp_path / "dev" / "dev.json").write_text(examples)
    samples = NLVR.samples(DatasetSpec(tmp_path, "dev"))
    check_nlvr(samples, examples, nlvr_file(nlvr_labels(examples), draw), tmp_path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 4), st.sampled_from(TYPES)),
        min_size=1,
        max_size=20,
    ),
    st.randoms(use_true_random=False),
)
def test_nextqa_on_small_sets(tmp_path: Path, drawn: list[Any], draw: random.Random) -> None:
    lines = [
        f"{video},9,9,9,why,{answer},{qid},{kind},a,b,c,d,e"
        for qid, (video, answer, kind) in enumerate(drawn)
    ]
    table = "\n".join([COLUMNS, *lines])
    (tmp_path / "val.csv").write_text(table)
    samples = NEXTQA.samples(DatasetSpec(tmp_path, "val"))
    answers = {sample.sample_id: sample.target for sample in samples}
    check_nextqa(samples, table, nextqa_file(answers, draw), tmp_path)


@pytest.mark.parametrize("asked", [177, 295, 305, 663, 683, 800, 949, 1924, 2607, 4996])
def test_percentages_round_as_the_script_rounds(asked: int) -> None:
    from viper.evaluate.intervals import proportion

    for right in range(asked + 1):
        assert percent(proportion(right, asked)) == f"{right * 100.0 / asked:.2f}"
