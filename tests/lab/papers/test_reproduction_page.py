"""A reproduction as JSON, text and a page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import viper
from viper.evaluate.intervals import Estimate, OverSeeds
from viper_lab.papers.report import as_text, cells_of, gains_of, page, write_reports
from viper_lab.papers.result import Claim, Gain, Reproduction, TableCell

ODD = "<script>alert('1')</script> & $x_1$ \x1b[31m"


def an_entry(name: str, family: str, mean: float = 0.5, deviation: float | None = 0.1) -> TableCell:
    return TableCell("table 2", name, family, OverSeeds(mean, deviation, 3), 600)


def a_reproduction() -> Reproduction:
    return Reproduction(
        "Programmers",
        [
            an_entry("zero-shot", "referring", 0.123456789, 0.0123456789),
            an_entry("zero-shot", "video"),
            TableCell(
                "table 2", ODD, "referring", OverSeeds(1.0, None, 1), 200, "0 examples mined"
            ),
        ],
        [
            Gain("table 2", f"zero-shot -> {ODD}", "referring", Estimate(0.25, 600, 0.2, 0.3)),
            Gain("renamed API", "old -> new", "referring", Estimate(-0.01, 600, -0.03, 0.01)),
        ],
        [
            Claim("it gains", True, "+25.0", 0.25, (0.2, 0.3)),
            Claim("it never loses", False, ODD, -0.1, (-0.2, 0.0)),
            Claim("another model", None, "left out"),
        ],
        {"seeds": [0, 1, 2], "odd": ODD},
    )


def test_as_json() -> None:
    found = json.loads(json.dumps(a_reproduction().to_json(), allow_nan=False))
    assert list(found) == ["schema", "title", "rows", "gains", "claims", "facts"]
    assert found["rows"][0] == {
        "table": "table 2", "name": "zero-shot", "family": "referring", "mean": 0.123457,
        "std": 0.012346, "n": 600,
    }  # fmt: skip
    assert found["rows"][2]["std"] is None and found["rows"][2]["note"] == "0 examples mined"
    assert found["claims"] == [
        {"claim": "it gains", "holds": True, "reason": "+25.0", "gain": 0.25,
         "interval": [0.2, 0.3]},
        {"claim": "it never loses", "holds": False, "reason": ODD, "gain": -0.1,
         "interval": [-0.2, 0.0]},
        {"claim": "another model", "holds": None, "reason": "left out", "gain": None,
         "interval": None},
    ]  # fmt: skip
    assert found["gains"][0]["interval"] == [0.2, 0.3]


def test_the_documented_form_is_the_one_that_is_printed() -> None:
    text = Path(viper.__file__).parents[1].joinpath("docs", "reproducing.md").read_text("utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    documented, found = json.loads(block), a_reproduction().to_json()
    assert list(documented) == list(found)
    for name in ("gains", "claims"):
        assert list(documented[name][0]) == list(found[name][0])
    assert list(documented["rows"][0]) == list(found["rows"][2])


def test_as_text() -> None:
    text = as_text(a_reproduction())
    lines = text.splitlines()
    assert lines[0] == "Programmers" and "\x1b" not in text
    assert re.search(r"zero-shot +12\.3 ± 1\.2 +50\.0 ± 10\.0 +600", text)
    assert "+25.0 [+20.0, +30.0]" in text and "table 2: gains in points" in text
    # gains of what has no row are told, too
    assert "renamed API: gains in points, paired, with 95% intervals" in lines
    assert "-1.0 [-3.0, +1.0]" in text
    assert [line[:8] for line in lines[-3:]] == ["  yes   ", "  no    ", "  open  "]


def test_what_was_not_measured_is_a_dash() -> None:
    lines = cells_of([row for row in a_reproduction().rows if row.table == "table 2"])
    assert lines[0] == ["", "referring", "video", "n", "note"]
    assert lines[2] == [ODD, "100.0", "–", "200", "0 examples mined"]
    steps = [
        Gain("t", "a", "x", Estimate(0.1, 9, 0.0, 0.2)),
        Gain("t", "b", "y", Estimate(0.1, 9, 0.0, 0.2)),
    ]
    assert gains_of(steps) == [
        ["", "x", "y", "n"],
        ["a", "+10.0 [+0.0, +20.0]", "–", "9"],
        ["b", "–", "+10.0 [+0.0, +20.0]", "9"],
    ]


class Seen(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.values: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.values += [(name, value or "") for name, value in attrs]


def test_the_page_escapes_and_needs_no_network() -> None:
    text = page(a_reproduction())
    seen = Seen(text)
    assert "script" not in seen.tags and "link" not in seen.tags and "img" not in seen.tags
    assert "&lt;script&gt;" in text and "\x1b" not in text
    for name, value in seen.values:
        assert not name.startswith("on")
        if name in ("href", "src", "xlink:href", "action"):
            assert value.startswith("#"), (name, value)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "default-src 'none'" in text
    for heading in ("What must hold", "Table 2", "Renamed API", "Models, seeds, settings"):
        assert f"<h2>{heading}</h2>" in text


def test_both_files_are_written_again_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    write_reports(a_reproduction(), folder)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(first) == {"report.json", "report.html"}
    assert json.loads(first["report.json"]) == a_reproduction().to_json() | {
        "claims": json.loads(json.dumps(a_reproduction().to_json()))["claims"]
    }
    write_reports(a_reproduction(), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first
