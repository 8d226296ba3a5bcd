"""viper as a solver and a sandbox of inspect_ai, and runs as its logs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest
from click.testing import CliRunner

from tests.bridges.needed import need
from tests.bridges.samples import Question, run_of, ten_questions

need("inspect_ai", "inspect_ai")

from inspect_ai import Task  # noqa: E402
from inspect_ai import eval as evaluate  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import read_eval_log  # noqa: E402
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, ModelOutput  # noqa: E402
from inspect_ai.scorer import choice, exact, includes  # noqa: E402
from inspect_ai.solver import solver  # noqa: E402
from inspect_ai.tool import python  # noqa: E402

from viper.bridges.inspect_ai import ViperSandbox, _file, viper_solver  # noqa: E402
from viper.cli import cli  # noqa: E402
from viper.errors import UsageError  # noqa: E402


def sample_of(question: Question) -> Sample:
    contents = [ContentText(text=question.text), ContentImage(image=str(question.picture))]
    letters = dict(zip(question.options, ascii_uppercase, strict=False))
    return Sample(
        id=question.name,
        input=[ChatMessageUser(content=contents)],
        choices=list(question.options) or None,
        target=letters.get(question.answer, question.answer),
    )


def logged(samples: list[Sample], scorer: Any, folder: Path) -> dict[str, float]:
    task = Task(dataset=samples, solver=viper_solver(), scorer=scorer)
    log = evaluate(task, model="mockllm/model", log_dir=str(folder), display="none")[0]
    assert log.status == "success", log.error
    values = {str(item.id): next(iter(item.scores.values())).value for item in log.samples}
    return {name: float(value == "C") for name, value in values.items()}


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Question], Path, Any]:
    folder = tmp_path_factory.mktemp("pictures")
    questions = ten_questions(folder)
    run, expected = run_of(folder)
    return folder, questions, run, expected


def test_ten_tasks_score_as_in_viper_eval(scored: Any) -> None:
    folder, questions, _, expected = scored
    with_options = [sample_of(each) for each in questions if each.options]
    without = [sample_of(each) for each in questions if not each.options]
    logs = folder / "logs"
    scores = logged(with_options, choice(), logs) | logged(without, exact(), logs)
    assert len(scores) == 10
    assert scores == {name: score for name, (score, _) in expected.items()}
    assert sum(scores.values()) > 0


def test_a_run_becomes_a_log(scored: Any) -> None:
    folder, questions, run, expected = scored
    out = folder / "run.eval"
    result = CliRunner().invoke(cli, ["report", str(run), "--inspect", str(out)])
    assert result.exit_code == 0, result.output
    log = read_eval_log(str(out))
    assert {item.id: item.scores["viper"].value for item in log.samples} == {
        name: score for name, (score, _) in expected.items()
    }
    assert log.results.scores[0].metrics["mean"].value == pytest.approx(
        sum(score for score, _ in expected.values()) / 10
    )
    assert "execute_command" in log.samples[0].metadata["program"]
    assert log.samples[0].store["viper"]["trials"]
    assert {item.input for item in log.samples} == {question.text for question in questions}


def test_the_log_has_one_of_two_endings(scored: Any) -> None:
    result = CliRunner().invoke(cli, ["report", str(scored[2]), "--inspect", "log.txt"])
    assert result.exit_code != 0
    assert "ends in .eval or .json" in str(result.exception)


def test_web_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="a web address"):
        _file("https://example.org/a.png")


def test_the_python_tool_runs_in_the_sandbox(tmp_path: Path) -> None:
    @solver
    def computing() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            answers = [await python()(code) for code in ("print(6 * 7)", "import os")]
            state.output = ModelOutput.from_content("mockllm/model", " | ".join(map(str, answers)))
            return state

        return solve

    sample = Sample(input="Compute.", target="42")
    task = Task(dataset=[sample], solver=computing(), scorer=includes(), sandbox="viper")
    log = evaluate(task, model="mockllm/model", log_dir=str(tmp_path), display="none")[0]
    assert log.status == "success", log.error
    output = log.samples[0].output.completion
    assert output.startswith("42")
    assert "not available to programs" in output


@pytest.mark.parametrize(
    ("command", "given", "code"),
    [
        (["python3", "-c", "print(1)"], None, 0),
        (["python", "-"], "print(1)", 0),
        (["python3", "a.py"], None, 0),
        (["python3", "b.py"], None, 127),
        (["cat", "/etc/passwd"], None, 127),
        (["bash", "-c", "id"], None, 127),
        (["bash", "-c", "python3 -c 'print(1)'; id"], None, 127),
        (["python3", "-c", "open('/etc/passwd')"], None, 1),
    ],
)
def test_only_python_runs(command: list[str], given: str | None, code: int) -> None:
    async def main() -> Any:
        sandbox = ViperSandbox()
        await sandbox.write_file("a.py", "print(1)")
        assert await sandbox.read_file("a.py") == "print(1)"
        result = await sandbox.exec(command, given)
        await ViperSandbox.sample_cleanup("", None, {"default": sandbox}, interrupted=False)
        return result

    result = asyncio.run(main())
    assert result.returncode == code
    assert result.stdout.strip() == ("1" if code == 0 else "")
