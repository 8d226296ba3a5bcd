"""Warnings of a run: reasons to doubt its answer, and answers that are withheld for one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from tests.strategies.test_evidence import GUESSING, program, saying
from viper.models.domain import Domain, Look
from viper.models.vision.roles import Detections
from viper.models.vision.vocabulary import Vocabulary
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper.record import result_record, trace_from_record
from viper.run_result import RunResult
from viper.schema import RunWarning
from viper.strategies.confidence import Confidence
from viper.testing.fakes import FakeDetector

# Looks and says red whatever it sees.
LOOKING = program("ImagePatch(image).simple_query('what is it?')", "return 'red'")


def kinds(warnings: tuple[RunWarning, ...]) -> list[str]:
    return [warning.kind for warning in warnings]


@pytest.fixture
def gray(tmp_path: Path) -> Domain:
    """Return the domain of dark noise, and of few words."""
    random = np.random.default_rng(0)
    dark = [random.integers(0, 60, (60, 100, 3), dtype=np.uint8) for _ in range(40)]
    Look.fit(dark[:20], dark[20:]).write(tmp_path / "look.npz")
    (tmp_path / "words.txt").write_text("what color is the cube ball faint how many are there")
    files = (tmp_path / "words.txt", tmp_path / "look.npz")
    return Domain("dark noise", *files, "Try another profile.", withhold=True)


def test_without_a_domain_there_is_nothing_to_say() -> None:
    with Bench([LOOKING]) as bench:
        assert bench.reasoner.run(picture(), "what color is the dog?").warnings == ()


def test_pictures_and_words_outside_the_domain(gray: Domain) -> None:
    with Bench([LOOKING], parts={"domain": gray}) as bench:
        result = bench.reasoner.run(picture(), "what color is the dog?")
    assert kinds(result.warnings) == ["unlike_training_pictures", "unknown_words"]
    assert "dark noise" in result.warnings[0].text
    assert result.warnings[0].detail["distance"] > 1
    assert result.warnings[1].detail == {"words": ("dog",)}
    assert result.answer is not None  # Python answers and warns


def test_what_lies_within_the_domain_gets_no_warning(gray: Domain) -> None:
    dark = np.random.default_rng(7).integers(0, 60, (60, 100, 3), dtype=np.uint8)
    with Bench([LOOKING], parts={"domain": gray}) as bench:
        assert bench.reasoner.run(dark, "what color is the cube?").warnings == ()


def test_the_model_of_a_strategy_may_know_other_pictures(gray: Domain) -> None:
    bright = Domain("bright scenes", look_file=None)
    domain = replace(gray, roles={"looker": bright})
    parts = {"domain": domain, "sees": frozenset({"llm"})}
    with Bench(["The answer is red.", LOOKING], parts=parts, prompt_style="chat") as bench:
        bench.llm.sees_pictures = True
        looked = bench.reasoner.run(picture(), "what color is the dog?", strategy="look")
        programmed = bench.reasoner.run(picture(), "what color is the dog?", strategy="program")
    assert looked.answer is not None and looked.warnings == ()
    assert kinds(programmed.warnings) == ["unlike_training_pictures", "unknown_words"]


@pytest.mark.parametrize("many", [False, True])
def test_a_program_that_leaves_pictures_out_is_told(many: bool) -> None:
    looks = "[ImagePatch(each).find('cube') for each in image_list]"
    one = "ImagePatch(image_list[0]).find('cube')"
    code = f"def execute_command(image_list):\n    return len({looks if many else one})\n"
    with Bench([code]) as bench:
        result = bench.reasoner.run([picture(), picture() + 9], "how many cubes are there?")
    assert kinds(result.warnings) == ([] if many else ["unused_pictures"])
    assert many or "1 of 2" in result.warnings[0].text


def test_an_answer_is_withheld_and_kept_as_a_guess(gray: Domain) -> None:
    with Bench([LOOKING], parts={"domain": gray}) as bench:
        result = bench.reasoner.run(picture(), "what color is the cube?")
    withheld = result.withheld()
    assert withheld.answer is None and withheld.value is None
    assert withheld.failure is not None and withheld.failure.kind == "outside_domain"
    assert withheld.failure.message.endswith("(dark noise). Try another profile.")
    assert withheld.trace.guess == result.answer and withheld.program == result.program
    record = result_record(withheld.trace)
    assert record["answer"] is None and record["guess"]["value"] == "red"
    assert record["warnings"][0]["kind"] == "unlike_training_pictures"
    again = trace_from_record(record)
    assert (again.guess, kinds(again.warnings)) == (result.answer, ["unlike_training_pictures"])
    assert withheld.withheld() is withheld


def test_a_domain_that_withholds_nothing_only_warns(gray: Domain) -> None:
    domain = Domain(gray.about, gray.words_file, gray.look_file)
    with Bench([LOOKING], parts={"domain": domain}) as bench:
        result = bench.reasoner.run(picture(), "what color is the cube?")
    assert result.withheld() is result and result.warnings != ()


def test_a_guess_is_marked() -> None:
    with Bench([GUESSING.replace("faint ball", "pyramid")]) as bench:
        result = bench.reasoner.run(picture(), "what color is the pyramid?")
    assert kinds(result.warnings) == ["guessed"]
    assert result.warnings[0].text == "find('pyramid') found nothing; the answer is a guess."


def test_a_count_of_nothing_is_no_guess() -> None:
    code = program("return len(ImagePatch(image).find('pyramid'))")
    with Bench([code]) as bench:
        assert bench.reasoner.run(picture(), "how many pyramids are there?").warnings == ()


def test_the_candidate_that_is_the_answer_counts_and_not_the_best_one() -> None:
    second = """def execute_command(image):
    return sort_patches_left_to_right(ImagePatch(image).find("ring"))[1]
"""
    with Bench([second]) as bench:
        result = bench.reasoner.run(picture(), "the second ring from the left")
    assert kinds(result.warnings) == ["weak_evidence"]
    assert result.warnings[0].detail["score"] == 0.25


def test_what_only_a_lowered_threshold_let_pass_is_weak_evidence() -> None:
    with Bench([GUESSING]) as bench:
        result = bench.reasoner.run(picture(), "what color is the faint ball?")
    assert kinds(result.warnings) == ["weak_evidence"]
    assert result.warnings[0].text == "find('faint ball') has a score of 0.15 only."


def test_a_count_of_an_incomplete_reply_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    detect = FakeDetector.detect

    def cut(self: FakeDetector, encoding: Any, phrases: Any) -> list[Detections]:
        note = "the limit of tokens cut the list"
        return [Detections(boxes, note) for boxes in detect(self, encoding, phrases)]

    monkeypatch.setattr(FakeDetector, "detect", cut)
    with Bench([program("return len(ImagePatch(image).find('cube'))")]) as bench:
        result = bench.reasoner.run(picture(), "how many cubes are there?")
    assert result.answer is not None and result.answer.value == 2
    assert kinds(result.warnings) == ["incomplete_reply"]
    text = "find('cube') may be incomplete: the limit of tokens cut the list."
    assert result.warnings[0].text == text


def test_the_answer_of_a_fallback_is_marked() -> None:
    with Bench([saying("nonsense")], trials=1, fallback="vipergpt") as bench:
        result = bench.reasoner.run(picture(), "what color is this?")
    assert kinds(result.warnings) == ["fallback"]
    assert result.trace.fallback in result.warnings[0].text


def test_a_baseline_that_answers_another_kind_is_marked() -> None:
    with Bench([]) as bench:
        result = bench.reasoner.run(picture(), "what color is this?", strategy="vqa")
    assert result.answer is not None and kinds(result.warnings) == []
    with Bench([]) as bench:
        result = bench.reasoner.run(picture(), "how many are there?", strategy="vqa")
    assert kinds(result.warnings) == ["wrong_type"]


def test_a_result_is_shown_in_one_line(gray: Domain) -> None:
    with Bench([LOOKING, "nonsense"], parts={"domain": gray}, trials=1) as bench:
        answered = bench.reasoner.run(picture(), "what color is the cube?")
        failed = bench.reasoner.run(picture(), "what color is the ball?")
    text = "<RunResult 'what color is the cube?': text 'red', unlike_training_pictures>"
    assert repr(answered) == text
    assert repr(failed).startswith("<RunResult 'what color is the ball?': no answer (")


def test_a_program_that_never_looks_is_unsupported() -> None:
    calibrated = Confidence({"intercept": 3.0, "task:question": 0.0})
    parts = {"confidence": {"plain": calibrated}}
    confidences = []
    for code in (saying("'red'"), saying("llm_query('what color is a tomato?')"), LOOKING):
        with Bench([code], parts=parts) as bench:
            result = bench.reasoner.run(picture(), "what is it?")
        assert result.answer is not None
        confidences.append((kinds(result.warnings), result.answer.confidence))
    assert confidences == [
        (["unsupported"], None),
        (["unsupported"], None),
        ([], pytest.approx(0.9526)),
    ]


@pytest.mark.parametrize(
    ("table", "confidence", "notes"),
    [
        ('[llm]\nbackend = "openai"\nmodel = "m"\n', set(), 2),
        ('[roles]\nvqa = { backend = "vlm" }\n', set(), 1),
        ('[vlm]\nbackend = "openai"\nmodel = "m"\n', set(), 1),
        ('[sensitivities]\n"detector.threshold" = { start = 0.5 }\n', set(), 1),
        ('[tools]\nfind_scope = "crop"\n', set(), 1),
        ("[tools]\ncache_mb = 64\n", {"plain", "verified", "explore"}, 0),
        ("[run]\ntrials = 5\n", {"plain", "verified", "explore"}, 0),
        ('[llm]\nbackend = "openai"\nmodel = "m"\n[confidence.plain]\n', {"plain"}, 1),
    ],
)
def test_a_profile_with_other_models_or_thresholds_inherits_no_calibration(
    table: str, confidence: set[str], notes: int, tmp_path: Path
) -> None:
    path, child = tmp_path / "own.toml", tmp_path / "child.toml"
    path.write_text(f'extends = "embedded"\n{table}', encoding="utf-8")
    child.write_text('extends = "own.toml"\n', encoding="utf-8")
    for file in (path, child):
        document = load_profile(str(file)).document
        assert (set(document.confidence), len(document.notes)) == (confidence, notes)


def test_unknown_words_are_withheld_where_the_domain_says_so(gray: Domain) -> None:
    domain = replace(gray, look_file=None, withhold=False, withhold_words=True)
    with Bench([LOOKING], parts={"domain": domain}) as bench:
        result = bench.reasoner.run(picture(), "what color is the dog?")
    (warning,) = result.warnings
    assert warning.text.endswith("cannot see 'dog'.")
    assert result.answer is not None
    withheld = result.withheld()
    assert withheld.answer is None and withheld.failure is not None
    assert withheld.failure.kind == "outside_domain" and "'dog'" in withheld.failure.message


class ClosedDetector(FakeDetector):
    """Knows its categories alone."""

    vocabulary = Vocabulary(["cube"], {}, {})

    def detect(self, encoding: Any, phrases: Any) -> Any:
        for phrase in phrases:
            self.vocabulary.named(phrase)
        return super().detect(encoding, phrases)


def closed(*programs: str) -> RunResult:
    with Bench(list(programs)) as bench:
        boxes = {"cube": [((10, 40, 20, 50), 0.9)]}
        detector = ClosedDetector(boxes)
        components = bench.reasoner.components
        toolbox = components.toolbox.with_roles({"detector": lambda: detector})
        with Reasoner(replace(components, toolbox=toolbox)) as reasoner:
            return reasoner.run(picture(), "how many crates are there?")


CRATES = program("ImagePatch(image).find('crates')", "return 0")
CUBES = program("cubes = ImagePatch(image).find('cubes')", "return len(cubes)")
CAUGHT = program(
    "try:", "    ImagePatch(image).find('crates')", "except Exception:", "    pass", "return 0"
)


def test_a_phrase_that_a_detector_does_not_know_is_told_after_another_answered() -> None:
    result = closed(CRATES, CUBES)
    assert result.answer is not None and result.answer.value == 1
    (warning,) = [each for each in result.warnings if each.kind == "unknown_words"]
    assert warning.text == "The detector knows no 'crates'."
    assert warning.detail == {"words": ("crates",)}
    assert result.trace.trials[0].tool_calls[0].unknown == "crates"


def test_without_another_program_there_is_no_answer() -> None:
    result = closed(*[CRATES] * 12)
    assert result.answer is None and result.failure is not None
    assert "the detector knows no 'crates'" in result.failure.message
    assert [each.kind for each in result.warnings] == ["unknown_words"]


def test_an_answer_that_swallows_the_error_is_withheld() -> None:
    result = closed(CAUGHT)
    assert result.answer is not None and result.answer.value == 0
    assert result.withheld().answer is None
