"""The official figures of GQA, OK-VQA and InfoSeek equal a restatement, on answers that differ.

Every case is a prediction that our headline and the official definition may judge differently:
capitals, articles, number words, truth values, punctuation, contractions.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.evaluate import official
from tests.evaluate.run_samples import a_row, failed_row
from viper.data.gqa import GQA
from viper.data.infoseek import INFOSEEK
from viper.data.okvqa import OKVQA
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError, UsageError
from viper.evaluate.metrics import metric
from viper.evaluate.predictions import ScoredPredictions, predictions_text, score_predictions
from viper.evaluate.sample_result import Prediction

ANSWERS = (
    *("yes", "no", "dog", "cat", "t-shirt", "fire truck", "2", "left", "can't", "girl's bag"),
    *("2:50 pm", "1000", "3.5", "somebody'd", "traffic light", "none"),
)


def variants(answer: str) -> Iterator[str]:
    """Other ways to say it, and answers that are wrong in all of them."""
    yield answer
    yield from (answer.title(), answer.upper(), f"{answer}.", f"{answer}!", f'"{answer}"')
    yield from (f"the {answer}", f"a {answer}", f"An {answer}", f" {answer}", f"{answer}\n")
    yield from (answer.replace("'", ""), answer.replace("-", " "), answer.replace(" ", "_"))
    yield from (f"{answer}, {answer}", f"{answer}/{answer}", f"not {answer}", f"{answer}s")
    yield from {"yes": ("True", "true"), "no": ("false", "None"), "2": ("two", "Two", "2.0")}.get(
        answer, ("zero", "0")
    )
    yield from {"1000": ("1,000", "1,000 -"), "3.5": ("3.5.", "3 .5")}.get(answer, ("...",))


PAIRS = [(answer, said) for answer in ANSWERS for said in dict.fromkeys(variants(answer))]


def leaning(scored: ScoredPredictions, detail: str) -> Counter[str]:
    """How many samples our headline scores higher than the official figure, and lower."""
    sides: Counter[str] = Counter()
    for row in scored.rows:
        difference = row.score - row.details.get(detail, 0.0)
        sides["higher" if difference > 0 else "lower" if difference < 0 else "same"] += 1
    return sides


def test_gqa_is_compared_by_string_in_its_own_file(tmp_path: Path) -> None:
    types = {"structural": "query", "semantic": "attr", "detailed": "color"}
    questions = {
        str(number): {"question": "what?", "imageId": "1", "answer": answer, "types": types}
        for number, (answer, _) in enumerate(PAIRS)
    }
    (tmp_path / "testdev_balanced_questions.json").write_text(json.dumps(questions))
    samples = GQA.samples(DatasetSpec(tmp_path, "testdev_balanced"))
    entries = [{"questionId": str(n), "prediction": said} for n, (_, said) in enumerate(PAIRS)]
    path = tmp_path / "testdev_predictions.json"
    path.write_text(json.dumps([{"questionId": "3", "prediction": "replaced"}, *entries]))
    scored = score_predictions(samples, "gqa", path)
    exact = scored.figures.overall["exact"]
    hits, asked = official.gqa_count(questions, path.read_text())
    assert (round(exact.value * exact.n), exact.n) == (hits, asked) and asked >= 200
    assert scored.duplicates == 1 and scored.figures.headline == "accuracy"
    sides = leaning(scored, "exact")
    assert sides["higher"] > 100 and not sides["lower"]


def okvqa_cases() -> list[tuple[list[str], str]]:
    """Ten annotators each, who agree, differ in spelling, or differ; and what is predicted."""
    draw, cases = random.Random(0), []
    for answer, said in PAIRS:
        ways = [answer, *draw.sample(list(variants(answer)), 3), said]
        others = [draw.choice([*ways, draw.choice(ANSWERS)]) for _ in range(10)]
        for annotators in ([answer] * 10, [said] * 10, [said] * 2 + [answer] * 8, others):
            cases.append((["x" if not each.strip() else each.strip() for each in annotators], said))
    return cases


def test_okvqa_has_the_accuracy_of_the_vqa_challenge(tmp_path: Path) -> None:
    cases = okvqa_cases()
    questions = [{"question_id": n, "image_id": 1, "question": "what?"} for n in range(len(cases))]
    annotations = [
        {"question_id": n, "answers": [{"answer": each} for each in answers]}
        for n, (answers, _) in enumerate(cases)
    ]
    for name, key, value in (
        ("OpenEnded_mscoco_val2014_questions.json", "questions", questions),
        ("mscoco_val2014_annotations.json", "annotations", annotations),
    ):
        (tmp_path / name).write_text(json.dumps({key: value}))
    samples = OKVQA.samples(DatasetSpec(tmp_path, "val2014"))
    path = tmp_path / "results.json"
    path.write_text(
        json.dumps([{"question_id": n, "answer": said} for n, (_, said) in enumerate(cases)])
    )
    scored = score_predictions(samples, "okvqa", path)
    expected = [official.vqa_accuracy(said, answers) for answers, said in cases]
    assert len(cases) >= 200
    for row, accuracy in zip(scored.rows, expected, strict=True):
        assert row.failure or row.details["official_soft_accuracy"] == pytest.approx(
            float(accuracy)
        ), row
    mean = float(sum(expected) / len(expected))
    assert scored.figures.overall["official_soft_accuracy"].value == pytest.approx(mean)
    sides = leaning(scored, "official_soft_accuracy")
    blank = sum(not official.vqa_form(said) and accuracy > 0
                for (_, said), accuracy in zip(cases, expected, strict=True))  # fmt: skip
    # only an annotation of nothing but punctuation scores more there
    assert sides["higher"] > 200 and sides["lower"] == blank


@pytest.mark.parametrize(
    ("said", "answers", "ours", "theirs"),
    [
        ("cat", ["a cat"] * 10, 1.0, 0.0),  # articles of annotations stay
        ("a cat", ["cat"] * 10, 1.0, 1.0),
        ("two", ["two"] * 10, 1.0, 0.0),  # number words, too
        ("t-shirt", ["t-shirt"] * 10, 1.0, 0.0),  # and punctuation, where all agree
        ("t-shirt", ["t-shirt"] * 9 + ["shirt"], 1.0, 1.0),
        ("Dont", ["dont"] * 9 + ["no"], 1.0, 0.0),
        ("cat" + "." * 33, ["cat"] * 10, 0.0, 0.0),
    ],
)
def test_what_only_one_side_of_okvqa_loses(
    said: str, answers: Sequence[str], ours: float, theirs: float
) -> None:
    one = Sample("s", "?", "question", "image", tuple(answers), load=list)
    score = metric("okvqa").score(one, Prediction(said))
    assert (score.value, score.details["official_soft_accuracy"]) == (ours, theirs)
    assert float(official.vqa_accuracy(said, answers)) == theirs


RANGES = ((0.9, 1.1), (90.0, 110.0), (-5.0, 5.0), (1800.0, 2200.0), (7.0, 7.0))


def numbers(low: float, high: float) -> Iterator[str]:
    middle = (low + high) / 2
    yield from (
        f"{middle:g}",
        f"about {middle:,g} m",
        f"{low}",
        f"{high}",
        f"{high + 1}",
        f"{-low}",
    )
    yield from (f"{low}-{high}", f"{low} to {high}", f"{high}-{low}", f"{low - 1}-{high}")
    yield from (f"{middle}-{high + (high - low)}", f"{low} {middle} {high}", "none", f"{middle}.")
    yield from (f"{middle:e}", f"+{middle}", f"{low - 9}-{high + 9}", "many", "ten")


def infoseek_cases() -> list[tuple[dict[str, Any], str]]:
    cases: list[tuple[dict[str, Any], str]] = []
    for answer, said in PAIRS:
        kind = "Time" if answer[0].isdigit() else "String"
        accepted = [answer.title(), f"The {answer}"]
        cases.append(({"question_type": kind, "answer_eval": accepted}, said))
    for low, high in RANGES:
        target = [{"wikidata": low, "range": [low, high]}]
        cases += [
            ({"question_type": "Numerical", "answer_eval": target}, said)
            for said in numbers(low, high)
        ]
    return cases


def test_infoseek_is_scored_as_its_script_and_by_vqa_accuracy(tmp_path: Path) -> None:
    cases = infoseek_cases()
    parts = ("unseen_question", "unseen_entity")
    lines = [
        {"data_id": f"q{n}", "image_id": "oven_00000001", "question": "?", "answer": ["x"],
         "answer_eval": question["answer_eval"], "data_split": f"val_{parts[n % 2]}"}
        for n, (question, _) in enumerate(cases)
    ]  # fmt: skip
    kinds = [
        {"data_id": f"q{n}", "question_type": question["question_type"]}
        for n, (question, _) in enumerate(cases)
    ]
    said = [{"data_id": f"q{n}", "prediction": each} for n, (_, each) in enumerate(cases)]
    for name, rows in (("infoseek_val", lines), ("infoseek_val_qtype", kinds), ("said", said)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    samples = INFOSEEK.samples(DatasetSpec(tmp_path, "val"))
    scored = score_predictions(samples, "infoseek", tmp_path / "said.jsonl")
    hits = [official.infoseek_hit(each, question) for question, each in cases]
    assert len(cases) >= 200
    for row, (question, each), hit in zip(scored.rows, cases, hits, strict=True):
        assert bool(row.score) is hit, (question, each)
        assert bool(row.details["vqa_accuracy"]) is official.infoseek_vqa_hit(each, question), (
            question, each,
        )  # fmt: skip
    shares = [sum(hits[part::2]) / len(hits[part::2]) for part in (0, 1)]
    figures = scored.figures.overall
    assert figures["accuracy"].value == pytest.approx(sum(hits) / len(hits))
    assert figures["final"].value == pytest.approx(2 / (1 / shares[0] + 1 / shares[1]))
    sides = leaning(scored, "vqa_accuracy")
    assert sides["higher"] and sides["lower"]  # neither form is the more lenient one


def test_the_figures_of_older_stored_results_are_left_out() -> None:
    rows = [a_row(0, details={}), failed_row(1)]
    for name, figure in (
        ("gqa", "exact"),
        ("okvqa", "official_soft_accuracy"),
        ("infoseek", "vqa_accuracy"),
    ):
        assert figure not in metric(name).figures(rows).overall
        assert figure in metric(name).figures([failed_row(1)]).overall


@pytest.mark.parametrize("name", ["gqa", "okvqa", "infoseek"])
def test_an_official_file_that_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    rows = [a_row(n, sample_id=str(n)) for n in range(4)] + [failed_row(4, sample_id="4")]
    path = tmp_path / "said.json"
    path.write_text(predictions_text(name, rows))
    samples = [Sample(str(n), "?", "question", "image", ("red",), list) for n in range(5)]
    scored = score_predictions(samples, name, path)
    assert [row.prediction and row.prediction.value for row in scored.rows] == [
        *("red", "blue", "red", "blue", None)
    ]
    first = json.loads(path.read_text().splitlines()[0])
    assert (first if name == "infoseek" else first[0]) == {
        "gqa": {"questionId": "0", "prediction": "red"},
        "okvqa": {"question_id": 0, "answer": "red"},
        "infoseek": {"data_id": "0", "prediction": "red"},
    }[name]


def test_odd_official_files_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "said.json"
    sample = Sample("1", "?", "question", "image", "red", list)
    for text, says in (
        ("[1]", r"said.json\[0\]: 1"),
        ('[{"questionId": "1"}]', "neither 'box' nor 'prediction'"),
        ('[{"questionId": null, "prediction": "x"}]', "'questionId' is None"),
        ('[{"questionId": "1", "prediction": "x"}', "cut short"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=says) as caught:
            score_predictions([sample], "gqa", path)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="known: gqa, okvqa, infoseek"):
        predictions_text("nlvr", [])
