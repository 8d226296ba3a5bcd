"""``viper lab reproduce nlvr``: three ways to get programs for NLVR, measured from pixels.

a. the embedded writer of everyday English, zero-shot and with mined examples; b. a writer that was
trained on sentences of a grammar; c. the same after self-training on labels. Two-fold: whatever a
half of the sentences gave (examples, rules, lessons) is measured on the other half.

Source: Suhr et al., ACL 2017. The domain is a profile outside of this package.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from viper.commands.options import open_profile
from viper.commands.terminal import status
from viper.data.layout import root_of
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import UsageError
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.intervals import Estimate, OverSeeds, proportion
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import SampleResult
from viper.models.media import media_from
from viper.models.vision.roles import Detection, Detector, Pixels
from viper.profiles.document import WRITER
from viper.profiles.files import whole_api
from viper.profiles.wiring import Profile
from viper.reasoner import RunOptions
from viper.strategies.base import Components
from viper_lab.papers.cell_runner import Cell, CellRunner, Mining
from viper_lab.papers.job import PaperJob
from viper_lab.papers.result import Claim, Gain, Reproduction, TableCell, in_percent
from viper_lab.papers.tables import Results, gain_of

PROFILE = Path("examples/nlvr/profile.toml")
TABLE = "accuracy and consistency"
HALVES = (1, 2)

COLORS = {"Yellow": "yellow", "Black": "black", "#0099ff": "blue"}
SIZES = {10: "small", 20: "medium", 30: "big"}
WORDS = (*COLORS.values(), *SIZES.values(), "square", "circle", "triangle", "item")
# Distance in pixels between the left walls of two boxes.
BOX_APART = 150

# Words of the kinds of sentence; the first kind that has one of them counts.
KINDS: Mapping[str, tuple[str, ...]] = {
    "towers": ("tower", "block", "base", "top"),
    "walls": ("wall", "edge", "corner", "side", "touch"),
}

# Accuracies of others as their papers or abstracts give them, on other splits.
PUBLISHED = (
    ("from pixels: CMM", 0.70, "about; Yao et al. 2018"),
    ("from pixels: GPT-4V zero-shot, a tuned 9B model", 0.60, "about; Wu et al. 2024"),
    ("from the scene's structure, 12,000 training examples", 0.895, "82.5 to 89.5 by system"),
)


def half_of(sentence: str) -> int:
    """Return the half, 1 or 2, of a sentence; the domain's grammar uses the same."""
    return zlib.crc32(sentence.strip().lower().encode()) % 2 + 1


def kind_of(sentence: str) -> str:
    """Return the kind of a sentence, see :data:`KINDS`; else ``other``."""
    words = sentence.lower()
    return next((kind for kind, own in KINDS.items() if any(w in words for w in own)), "other")


@dataclass(frozen=True)
class HalfPart:
    """The sentences of one half.

    Attributes:
        half: 1 or 2; examples are mined from the other half.
        pictures: number of the six pictures of an example that are asked.
    """

    half: int
    root: Path | None
    split: str
    pictures: int

    @property
    def name(self) -> str:
        return f"half {self.half}"

    def samples(self) -> list[Sample]:
        """Return all samples of both halves with the pictures that are asked."""
        return [sample for sample in self._samples if _picture(sample) < self.pictures]

    @cached_property
    def _samples(self) -> Sequence[Sample]:
        return data_set("nlvr").samples(DatasetSpec(self.root, self.split))

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        """Return the first ``limit`` examples of the half, each with its pictures."""
        return self._of(self.half, limit, self.pictures, seed)

    def shots(self, seed: int, limit: int) -> Evaluation:
        """Return one picture of each of the first examples of the other half."""
        return self._of(3 - self.half, limit, 1, seed)

    def equipped(self, components: Components, seed: int) -> Components:
        return components

    def _of(self, half: int, limit: int, pictures: int, seed: int) -> Evaluation:
        own = [s for s in self._samples if half_of(s.text) == half and _picture(s) < pictures]
        ids = tuple(sample.sample_id for sample in own[: limit * pictures])
        spec = DatasetSpec(self.root, self.split)
        return Evaluation("nlvr", spec, len(ids), (seed,), ids=ids)


def _content(pixels: Pixels) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(pixels).tobytes()).digest()


def _picture(sample: Sample) -> int:
    return int(sample.sample_id.rpartition("-")[2])


class KnownDetector:
    """A detector that knows what each picture shows: it reads the data set's own description.

    Args:
        known: what a picture shows, by the hash of its pixels.
    """

    def __init__(self, known: Mapping[bytes, Sequence[tuple[frozenset[str], Any]]]) -> None:
        self.model_id, self._known = "nlvr-truth", known

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        return [self._known[_content(pixels)] for pixels in images]

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        return [
            [Detection(box, 1.0) for words, box in encoding if words.issuperset(phrase.split())]
            for phrase in phrases
        ]


@dataclass(frozen=True)
class Truth:
    """What the pictures of a split show.

    Attributes:
        known: as :class:`KnownDetector` takes it.
        exact: whether a detector finds exactly this, for each picture.
    """

    known: Mapping[bytes, Sequence[tuple[frozenset[str], Any]]]
    exact: Sequence[bool]


def truth_of(part: HalfPart, detector: Detector) -> Truth:
    """Read what the pictures of both halves show, and compare it with a detector's boxes.

    Raises:
        DataError: files are missing.
        UsageError: the split does not say what its pictures show.
    """
    samples = part.samples()
    path = root_of(data_set("nlvr"), DatasetSpec(part.root)) / part.split / f"{part.split}.json"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    described = {str(line["identifier"]): line.get("structured_rep") for line in lines}
    known, exact = {}, []
    for sample in samples:
        boxes = described.get(sample.groups["example"])
        if boxes is None:
            raise UsageError(f"{path}: without structured_rep; give a split that has it, as dev")
        pixels = media_from(sample.load()).images[0]
        (encoding,) = detector.encode([pixels])
        found = _found(detector, encoding)
        order = _order(boxes, found)
        exact.append(order is not None)
        things = order if order is not None else _placed(boxes, (0, 1, 2))
        walls = [(frozenset(("box",)), (x, 0.0, x + 100.0, 100.0)) for x in (0.0, 150.0, 300.0)]
        known[_content(pixels)] = (*walls, *things)
    return Truth(known, exact)


def _found(detector: Detector, encoding: Any) -> dict[Any, frozenset[str]]:
    words: dict[Any, set[str]] = {}
    for word, detections in zip(WORDS, detector.detect(encoding, WORDS), strict=True):
        for detection in detections:
            words.setdefault(detection.box, set()).add(word)
    return {box: frozenset(own) for box, own in words.items()}


def _order(boxes: Sequence[Any], found: Mapping[Any, frozenset[str]]) -> list[Any] | None:
    """Return the items in the order of boxes that fits what was found; None if none does.

    The six pictures of an example show its boxes in all orders.
    """
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        things = _placed(boxes, order)
        if {box: words for words, box in things} == found:
            return things
    return None


def _placed(boxes: Sequence[Any], order: Sequence[int]) -> list[tuple[frozenset[str], Any]]:
    things = []
    for place, number in enumerate(order):
        for item in boxes[number]:
            x, y, size = item["x_loc"] + BOX_APART * place, item["y_loc"], item["size"]
            words = frozenset((COLORS[item["color"]], item["type"], SIZES[size], "item"))
            things.append((words, tuple(map(float, (x, y, x + size, y + size)))))
    return things


@dataclass(frozen=True)
class Way:
    """A way to get programs: a row of the table, with the cell that answers each half."""

    name: str
    cells: Sequence[tuple[Cell, HalfPart]]


@dataclass
class NlvrStudy:
    """The rows, and what they come to.

    Attributes:
        truth: is read when it is first needed.
    """

    ways: Sequence[Way]
    quick: bool
    truth: Callable[[], Truth]

    def cells(self) -> list[tuple[Cell, HalfPart]]:
        """Return every cell with its part, once."""
        return [each for way in self.ways for each in way.cells]

    def results(self, runner: CellRunner, way: Way) -> list[SampleResult]:
        """Return the results of a way on all its parts."""
        return [r for cell, part in way.cells for r in runner.all_results(cell, part)]

    def reproduce(self, runner: CellRunner) -> Reproduction:
        """Answer everything that is not stored yet, and judge it."""
        results = Results(self.quick)
        by_way = {way.name: self.results(runner, way) for way in self.ways}
        for name, rows in by_way.items():
            results.rows += _figures(name, rows)
        always = [replace(row, score=float(row.target)) for row in by_way[ZERO]]
        results.rows += _figures("always true", always, failed=0)
        for name, rows in by_way.items():
            for kind in (*KINDS, "other"):
                own = [row.score for row in rows if kind_of(row.text) == kind]
                results.rows.append(TableCell.of_scores("by kind of sentence", name, kind, [own]))
        for name, value, source in PUBLISHED:
            figure = OverSeeds(value, None, 1)
            results.rows.append(
                TableCell("published, on other splits", name, "accuracy", figure, 0, source)
            )
        results.gains += list(self._gains(by_way))
        claims = [self._boxes(), *self._claims(by_way, results.gains)]
        return results.judged(
            "NLVR (Suhr et al. 2017) from pixels", claims, runner.model_ids(), runner.scale.seeds
        )

    def _gains(self, by_way: Mapping[str, Sequence[SampleResult]]) -> Iterator[Gain]:
        for before, after in STEPS:
            if before in by_way and after in by_way:
                rows, name = (by_way[before], by_way[after]), f"{before} -> {after}"
                yield gain_of(*rows, TABLE, name, "accuracy")

    def _boxes(self) -> Claim:
        exact = self.truth().exact
        estimate = proportion(sum(exact), len(exact))
        reason = f"{100 * estimate.value:.2f} % of {len(exact):,} pictures"
        return Claim("perception: all boxes exact in 99.9 % of the pictures",
                     estimate.value >= 0.999, reason)  # fmt: skip

    def _claims(
        self, by_way: Mapping[str, Sequence[SampleResult]], gains: Sequence[Gain]
    ) -> Iterator[Claim]:
        held_out = {name: by_way[name] for name in (B, C) if name in by_way}
        for what, least in (("accuracy", 0.88), ("consistency", 0.72)):
            claim = f"b or c on sentences of the other half: {what} of {100 * least:.0f} %"
            if not held_out:
                yield Claim(claim, None, "give --halves, the profiles that know one half each")
                continue
            figures = {name: _overall(rows)[what] for name, rows in held_out.items()}
            name = max(figures, key=lambda way: figures[way].value)
            reason = f"{name}: {in_percent(figures[name])}, n = {figures[name].n:,}"
            yield Claim(claim, figures[name].value >= least, reason)
        for (before, after), claim in STEPS.items():
            name = f"{before} -> {after}"
            yield Claim.of_gain(claim, next((g for g in gains if g.name == name), None))


def _overall(results: Sequence[SampleResult]) -> Mapping[str, Estimate]:
    """Return accuracy and consistency by the official definition."""
    return metric("nlvr").figures(results).overall


def _figures(
    name: str, rows: Sequence[SampleResult], failed: int | None = None
) -> Iterator[TableCell]:
    if failed is None:
        failed = sum(row.failure is not None for row in rows)
    note = f"{failed} of {len(rows)} without an answer" if failed else ""
    for what, estimate in _overall(rows).items():
        figure = OverSeeds(estimate.value, None, 1)
        yield TableCell(TABLE, name, what, figure, estimate.n, note)


ZERO, CHOSEN_16, RANDOM_16, RANDOM_100 = (
    "a: everyday writer, zero-shot", "a: 16 chosen examples", "a: 16 random shots",
    "a: 100 random shots",
)  # fmt: skip
B, C = "b: rules of the other half", "c: b, self-trained on the other half"
B_ALL, C_ALL = "b: all rules (seen)", "c: all rules, self-trained (seen)"
PERFECT = ", perfect perception"

# Pairs of rows, and the claim about their gain.
STEPS = {
    (ZERO, RANDOM_100): "a: 100 mined examples gain over zero-shot",
    (B, C): "c gains over b",
    (B_ALL, C_ALL): "c gains over b on sentences that both have seen",
}


@dataclass(frozen=True)
class NlvrJob(PaperJob):
    """``viper lab reproduce nlvr``.

    Attributes:
        halves: profiles whose writers know the rules of half 1 and of half 2 alone.
    """

    halves: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.options.set_name != "nlvr":
            raise UsageError(
                f"--data is {self.options.set_name}; this reproduction reads nlvr alone"
            )

    @cached_property
    def _profile(self) -> str:
        chosen = self.options.profile.profile
        if chosen != "auto":
            return chosen
        beside = Path(__file__).parents[2] / PROFILE
        if not beside.is_file():
            raise UsageError(f"{PROFILE}: no such file; give the domain's profile by --profile")
        return str(beside)

    def opened(self, path: str, **changes: Any) -> Profile:
        """Return a profile without examples of its own."""
        choice = replace(self.options.profile, profile=path, **changes)
        return open_profile(choice).without_examples()

    def writers(self) -> dict[str, Components]:
        """Return the writers, all over the domain's perception."""
        main = self.opened(self._profile)
        base = main.document.base or Path()
        plain = _without_adapter(main).components()
        api = whole_api(main.document.run.api, base)
        everyday = self.opened("embedded", api=api).components()
        found = {"main": plain, "everyday": replace(everyday, toolbox=plain.toolbox)}
        found |= _taught(main, "main", plain)
        for half, path in zip(HALVES, self.halves, strict=False):
            profile = self.opened(path)
            components = _without_adapter(profile).components()
            found[f"half-{half}"] = replace(components, toolbox=plain.toolbox)
            found |= _taught(profile, f"half-{half}", plain)
        known = plain.toolbox.with_roles({"detector": lambda: KnownDetector(self._truth.known)})
        perfect = {
            f"{name}{PERFECT}": replace(parts, toolbox=known)
            for name, parts in found.items()
            if name.startswith("half")
        }
        return found | perfect

    def study(self, runner: CellRunner) -> NlvrStudy:
        o = self.options
        halves = [self._part(half) for half in HALVES]
        api = runner.writers["everyday"].settings.api
        shown = EVERYDAY.changed(examples=8)
        cells = [Cell(ZERO, EVERYDAY, writer="everyday")]
        for name, shots, chosen in (
            (CHOSEN_16, 16, True), (RANDOM_16, 16, False), (RANDOM_100, 100, False),
        ):  # fmt: skip
            cells.append(Cell(name, shown, Mining(api, shots, chosen), writer="everyday"))
        for name, writer in ((B_ALL, "main"), (C_ALL, "main taught")):
            cells.append(Cell(name, RunOptions(), writer=writer))
        ways = [Way(cell.name, [(cell, part) for part in halves]) for cell in cells]
        for name, writer in ((B, "half-{}"), (C, "half-{} taught")):
            for more in ("", PERFECT):
                names = [writer.format(3 - part.half) + more for part in halves]
                own = [Cell(name + more, RunOptions(), writer=each) for each in names]
                ways.append(Way(name + more, list(zip(own, halves, strict=True))))
        known = runner.writers.keys()
        ways = [way for way in ways if all(cell.writer in known for cell, _ in way.cells)]
        return NlvrStudy(ways, o.quick, lambda: self._truth)

    def _part(self, half: int) -> HalfPart:
        o = self.options
        return HalfPart(half, o.root, o.split or "dev", 1 if o.quick else 6)

    @cached_property
    def _truth(self) -> Truth:
        models = _without_adapter(self.opened(self._profile)).components().toolbox.models
        with status("comparing the boxes of all pictures with their descriptions"):
            return truth_of(self._part(1), models.shared("detector"))


EVERYDAY = RunOptions(list_api=True, trials=1, examples=0)


def _without_adapter(profile: Profile) -> Profile:
    choice = profile.document.models[WRITER]
    options = {name: value for name, value in choice.options.items() if name != "adapter"}
    models = {**profile.document.models, WRITER: replace(choice, options=options)}
    return replace(profile, document=replace(profile.document, models=models))


def _taught(profile: Profile, name: str, plain: Components) -> dict[str, Components]:
    """Return the writer with its adapter, if the profile has one."""
    if "adapter" not in profile.document.models[WRITER].options:
        return {}
    return {f"{name} taught": replace(profile.components(), toolbox=plain.toolbox)}
