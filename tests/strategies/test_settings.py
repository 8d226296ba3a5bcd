"""Settings: declared once, offered wherever the declaration says."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace

import pytest

from viper.errors import UnknownNameError, UsageError
from viper.reasoner import RunOptions
from viper.strategies import strategy_names
from viper.strategies.explore import ExploreSettings
from viper.strategies.seek import SeekSettings
from viper.strategies.seek.graph import GROUPS
from viper.strategies.settings import (
    RunSettings,
    Setting,
    Settings,
    all_settings,
    declared_settings,
    setting,
    strategy_settings,
)


@dataclass(frozen=True)
class Taken(Settings):
    trials: int = setting(1, "A name that there is already.", least=1)


def test_a_strategy_declares_its_own() -> None:
    having = {"plan", "seek", "explore", "look"}
    assert set(strategy_settings()) == having <= set(strategy_names())
    assert {one.strategy for one in all_settings().values()} == {"", *having}


@pytest.mark.parametrize("one", all_settings().values(), ids=list(all_settings()))
def test_every_declaration_is_whole(one: Setting) -> None:
    assert one.declaration.help.endswith(".") and "\n" not in one.help
    one.check(one.default)
    assert not (one.declaration.is_path and one.declaration.http), "a caller may not name files"


def test_one_name_is_one_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "viper.strategies.settings.settings_class", lambda name: Taken if name == "vqa" else None
    )
    with pytest.raises(UsageError, match="strategy vqa: the setting trials is declared by every"):
        all_settings()


def test_changes_reach_the_strategy_that_they_are_for() -> None:
    run = RunSettings().changed(trials=2, max_turns=5)
    assert (run.trials, run.of(ExploreSettings).max_turns) == (2, 5)
    assert run.of(SeekSettings) == SeekSettings() and set(run.own) == {"explore"}
    assert run.changed(trials=3, max_turns=12) == RunSettings()
    assert run.changed(max_turns=12).own == {}
    assert run.flat()["max_turns"] == 5 and json.dumps(run.flat())
    for wrong in (0, 1001):
        with pytest.raises(UsageError, match=f"max_turns is {wrong}; expected 1 to 1000"):
            run.changed(max_turns=wrong)


def test_the_manifest_has_the_keys_of_earlier_versions() -> None:
    earlier = """
        api trials temperature retry_temperature feedback self_tune examples retrieval
        example_order votes prompt_style max_tokens seed api_budget router max_llm_calls
        max_llm_tokens fallback average_box correct_demonstrations incorrect_demonstrations graph
        decisions max_steps without_actions max_cost_usd max_turns max_seconds
    """
    assert set(RunSettings().flat()) >= set(earlier.split())


def test_a_group_stands_for_its_actions() -> None:
    expected = tuple(dict.fromkeys([*GROUPS["search"], "ocr"]))
    assert SeekSettings(without_actions=("search", "ocr")).without_actions == expected


def test_options_are_keywords_attributes_and_values() -> None:
    options = RunOptions(strategy="seek", trials=2, graph="every", votes=None)
    assert (options.trials, options.graph, options.votes) == (2, "every", None)
    assert options == pickle.loads(pickle.dumps(options)) and hash(options)
    assert options == RunOptions(strategy="seek").changed(trials=2).changed(graph="every")
    assert replace(options, task="question").changes == options.changes
    assert options.changed(graph=None).settings(RunSettings()) == RunSettings("seek", trials=2)
    assert not hasattr(options, "nope")
    with pytest.raises(UnknownNameError, match="unknown setting 'nope'; known: abstain, api, "):
        RunOptions(nope=1)
    with pytest.raises(TypeError):  # the third was the strategy, and would be the sample's id
        RunOptions("question", (), "seek")  # type: ignore[misc]


def test_every_setting_of_every_class_is_known() -> None:
    classes = [RunSettings, *strategy_settings().values()]
    assert list(all_settings()) == [one.name for kind in classes for one in declared_settings(kind)]
