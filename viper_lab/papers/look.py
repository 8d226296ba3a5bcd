"""``viper lab reproduce look``: a model that looks at what its code shows, against one that cannot.

Measured on ``world-fine``. The same weights answer in every row but the last two: turn by turn with
pictures (``look``) and without (``blind``), by one program without a second look, and at once from
the whole picture or from fixed tiles of it; their training had examples of each. The last rows are
the embedded tools for whole pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viper.commands.options import open_profile
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.intervals import proportion
from viper.evaluate.sample_result import SampleResult
from viper.models.llm.messages import Picture, Prompt, messages_of, pictures_of, user
from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.reasoner import RunOptions
from viper.strategies.base import Components
from viper_lab.datasets.fine import KINDS
from viper_lab.papers.cell_runner import Cell, CellRunner
from viper_lab.papers.job import PaperJob
from viper_lab.papers.result import Claim, Gain, Reproduction, TableCell
from viper_lab.papers.tables import Results, gain_of
from viper_lab.recipes.looker_episodes import at_once, tiles_of
from viper_lab.world.fine.kinds import PLAN_DEPENDS_ON_PICTURE

TABLE = "world-fine, right answers"
# Least lead of ``look``, as the lower end of its interval.
LEAD = 0.20

_LOOK = RunOptions(strategy="look", max_turns=6)
LOOK = Cell("look", _LOOK)
BLIND = Cell("the same without pictures", _LOOK, writer="blind")
ONE_SHOT = Cell("one program", _LOOK.changed(max_turns=1))
WHOLE = Cell("at once, whole picture", _LOOK, writer="whole")
TILES = Cell("at once, tiles of 256 x 256", _LOOK, writer="tiles")
EMBEDDED_VQA = Cell("embedded VQA, whole picture", RunOptions(strategy="vqa"))
EMBEDDED_PROGRAM = Cell("embedded writer and tools", RunOptions())

RIVALS = (ONE_SHOT, WHOLE, TILES)
# Kinds that a program answers without a look.
MEASURED_ONLY = ("dots",)


class ChangedPrompts:
    """A language model whose prompts are changed before it reads them."""

    sees_pictures = True

    def __init__(self, llm: LLM, way: str) -> None:
        self._llm, self._way = llm, way
        self.model_id, self.max_context = f"{llm.model_id} ({way})", llm.max_context

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return the completions of the changed prompts."""
        return self._llm.generate([self._changed(prompt) for prompt in prompts], sampling)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the scores of the model."""
        return self._llm.score(prompt, continuations)

    def count_tokens(self, text: str) -> int:
        """Return the model's count."""
        return self._llm.count_tokens(text)

    def _changed(self, prompt: Prompt) -> Prompt:
        messages = messages_of(prompt)
        if self._way == "blind":
            return tuple(
                replace(each, parts=tuple(p for p in each.parts if not isinstance(p, Picture)))
                for each in messages
            )
        question = messages[0].text.partition("# question: ")[2].partition("\n")[0]
        pictures = [picture.pixels for picture in pictures_of(messages[:1])]
        if self._way == "tiles":
            pictures = [tile for pixels in pictures for tile in tiles_of(pixels)]
        return (user(*(Picture(pixels) for pixels in pictures), at_once(question)),)


@dataclass(frozen=True)
class FinePart:
    """All kinds of queries of a split."""

    split: str
    name: str = "all"

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        return Evaluation("world-fine", DatasetSpec(None, self.split, seed), limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return replace(self, split="train").evaluation(seed, limit)

    def equipped(self, components: Components, seed: int) -> Components:
        return components


@dataclass
class LookStudy:
    """The rows, and what they come to."""

    part: FinePart
    quick: bool

    def cells(self) -> list[tuple[Cell, FinePart]]:
        """Return every cell with its part, once."""
        rows = (LOOK, BLIND, *RIVALS, EMBEDDED_VQA, EMBEDDED_PROGRAM)
        return [(cell, self.part) for cell in rows]

    def reproduce(self, runner: CellRunner) -> Reproduction:
        """Answer everything that is not stored yet, and judge it."""
        results = Results(self.quick)
        by_cell = {cell.name: runner.all_results(cell, self.part) for cell, _ in self.cells()}
        for name, rows in by_cell.items():
            for kind in ("all", *KINDS):
                own = [row.score for row in rows if kind in ("all", _kind(row))]
                results.rows.append(TableCell.of_scores(TABLE, name, kind, [own]))
        looked = by_cell[LOOK.name]
        best = max(RIVALS, key=lambda cell: sum(row.score for row in by_cell[cell.name]))
        lead = gain_of(by_cell[best.name], looked, TABLE, f"{best.name} -> look", "all")
        seeing = self._seeing(by_cell, PLAN_DEPENDS_ON_PICTURE)
        measured = self._seeing(by_cell, MEASURED_ONLY)
        results.gains += [lead, seeing, measured]
        right = proportion(round(sum(row.score for row in looked)), len(looked))
        claims = [
            Claim.of_share("look answers 70 % rightly", right, 0.7),
            Claim.of_gain(f"look leads the best rival ({best.name}) by 20 points", lead, LEAD),
            Claim.of_gain("seeing gains where the plan depends on the picture", seeing),
            Claim.of_gain(
                "seeing loses at most 1 point where a measurement is enough", measured,
                holds=measured.difference.value >= -0.01,
            ),
        ]  # fmt: skip
        return results.judged(
            "Look and code: world-fine", claims, runner.model_ids(), runner.scale.seeds
        )

    def _seeing(self, by_cell: Mapping[str, Sequence[SampleResult]], kinds: Sequence[str]) -> Gain:
        blind, seeing = (
            [row for row in by_cell[cell.name] if _kind(row) in kinds] for cell in (BLIND, LOOK)
        )
        return gain_of(blind, seeing, TABLE, "blind -> look", " and ".join(kinds))


def _kind(row: SampleResult) -> str:
    return row.sample_id.split("-")[2]


@dataclass(frozen=True)
class LookJob(PaperJob):
    """``viper lab reproduce look``."""

    def __post_init__(self) -> None:
        if self.options.set_name != "world-fine":
            raise UsageError(
                f"--data is {self.options.set_name}; this reproduction draws world-fine alone"
            )

    def writers(self) -> Mapping[str, Components]:
        """Return the profile's models, and the same with changed prompts.

        Raises:
            UsageError: the profile has no table ``[looker]``.
        """
        main = open_profile(self.options.profile).components()
        looker = main.model("looker")
        if looker is None:
            raise UsageError(
                f"the profile {main.profile_name} has no table [looker]; give one that has, as "
                "embedded"
            )
        ways = ("blind", "whole", "tiles")
        changed = {way: main.with_models(looker=ChangedPrompts(looker[0], way)) for way in ways}
        return {"main": main, **changed}

    def study(self, runner: CellRunner) -> LookStudy:
        """Return the rows on the split."""
        return LookStudy(FinePart(self.options.split or "test"), self.options.quick)
