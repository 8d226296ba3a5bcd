"""viper as a solver and a sandbox of inspect_ai, and runs as its logs.

``Task(dataset, solver=viper_solver(profile="embedded"), scorer=match())``;
``inspect eval task.py --sandbox viper`` runs the model's Python in viper's sandbox.

Source: inspect_ai 0.3.285, ``Solver``, ``SandboxEnvironment`` and ``EvalLog``.
"""

from __future__ import annotations

import asyncio
import shlex
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import log as logs
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import ExecResult, SandboxEnvironment, sandboxenv

from viper.errors import UsageError
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.models.media import media_from
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper.record import result_record
from viper.sandbox import Sandbox, describe_failure

_PYTHON = ("python", "python3")
_NOT_PYTHON = "viper: this sandbox runs Python programs only, as python -c, python - or python FILE"


@solver
def viper_solver(profile: str = "embedded", **settings: Any) -> Solver:
    """Answer samples by programs; the state's model is not asked.

    The pictures of the sample are its image contents, as paths or ``data:`` URLs. ``choices``
    become the options of the query. The whole trace goes to the store under ``viper``.

    Args:
        profile: name or file of a profile.
        settings: settings of a run, such as ``trials=2`` or ``strategy="plan"``.
    """
    reasoner = Reasoner(load_profile(profile))

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        options = tuple(choice.value for choice in state.choices)
        result = await reasoner.arun(
            _media(state),
            state.input_text,
            options=options,
            task="choice" if options else "auto",
            **settings,
        )
        answer = result.answer
        text = "" if answer is None or answer.value is None else str(answer.value)
        for index in range(len(options)):
            state.choices.mark_choice(index, answer is not None and answer.choice_index == index)
        if options and answer is not None and answer.choice_index is not None:
            text = f"ANSWER: {chr(ord('A') + answer.choice_index)}"
        state.output = ModelOutput.from_content(f"viper/{profile}", text)
        state.messages.append(state.output.message)
        state.store.set("viper", result_record(result.trace))
        return state

    return solve


def _media(state: TaskState) -> Any:
    """Return the pictures of a sample, or its only file, which may be a video.

    Raises:
        UsageError: there is none, or one is a web address.
    """
    contents = [m.content for m in state.messages if m.role == "user"]
    parts = [part for content in contents if not isinstance(content, str) for part in content]
    files = [_file(part.image) for part in parts if part.type == "image"]
    if not files:
        raise UsageError(f"sample {state.sample_id}: no image content; viper looks at pictures")
    return files[0] if len(files) == 1 else [media_from(file).images[0] for file in files]


def _file(address: str) -> str | bytes:
    """Return the path, or the content of a ``data:`` URL."""
    if address.startswith("data:"):
        return b64decode(address.partition(",")[2])
    if "://" in address:
        raise UsageError(f"{address[:80]}: a web address; give a file or a data: URL")
    return address


@sandboxenv(name="viper")
class ViperSandbox(SandboxEnvironment):
    """Sandbox that runs Python programs and nothing else; files are kept in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}
        self._sandbox = Sandbox()

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Start the environment of a sample."""
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """End the processes of a sample."""
        for environment in environments.values():
            environment.as_type(ViperSandbox)._sandbox.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a Python program; any other command fails with exit code 127."""
        program = self._program(cmd, input)
        if program is None:
            return ExecResult(False, 127, "", _NOT_PYTHON)
        work = asyncio.to_thread(self._sandbox.run, program)
        outcome = await asyncio.wait_for(work, timeout)
        if outcome.failure is None:
            return ExecResult(True, 0, outcome.stdout, "")
        return ExecResult(False, 1, outcome.stdout, describe_failure(outcome.failure))

    def _program(self, cmd: Sequence[str], given: str | bytes | None) -> str | None:
        """Return the program that a command runs; None for other commands."""
        if Path(cmd[0]).name in ("bash", "sh") and len(cmd) > 1:
            cmd = shlex.split(cmd[-1])
        if not cmd or Path(cmd[0]).name not in _PYTHON:
            return None
        if len(cmd) == 3 and cmd[1] == "-c":
            return cmd[2]
        if len(cmd) == 1 or cmd[1:] == ["-"]:
            return given.decode() if isinstance(given, bytes) else given or ""
        content = self._files.get(cmd[1]) if len(cmd) == 2 else None
        return None if content is None else content.decode("utf-8", "replace")

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Keep a file for ``python FILE`` and :meth:`read_file`."""
        self._files[file] = contents.encode() if isinstance(contents, str) else contents

    async def read_file(self, file: str, text: bool = True) -> Any:
        """Return a file that was written.

        Raises:
            FileNotFoundError: there is none of that name.
        """
        if file not in self._files:
            raise FileNotFoundError(file)
        content = self._files[file]
        return content.decode() if text else content


def write_log(run: Path, out: Path) -> None:
    """Write a run that ``viper eval`` stored as a log that ``inspect view`` opens.

    Raises:
        UsageError: the folder holds no run, or the name of the log has another ending.
    """
    if out.suffix not in (".eval", ".json"):
        raise UsageError(f"{out}: a log of inspect_ai ends in .eval or .json")
    with RunStore.read(run) as store:
        manifest = store.manifest
        samples = [_sample(store, row) for row in store.rows()]
    mean = sum(sample.scores["viper"].value for sample in samples) / max(1, len(samples))
    metrics = {"mean": logs.EvalMetric(name="mean", value=mean)}
    log = logs.EvalLog(
        status="success",
        eval=logs.EvalSpec(
            created=manifest.created,
            task=manifest.set.name,
            dataset=logs.EvalDataset(name=manifest.set.name, samples=len(samples)),
            model=f"viper/{manifest.profile}",
            config=logs.EvalConfig(),
        ),
        results=logs.EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=[logs.EvalScore(name="viper", scorer="viper", metrics=metrics)],
        ),
        samples=samples,
    )
    logs.write_eval_log(log, str(out))


def _sample(store: RunStore, row: SampleResult) -> logs.EvalSample:
    """Return a row with its trace as a sample; a failed sample scores 0 and says why."""
    prediction = row.prediction
    value = "" if prediction is None else str(prediction.value or prediction.box or "")
    return logs.EvalSample(
        id=row.sample_id,
        epoch=row.seed + 1,
        input=row.text,
        choices=list(row.options) or None,
        target=str(row.target),
        output=ModelOutput.from_content("viper", value),
        scores={"viper": Score(value=row.score, answer=value, explanation=row.message)},
        metadata={"program": row.program, "failure": row.failure, **row.groups},
        store={"viper": store.trace(row.sample_id, row.seed)},
    )
