"""Score a profile on everyday English: people's questions, and what training left out.

    python -m benchmarks.everyday people [--profile embedded] [--json]
    python -m benchmarks.everyday val --part wordings [--count 200] [--clips]
    python -m benchmarks.everyday val --part seen --gold
    python -m benchmarks.everyday outside --data FOLDER [--split test]

``people`` asks the questions of ``data/everyday.jsonl``: three authors wrote them from pictures and
clips alone, without a look at this repository. Others answered them without seeing the answers;
the one question on which these were not sure was left out. ``development`` asks those of a fourth
author, whose errors were read while the writer was trained. ``newcomers`` asks those of a fifth
and a sixth, written and answered by others before the pretrained writer was trained; ``plain`` asks
what one look answers. ``val`` and ``test``
draw questions from the grammar of ``viper_lab.world.everyday``. Training has neither the wordings,
nor the compositions, nor the synonyms of the parts of these names. ``--gold`` runs the canonical
programs, which shows what the tools alone lose.

``outside`` asks what the profile does not know: about photographs (of ``--data``), with words that
it lacks, in other languages, about pictures of a few pixels. Right is no answer, or one of a
confidence below one half.

An answer that is withheld counts as wrong. Of the wrong ones, those are owned up that are withheld,
have a warning or a confidence below one half. Every share has a 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from PIL import Image

from viper.agreement import box_iou
from viper.evaluate.calibration import risk_coverage
from viper.evaluate.intervals import proportion
from viper.models.llm.scripted import ScriptedLLM
from viper.models.media import Media, media_from
from viper.profiles.wiring import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Answer
from viper_lab.world.clips import render_clip, sample_clip
from viper_lab.world.everyday.clip_programs import clip_program
from viper_lab.world.everyday.clips import ClipAsk
from viper_lab.world.everyday.programs import program_of
from viper_lab.world.everyday.samples import PARTS, everyday_samples
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.vocabulary import COLOURS

DATA = Path(__file__).with_name("data")
PEOPLE = {
    "people": "everyday.jsonl",
    "development": "everyday-development.jsonl",
    "newcomers": "everyday-newcomers.jsonl",
    "plain": "everyday-plain.jsonl",
}
SURE = 0.5
"""An answer of less confidence owns up that it may be wrong."""
LEAST_OVERLAP = 0.5
"""Least intersection over union of a right box."""

_NUMBERS = {
    "zero": "0",
    "none": "0",
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
}
_PASSED_OVER = re.compile(
    "the|an?|its?|is|are|of|off|table|to|in|by|gets|because|was|moving|from|above|down|over|edge"
)
_EVENTS = {
    "start": "starts start started begins begin began moves move moved sets rolling rolls",
    "stop": "stops stop stopped halts halt rest rests",
    "hit": "hits hit bumps bump bumped bumping collides collide collided crashes strikes strike "
    "struck touches knocks knocked pushes pushed",
    "appear": "appears appear appeared drops dropped drop lands landed arrives enters shows",
    "fall": "falls fall fell falling leaves leave left disappears disappear",
}
_EVENT_OF = {word: kind for kind, words in _EVENTS.items() for word in words.split()}


@dataclass(frozen=True)
class Asked:
    """One question with the answers that count."""

    question: str
    media: str
    split: str
    index: int
    answers: Sequence[str]
    sorts: Sequence[str]
    options: Sequence[str] = ()
    task: str = "auto"
    program: str = ""
    box: Sequence[float] | None = None
    picture: Path | tuple[int, int] | None = None

    def load(self) -> Media:
        """Render the picture or the clip; read a photograph; make one of a single color."""
        if isinstance(self.picture, Path):
            return media_from(self.picture)
        if self.picture is not None:
            return media_from(Image.new("RGB", self.picture, (128, 128, 128)))
        if self.media == "clip":
            clip = render_clip(sample_clip(self.split, self.index))
            return Media(video=clip.frames)
        return Media(images=(render_scene(sample_scene(self.split, self.index)).image,))


def people(name: str) -> Iterator[Asked]:
    """Yield the questions that people wrote."""
    for line in (DATA / PEOPLE[name]).read_text("utf-8").splitlines():
        row = json.loads(line)
        medium = "clips" if row["media"] == "clip" else "stills"
        yield Asked(
            row["question"],
            row["media"],
            "test",
            row["index"],
            row["answers"],
            (medium, *(f"{sort} ({medium})" for sort in row["sorts"])),
            tuple(row.get("options", ())),
        )


def outside(split: str, data: Path) -> Iterator[Asked]:
    """Yield the questions that the profile cannot answer; there is no right answer."""
    for line in (DATA / "outside.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        picture = data / row["file"] if "file" in row else tuple(row.get("size", ())) or None
        if row["split"] == split:
            index = row.get("index", 0)
            yield Asked(row["question"], "scene", "test", index, [], [row["kind"]], picture=picture)


def drawn(split: str, part: str, seed: int, count: int, clips: bool) -> Iterator[Asked]:
    """Yield questions of the grammar."""
    for sample in everyday_samples(split, seed, count, PARTS[part], clips=clips):
        ask: Any = sample.ask
        is_clip = isinstance(ask, ClipAsk)
        yield Asked(
            sample.query.text,
            "clip" if is_clip else "scene",
            split,
            sample.index,
            [str(sample.answer)],
            (sample.type,),
            task="auto" if is_clip else sample.query.task,
            program=clip_program(ask, options=False) if is_clip else program_of(ask),
            box=sample.box,
        )


def words_of(text: str) -> list[str]:
    """Return the words of an answer that count, in the world's words."""
    words = re.findall(r"[a-z]+|\d+", in_world_words(text.lower()))
    words = [_NUMBERS.get(word, word) for word in words]
    return [_EVENT_OF.get(word, word) for word in words if not _PASSED_OVER.fullmatch(word)]


def agrees(answer: Answer | None, asked: Asked) -> bool:
    """Return whether an answer holds all words of an accepted one, and no colour of none."""
    if answer is None:
        return False
    if asked.box is not None:
        return answer.box is not None and box_iou(answer.box, asked.box) >= LEAST_OVERLAP
    if answer.kind == "box":
        return False
    if str(answer.value).lower() in asked.answers:
        return True  # "from above" has no word that counts
    given = words_of(str(answer.value))
    accepted = [words_of(text) for text in asked.answers]
    colors = {word for words in accepted for word in words} & set(COLOURS)
    if colors and set(given) & set(COLOURS) - colors:
        return False
    return any(words and set(words) <= set(given) for words in accepted)


def score(
    reasoner: Reasoner, questions: Iterable[Asked], show: bool, gold: bool, **run: Any
) -> dict[str, Any]:
    """Answer every question; return counts by sort, failures by kind, and what confidence tells."""
    right: dict[str, list[bool]] = defaultdict(list)
    known: list[tuple[float, bool]] = []
    owned: list[bool] = []
    unsure: list[bool] = []
    failures: Counter[str] = Counter()
    for number, asked in enumerate(questions, 1):
        options = RunOptions(task=asked.task, options=tuple(asked.options), **run)
        if gold:
            reasoner = with_program(reasoner, asked.program)
        result = reasoner.run(asked.load(), asked.question, options)
        confidence = result.answer.confidence if result.answer is not None else None
        is_unsure = confidence is None or confidence < SURE
        is_right = is_unsure if not asked.answers else agrees(result.answer, asked)
        if confidence is not None:
            known.append((confidence, is_right))
        if is_right:
            unsure.append(is_unsure)
        else:
            owned.append(is_unsure or bool(result.warnings))
        if result.answer is None:
            failures[result.failure.kind if result.failure else "withheld"] += 1
        for sort in ("all", *asked.sorts):
            right[sort].append(is_right)
        if show and not is_right:
            value = result.answer.value if result.answer else result.failure
            place = f"{asked.media} {asked.index}"
            print(f"- {asked.question} -> {value}; expected {asked.answers} ({place})")
            print(result.program)
        print(f"\r{number}: {sum(right['all'])} right", end="", file=sys.stderr)
    print(file=sys.stderr)
    shares = {sort: proportion(sum(hits), len(hits)) for sort, hits in sorted(right.items())}
    for name, flags in (("wrong: owned up", owned), ("right: confidence below .5", unsure)):
        if flags:
            shares[name] = proportion(sum(flags), len(flags))
    if known:
        told = risk_coverage([each for each, _ in known], [is_right for _, is_right in known])
        shares["confidence: calibration error"] = told.calibration_error
        shares |= {f"wrong among the {part} most confident": v for part, v in told.at.items()}
    return {"shares": shares, "failures": dict(failures)}


def with_program(reasoner: Reasoner, program: str) -> Reasoner:
    """Return a reasoner over the same tools whose writer gives this program."""
    parts = reasoner.components
    settings = parts.settings.changed(examples=0, prompt_style="compact")
    return Reasoner(
        replace(parts.with_models(llm=ScriptedLLM([program] * 64)), settings=settings),
        preload=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=(*PEOPLE, "outside", "val", "test"))
    parser.add_argument("--part", choices=tuple(PARTS), default="seen")
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clips", action="store_true")
    parser.add_argument("--gold", action="store_true", help="run the canonical programs")
    parser.add_argument("--strategy", help="another than the profile's")
    parser.add_argument("--limit", type=int, help="only so many questions")
    parser.add_argument("--split", default="development", choices=("development", "test"))
    parser.add_argument("--data", type=Path, help="folder with photos/, for outside")
    parser.add_argument("--verify", action="store_true", help="verify the programs and answers")
    parser.add_argument("--show", action="store_true", help="print every wrong answer")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.what in PEOPLE:
        questions: Iterator[Asked] = people(options.what)
    elif options.what == "outside":
        if options.data is None or not (options.data / "photos").is_dir():
            seen = f"outside asks about photographs: --data is {options.data}"
            parser.error(f"{seen}; expected a folder that holds photos/, see docs/photographs.md")
        questions = outside(options.split, options.data)
    else:
        questions = drawn(options.what, options.part, options.seed, options.count, options.clips)
    with Reasoner(load_profile(options.profile)) as reasoner:
        run = {"verify": options.verify} if options.verify else {}
        if options.strategy:
            run["strategy"] = options.strategy
        some = islice(questions, options.limit)
        figures = score(reasoner, some, options.show, options.gold, **run)
    if options.json:
        print(json.dumps({**figures, "shares": {k: vars(v) for k, v in figures["shares"].items()}}))
        return
    for sort, share in figures["shares"].items():
        print(f"{sort:<34} {share.value:.3f}  [{share.low:.3f}, {share.high:.3f}]  n={share.n}")
    print(f"no answer: {figures['failures']}")


if __name__ == "__main__":
    main()
