"""Profiles: what a file may say, and how a mistake is blamed."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from viper.errors import ProfileError, UnknownNameError
from viper.profiles.backends import backend_class, load_backend
from viper.profiles.files import known_profiles, read_profile
from viper.profiles.wiring import Profile

GOOD = """
name = "mine"
[llm]
backend = "transformers"
model = "some/folder"
[roles]
detector = { backend = "owlv2", model = "embedded:detector" }
text = { backend = "llm" }
[sensitivities]
"detector.threshold" = { start = 0.3, step = 0.1, floor = 0.1 }
[tools]
find_scope = "crop"
attribute_families = [["red", "blue"]]
[run]
trials = 5
temperature = 1
[limits]
time_s = 3
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_good_profile_is_read_whole(tmp_path: Path) -> None:
    document = read_profile(write(tmp_path, GOOD))
    assert document.name == "mine" and document.roles["text"].backend == "llm"
    assert document.tools.sensitivities["detector.threshold"].floor == 0.1
    assert document.tools.attribute_families == (("red", "blue"),)
    assert (document.run.trials, document.limits.time_s) == (5, 3)


def test_watching_has_tools_of_its_own(tmp_path: Path) -> None:
    more = '[watch]\nhold = 0.5\nfind_check = "detector+matcher"\n'
    more += 'thresholds = { "detector.threshold" = 0.05 }\n'
    profile = Profile(read_profile(write(tmp_path, GOOD + more)))
    assert (profile.document.watch.hold, profile.document.watch.gap) == (0.5, None)
    assert profile.document.tools.find_check == "detector"
    tools = profile.for_watching().document.tools
    assert tools.find_check == "detector+matcher"
    assert tools.start_thresholds(self_tune=False) == {"detector.threshold": 0.05}
    plain = Profile(read_profile(write(tmp_path, GOOD)))
    assert plain.for_watching() == plain


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hold = -1", "watch.hold: hold is -1"),
        ('find_check = "both"', "watch.find_check: unknown find check 'both'"),
        ('confirm = { "dedector.threshold" = 0.1 }', "watch.confirm: unknown threshold"),
        ('thresholds = { "detector.threshold" = nan }', "watch.thresholds: expected floor"),
    ],
)
def test_wrong_values_of_watching_name_their_key(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ProfileError, match=re.escape(said)):
        read_profile(write(tmp_path, f"{GOOD}[watch]\n{line}\n"))


def test_bounds_and_fallback_of_a_query(tmp_path: Path) -> None:
    more = 'max_llm_calls = 4\nfallback = "vipergpt"\naverage_box = [0, 0.25, 1, 0.75]'
    run = read_profile(write(tmp_path, GOOD.replace("trials = 5", more))).run
    assert (run.max_llm_calls, run.max_llm_tokens, run.fallback) == (4, 0, "vipergpt")
    assert run.average_box == (0, 0.25, 1, 0.75)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "trials = 5",
            "trials = true",
            ":15: run.trials: input should be a valid integer, got True",
        ),
        ("trials = 5", 'trials = "5"', ":15: run.trials: input should be a valid integer, got '5'"),
        ("time_s = 3", "time = 3", ":18: limits.time: unknown key"),
        ("start = 0.3, ", "", ":10: sensitivities.detector.threshold.start: field required"),
        ("floor = 0.1", "floor = 0.9", "expected floor <= start"),
        ("floor = 0.1", "floor = 0.1, fixed = 0.05", "expected floor <= fixed"),
        ("floor = 0.1", "floor = 0.1, fixed = nan", "expected floor <= fixed"),
        (
            "floor = 0.1",
            'floor = 0.1, fixed = "low"',
            "fixed: input should be a valid number, got 'low'",
        ),
        ("detector = {", "dedector = {", ":7: roles.dedector: unknown key"),
        (
            '{ backend = "llm" }',
            '"llm"',
            ":8: roles.text: expected a table with keys such as backend, model, ",
        ),
        ("[llm]", "[lmm]", ":3: lmm: unknown key"),
        ("[run]", "[run", "cannot be read as TOML (Expected ']'"),
        ("trials = 5", 'fallback = "luck"', ":15: run.fallback: unknown fallback 'luck'"),
        ("trials = 5", "max_llm_calls = -1", ":15: run.max_llm_calls: max_llm_calls is -1"),
        ("trials = 5", "average_box = [0, 0, 2, 1]", ":15: run.average_box: average_box is (0"),
        (
            "trials = 5",
            "average_box = 1",
            ":15: run.average_box: input should be a valid array, got 1",
        ),
        ("[limits]\ntime_s = 3", "", None),
    ],
)
def test_mistakes_name_line_and_key(tmp_path: Path, old: str, new: str, said: str | None) -> None:
    path = write(tmp_path, GOOD.replace(old, new))
    if said is None:
        assert read_profile(path).limits.time_s > 0
        return
    with pytest.raises(ProfileError) as caught:
        read_profile(path)
    assert said in str(caught.value)


def test_missing_file_and_unknown_name() -> None:
    with pytest.raises(ProfileError, match="no such profile file"):
        read_profile("absent.toml")
    with pytest.raises(UnknownNameError, match="embedded"):
        read_profile("absent")


def test_own_profiles_are_found_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").mkdir()
    write(tmp_path / "profiles", GOOD)
    monkeypatch.setenv("VIPER_HOME", str(tmp_path))
    assert {"embedded", "mine"} <= set(known_profiles())
    assert read_profile("mine").description == ""


def test_an_own_profile_hides_the_shipped_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    own = tmp_path / "profiles" / "embedded.toml"
    own.write_text(GOOD)
    assert known_profiles(tmp_path)["embedded"] == own
    assert read_profile("embedded", tmp_path).path == own


def test_a_backend_nobody_knows_is_said_without_loading(tmp_path: Path) -> None:
    text = GOOD.replace('"owlv2"', '"magic"')
    (problem,) = Profile(read_profile(write(tmp_path, text))).problems()
    assert "unknown detector backend 'magic'; known: ./file.py:Class, grounding_dino" in problem


def test_a_backend_may_be_a_file_beside_the_profile(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("NAME = 'seen beside it'", encoding="utf-8")
    lines = ["from helper import NAME", "class Finder:", "    def __init__(self, model):",
             "        self.model_id = f'{model}: {NAME}'",
             "    def detect(self, encoding, phrases): ..."]  # fmt: skip
    code = "\n".join(lines)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    text = GOOD.replace('"owlv2"', '"./mine.py:Finder"')
    profile = Profile(read_profile(write(tmp_path, text)))
    choice = profile.document.roles["detector"]
    assert choice.backend == f"{tmp_path / 'mine.py'}:Finder" and profile.problems() == []
    assert load_backend("detector", choice.backend, "x", {}).model_id == "x: seen beside it"
    assert backend_class("detector", choice.backend) is backend_class("detector", choice.backend)


def test_a_file_without_the_backend_is_said_in_one_line(tmp_path: Path) -> None:
    for name, reason in (("gone.py", "is in no file"), ("wrong.py", "ZeroDivisionError")):
        (tmp_path / "wrong.py").write_text("1 / 0", encoding="utf-8")
        with pytest.raises(ProfileError, match=f"(?s){name}.*{reason}"):
            backend_class("detector", f"{tmp_path / name}:Finder")


def test_a_missing_file_of_a_backend_is_a_problem_of_its_profile(tmp_path: Path) -> None:
    text = GOOD.replace('"owlv2"', '"./gone.py:Finder"')
    (problem,) = Profile(read_profile(write(tmp_path, text))).problems()
    assert "gone.py:Finder' is in no file" in problem


def test_a_shipped_model_that_does_not_exist(tmp_path: Path) -> None:
    text = GOOD.replace("embedded:detector", "embedded:telepathy")
    (problem,) = Profile(read_profile(write(tmp_path, text))).problems()
    assert "embedded:telepathy: not shipped" in problem


def test_the_small_profile_differs_in_the_writer_and_what_lies_over_it() -> None:
    main, small = read_profile("embedded"), read_profile("embedded-small")
    for helper in ("planner", "explorer"):
        assert main.models[helper].model == "embedded:writer"
    assert main.models["seeker"].model == "embedded:writer_small"
    assert set(small.models) == {"llm", "seeker", "looker"}
    assert small.llm == replace(main.llm, model="embedded:writer_small")
    own = {"name": main.name, "description": main.description, "extends": None, "path": main.path}
    assert not small.confidence  # the calibration is the other writer's
    small = replace(small, models=main.models, confidence=main.confidence)
    assert replace(small, **own) == main


LOOKER_DOMAIN = """
[domain]
about = "all"
[domain.roles.looker]
about = "gauges"
words = "words.txt"
"""


def test_the_domain_of_a_role_names_files_beside_the_profile_that_states_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "words.txt").write_text("gauge dial", encoding="utf-8")
    (own / "base.toml").write_text(GOOD + LOOKER_DOMAIN, encoding="utf-8")
    above = tmp_path / "above.toml"
    above.write_text('extends = "own/base.toml"\n', encoding="utf-8")
    domain = Profile(read_profile(str(above))).components().domain
    assert domain is not None and not domain.unknown_words("cat", lambda word: False)
    assert domain.roles["looker"].unknown_words("cat dial", lambda word: False) == ("cat",)


def test_a_missing_file_of_the_domain_of_a_role_is_a_problem_of_the_profile(tmp_path: Path) -> None:
    (problem,) = Profile(read_profile(write(tmp_path, GOOD + LOOKER_DOMAIN))).problems()
    assert "words.txt: no list of words" in problem
