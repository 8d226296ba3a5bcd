"""The tables of seeking and what must hold of them; a catalogue written and indexed for a seed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.data import miniature
from tests.lab.papers.fake_runner import APart, FakeRunner, share
from tests.strategies.seek.test_seek import Bench
from viper.commands.options import ProfileChoice
from viper.errors import UsageError
from viper.profiles import load_profile
from viper.strategies.seek.graph import GROUPS, load_route
from viper_lab.papers.avis import (
    EVERYTHING,
    FAMILIES,
    FIXED,
    GRAPH_TABLE,
    QUESTION_ONLY,
    SEEK,
    UNGUIDED,
    WITHOUT,
    AvisJob,
    AvisStudy,
    Columns,
    columns,
    judged,
    main_table,
    picked,
)
from viper_lab.papers.cell_runner import CellRunner, Scale
from viper_lab.papers.options import Options
from viper_lab.papers.parts import KnowledgePart, set_part
from viper_lab.papers.tables import compared, entries, gains
from viper_lab.world.knowledge.questions import UNANSWERABLE

PART = APart("okvqa")


def fake(shares: dict[str, float], groups: Any = lambda number: {}) -> CellRunner:
    return cast(CellRunner, FakeRunner(share(shares, 0.2), groups=groups))


def test_every_cell_names_a_graph_or_sequence_that_there_is() -> None:
    tables = (main_table(quick=False), GRAPH_TABLE)
    cells = [cell for table in tables for cell in table.cells.values()]
    for cell in cells:
        load_route(cell.options.graph or "").without(cell.options.without_actions or ())
    assert len({cell.name for cell in cells}) == len(cells) - 1  # seek stands in both
    assert WITHOUT.keys() == GROUPS.keys() and QUESTION_ONLY in cells and UNGUIDED in cells


def test_columns_are_those_that_something_falls_into() -> None:
    runner = fake({"seek": 0.5}, lambda number: {"hops": str(number % 4), "answerable": "no"})
    rows = [
        one
        for one in entries(Columns(runner), main_table(quick=True), columns([PART]))
        if one.name == "seek"
    ]
    assert [(one.family, one.n) for one in rows] == [
        ("all", 80),
        ("unanswerable", 80),
        ("0 or 1 hops", 40),
        ("2 or 3 hops", 40),
    ]
    assert rows[0].figure.mean == 0.5
    assert set(FAMILIES) >= {one.family for one in rows}


def test_gains_are_paired_with_seeking() -> None:
    runner = fake({"seek": 0.5, FIXED[2].name: 0.3})
    found = {
        one.name: one for one in gains(Columns(runner), main_table(quick=True), columns([PART]))
    }
    assert found[f"{FIXED[2].name} -> seek"].difference.value == pytest.approx(0.2)
    assert len(found) == 3 + len(FIXED)


def test_claims_name_the_best_sequence() -> None:
    study = AvisStudy([PART], quick=False)
    runner = fake({"seek": 0.5, FIXED[0].name: 0.45, EVERYTHING.name: 0.5, UNGUIDED.name: 0.3})
    above, everything, graph, world = judged(runner, study)
    assert everything.holds is False and "+0.0" in everything.reason
    assert above.holds is False and "fixed: seeing, 45.0: +5.0" in above.reason
    assert graph.holds is True and world.holds is None
    above, _, graph, _ = judged(fake({"seek": 0.5}), AvisStudy([PART], quick=True))
    assert above.holds is True and graph.holds is None and "--quick" in graph.reason


def test_enough_unanswerable_questions_are_asked_in_the_full_run() -> None:
    part = KnowledgePart(Path("unused"), 120, "test")
    assert AvisStudy([part], quick=True).unanswerable == []
    (more,) = AvisStudy([part]).unanswerable
    asked = [sample for seed in range(3) for sample in more.evaluation(seed, 120).samples()]
    assert len({sample.sample_id for sample in asked}) == len(asked) >= 60
    assert {sample.target for sample in asked} == {UNANSWERABLE}
    assert (SEEK, more) in AvisStudy([part]).cells()
    among = [one for one in part.evaluation(0, 120).samples() if one.target == UNANSWERABLE]
    designs = {one.sample_id for one in among if one.groups["kind"] in ("design", "marked")}
    assert designs and designs <= {sample.sample_id for sample in asked}


def test_what_was_picked_is_what_ended_the_looking() -> None:
    path = [
        {"question": "who makes the red cube?", "visual": "what is it called?"},
        {"query": "what is it called?", "verdict": "uninformative", "extracted": ""},
        {"query": "what is it called?", "verdict": "answer", "extracted": "Velora"},
        {"query": "who makes Velora?", "verdict": "answer", "extracted": "Tarnix"},
    ]
    assert picked(path) == "Velora" and picked(path[:2]) == "" and picked([]) == ""


def job_study(job: AvisJob) -> AvisStudy:
    components = load_profile(job.options.profile.profile).components()
    return job.study(cast(CellRunner, SimpleNamespace(writers={"main": components})))


def an_avis_job(folder: Path, set_name: str, profile: str, **own: Any) -> AvisJob:
    choice = ProfileChoice(profile=profile)
    return AvisJob(Options(False, 1, 2, folder, set_name, folder, None, True, choice), **own)


@pytest.mark.parametrize(
    ("set_name", "profile", "settings"),
    [
        ("world", "embedded", {}),
        ("world", "paper-avis", {"decisions": "written"}),
        ("infoseek", "paper-avis", {"decisions": "written", "exhausted": "memory"}),
        ("okvqa", "embedded", {"exhausted": "memory"}),
    ],
)
def test_decisions_are_shown_to_planners_in_words_and_memory_answers_on_real_questions(
    tmp_path: Path, set_name: str, profile: str, settings: dict[str, str]
) -> None:
    study = job_study(an_avis_job(tmp_path, set_name, profile))
    assert study.settings == settings
    for cell, _ in study.cells():
        own = {"decisions": ""} if cell.name == UNGUIDED.name else {}
        assert {**settings, **own}.items() <= cell.options.changes.items()
        assert ("decisions" in cell.options.changes) == bool({"decisions"} & {*settings, *own})


def test_decisions_that_cannot_be_read_end_it_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.jsonl: no such file of decisions"):
        job_study(an_avis_job(tmp_path, "world", "embedded", decisions="none.jsonl"))


def test_real_questions_get_an_answer_from_memory_where_nothing_is_found(tmp_path: Path) -> None:
    root = miniature.infoseek(tmp_path / "infoseek")

    def finds_nothing(prompt: str) -> str:
        if "Searches found no answer" in prompt:
            return "a guess"
        if "Split the question" in prompt:
            return "visual: what is it?\nknowledge: where is #?"
        return "verdict: uninformative" if "You judge" in prompt else "Next: caption"

    components = Bench(finds_nothing).reasoner.components
    study = AvisStudy([set_part("infoseek", root, "val", "train")], True, {"exhausted": "memory"})
    runner = CellRunner({"main": components}, {}, tmp_path / "out", Scale(2, (0,)))
    with closing(runner):
        # the boxes of the fake detector lie outside this picture
        seeing = replace(SEEK, options=SEEK.options.changed(without_actions=("detect",)))
        table = study.under_settings(compared("one", [seeing], seeing))
        (cell,), (part,) = table.cells.values(), study.parts
        results = runner.results(cell, part, 0)
        with runner.store_of(cell, part, 0) as store:
            traces = [store.trace(each.sample_id, each.seed) or {} for each in results]
    assert [trace["answer"]["value"] for trace in traces] == ["a guess"] * 2
    assert all(trace["path"][-1]["answer"] == "a guess" for trace in traces)
    assert all("memory" in trace["path"][-1] for trace in traces)


def test_a_seed_s_catalogue_is_indexed_once_and_searched(tmp_path) -> None:
    components = load_profile("embedded").without_examples().components()
    try:
        part = KnowledgePart(tmp_path, 3, "val")
        first, second = (part.equipped(components, seed) for seed in (1, 1))
        assert first.toolbox.models.trait("text_search", "name") == "texts:val-1"
        assert part.questions(1).keys() == {
            sample.sample_id for sample in part.evaluation(1, 3).samples()
        }
        written = sorted(path.name for path in (tmp_path / "worlds").iterdir())
        assert written == ["val-1-3"] and second.toolbox is not first.toolbox
        design = next(iter(part.questions(1).values())).shown[0]
        texts = first.toolbox.models.get("text_search")
        assert any(design.name in one.text for one in texts.search(design.name, 5).passages)
        assert components.toolbox.models.trait("text_search", "name") != "texts:val-1"
        again = KnowledgePart(tmp_path, 3, "val").equipped(components, 1)
        assert again.toolbox.models.trait("image_search", "model_id") == first.toolbox.models.trait(
            "image_search", "model_id"
        )
    finally:
        components.close()
