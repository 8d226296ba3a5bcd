"""A small study of questions about gray pictures: fake models, real sandbox, real stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.evaluate.fake_backends import a_set
from viper.data.sample import DatasetSpec
from viper.evaluate.evaluation import Evaluation
from viper.profiles import load_profile
from viper.schema import to_json
from viper.strategies.base import Components
from viper_lab.papers.cell_runner import CellRunner, Scale, StoredRun


@dataclass(frozen=True)
class FilePart:
    """Asks one file and mines from another, which may be the same."""

    ask: str
    mine: str
    name: str = "question"

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        return Evaluation(self.ask, DatasetSpec(None, "all", seed), limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return Evaluation(self.mine, DatasetSpec(None, "all", seed), limit, (seed,))

    def equipped(self, components: Components, seed: int) -> Components:
        return components


class Noted:
    """Is told what a runner answers, and remembers.

    Attributes:
        steps: those that ended, in their order.
        counts: new answers of each of them.
    """

    def __init__(self) -> None:
        self._answers: Counter[StoredRun] = Counter()
        self.steps: list[StoredRun] = []

    @property
    def answers(self) -> int:
        return self._answers.total()

    @property
    def counts(self) -> list[int]:
        return [self._answers[step] for step in self.steps]

    def __call__(self, step: StoredRun, mean: float | None) -> None:
        if mean is None:
            self._answers[step] += 1
        else:
            self.steps.append(step)


class Questions:
    """Two files of questions, and a writer that notes what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ask, profile = a_set(folder / "ask", 8)
        mine, _ = a_set(folder / "mine", 8)
        self.part = FilePart(str(ask), str(mine))
        self.notes = folder / "notes.txt"
        text = profile.read_text().replace(
            "tests.evaluate.fake_backends:Writer", "tests.commands.ace_backends:NotingWriter"
        )
        profile.write_text(text.replace('model = "writer"', f'model = "{self.notes}"'))
        self.profile = str(profile)

    def set_temperature(self, value: float) -> None:
        """Let the profile write programs at this temperature."""
        profile = Path(self.profile)
        profile.write_text(
            profile.read_text().replace("[run]\n", f"[run]\ntemperature = {value}\n")
        )

    @contextmanager
    def runner(
        self, samples: int = 3, pool: int = 4, seeds: tuple[int, ...] = (0,)
    ) -> Iterator[CellRunner]:
        profile = load_profile(self.profile)
        components = profile.components()
        document = to_json(profile.document)
        runner = CellRunner(
            {"main": components}, document, self.folder / "out", Scale(samples, seeds, pool)
        )
        try:
            yield runner
        finally:
            runner.close()
            components.close()

    def written(self) -> int:
        """Prompts that the writer was given so far."""
        return len(self.notes.read_text().splitlines()) if self.notes.exists() else 0
