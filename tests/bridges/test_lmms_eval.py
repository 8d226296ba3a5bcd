"""viper as a model of lmms-eval."""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest

from tests.bridges.needed import need
from tests.bridges.samples import Question, run_of, ten_questions

need("lmms_eval", "lmms-eval")

from datasets import Dataset, Image  # noqa: E402
from lmms_eval import evaluator  # noqa: E402
from lmms_eval.tasks import TaskManager  # noqa: E402

from viper.bridges.lmms_eval import Viper, parsed  # noqa: E402
from viper.errors import UsageError  # noqa: E402

TASK = """
task: drawn_pictures
dataset_path: parquet
dataset_kwargs:
  data_files: {{test: {table}}}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.pictures
doc_to_text: !function utils.prompt
doc_to_target: "answer"
generation_kwargs: {{max_new_tokens: 16}}
process_results: !function utils.results
metric_list:
  - metric: right
    aggregation: mean
    higher_is_better: true
"""
UTILS = """
def pictures(doc):
    return [doc["picture"].convert("RGB")]

def prompt(doc, lmms_eval_specific_kwargs=None):
    lines = [doc["question"], *doc["options"]]
    lines.append("Answer with the option's letter from the given choices directly."
                 if doc["options"] else "Answer the question using a single word or phrase.")
    return "\\n".join(lines)

def results(doc, responses):
    return {"right": float(responses[0].strip().lower() == doc["answer"].lower())}
"""


def lettered(question: Question) -> dict[str, Any]:
    """Return a question as a document of lmms-eval, whose answers are letters of options."""
    letters = dict(zip(question.options, ascii_uppercase, strict=False))
    return {
        "name": question.name,
        "picture": str(question.picture),
        "question": question.text,
        "options": [f"{letter}. {option}" for option, letter in letters.items()],
        "answer": letters.get(question.answer, question.answer),
    }


def test_ten_tasks_score_as_in_viper_eval(tmp_path: Path) -> None:
    questions = ten_questions(tmp_path)
    _, expected = run_of(tmp_path)
    table = tmp_path / "table.parquet"
    documents = [lettered(question) for question in questions]
    Dataset.from_list(documents).cast_column("picture", Image()).to_parquet(str(table))
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "drawn.yaml").write_text(TASK.format(table=table))
    (folder / "utils.py").write_text(UTILS)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    report = evaluator.simple_evaluate(
        model="viper", model_args="profile=embedded,workers=2", tasks=["drawn_pictures"],
        task_manager=manager, log_samples=True,
    )  # fmt: skip
    samples = report["samples"]["drawn_pictures"]
    assert len(samples) == 10
    scores = {documents[item["doc_id"]]["name"]: item["right"] for item in samples}
    assert scores == {name: score for name, (score, _) in expected.items()}
    assert sum(scores.values()) > 0


def test_options_and_instructions_are_read_out_of_a_prompt() -> None:
    prompt = "<image>\nWhat is it?\nA. a cup\n(B) a ball\nAnswer with the option's letter."
    assert parsed(prompt) == ("What is it?", {"A": "a cup", "B": "a ball"})
    assert parsed("Where is\nit?\nAnswer the question using a single word.") == ("Where is it?", {})


def test_tasks_by_likelihood_are_refused() -> None:
    model = Viper()
    with pytest.raises(UsageError, match="no likelihood"):
        model.loglikelihood([])
    model.clean()
