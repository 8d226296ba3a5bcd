"""Texts from JSON lines, Markdown and a Wikipedia dump."""

import bz2
import gzip
import json
from html import escape

import pytest

from viper.errors import DataError, UsageError
from viper.search.documents import Document, documents, passages, text_files


def read(path, text, pack=bytes):
    path.write_bytes(pack(text.encode()))
    return [document for document, _ in documents(path)]


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.jsonl", bytes), ("a.jsonl.gz", gzip.compress), ("a.JSONL.bz2", bz2.compress)],
)
def test_json_lines(tmp_path, name, pack):
    lines = [
        {"title": "Velora", "text": "A lamp.\n\nBy Tarnix.", "direct": "a lamp", "url": "x.org/1"},
        {"contents": "No title.", "questions": ["Why?", 3, ""], "id": 17},
    ]
    one, two = read(tmp_path / name, "\n\n".join(map(json.dumps, lines)), pack)
    assert one == Document("Velora", "A lamp.\n\nBy Tarnix.", "a lamp", (), "x.org/1")
    assert two == Document("", "No title.", "", ("Why?",), "17")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "no JSON"),
        ("[1]", "no text; expected"),
        ('{"text": 3}', "no text; expected"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_line_that_is_no_text_is_named(tmp_path, line, says):
    with pytest.raises(DataError, match=rf"a.jsonl:2: {says}"):
        read(tmp_path / "a.jsonl", '{"text": "good"}\n' + line)


def test_a_file_that_is_cut_short_says_so(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "x"}\n' * 1000)[:-20])
    with pytest.raises(DataError, match=r"a.jsonl.gz: cannot be read"):
        list(documents(path))


def test_markdown_by_its_sections(tmp_path):
    text = "intro\n\n# Tarnix\nA maker.\n\n## Places ##\nDolm.\n```\n# no head\n```\n### Empty\n"
    found = read(tmp_path / "maker.md", text)
    assert [(one.title, one.text.split()) for one in found] == [
        ("Tarnix", ["intro"]),
        ("Tarnix", ["A", "maker."]),
        ("Tarnix: Places", ["Dolm.", "```", "#", "no", "head", "```"]),
    ]
    assert {one.source for one in found} == {"maker.md"}
    assert [one.title for one in read(tmp_path / "plain.md", "no heading")] == ["plain"]
    assert read(tmp_path / "empty.md", "") == []


def page(title, text, ns="0", more=""):
    return (
        f"<page><title>{title}</title><ns>{ns}</ns>{more}"
        f"<revision><text>{text}</text></revision></page>"
    )


def dump(*pages):
    return (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">'
        + "".join(pages)
        + "</mediawiki>"
    )


def test_a_wikipedia_dump_without_its_markup(tmp_path):
    text = dump(
        page("Tarnix", "'''Tarnix''' is a [[lamp|maker of lamps]].&lt;ref&gt;x&lt;/ref&gt;{{a}}"),
        page("Talk:Tarnix", "nothing", ns="1"),
        page("Tarnex", "#REDIRECT [[Tarnix]]", more='<redirect title="Tarnix"/>'),
        page("Dolm", "A town."),
    )
    found = read(tmp_path / "wiki.xml.bz2", text, bz2.compress)
    assert [(one.title, one.text.strip()) for one in found] == [
        ("Tarnix", "Tarnix is a maker of lamps."),
        ("Dolm", "A town."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><mediawiki>&b;</mediawiki>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><mediawiki>&a;</mediawiki>',
        "<mediawiki><page>",
        "no xml",
    ],
)
def test_a_hostile_or_broken_dump_is_refused_in_one_line(tmp_path, text):
    with pytest.raises(DataError, match=r"wiki.xml: no dump of MediaWiki"):
        read(tmp_path / "wiki.xml", text)


def test_passages_are_paragraphs_put_together_and_cut_at_sentences():
    text = "One two.\n\nThree four.\n\n" + "Word " * 70 + "end. " + "More " * 80 + "end."
    found = list(passages(Document("t", text)))
    assert found[0] == "One two. Three four." + " Word" * 70 + " end."
    assert [len(one.split()) for one in found] == [75, 81]
    assert list(passages(Document("t", "x " * 250))) == ["x " * 99 + "x"] * 2 + ["x " * 49 + "x"]
    assert list(passages(Document("t", " \n\n "))) == []


def test_which_files_are_taken(tmp_path):
    for name in ("b.md", "a.jsonl", "x.txt", ".hidden.md", "sub/c.xml.bz2", ".git/d.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = text_files([tmp_path, tmp_path / "b.md"])
    assert [str(one.relative_to(tmp_path)) for one in found] == ["a.jsonl", "b.md", "sub/c.xml.bz2"]
    for path, says in (
        (tmp_path / "x.txt", "cannot be indexed"),
        (tmp_path / "no", "no such file"),
    ):
        with pytest.raises(UsageError, match=says):
            text_files([path])
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match=r"nothing to index there; known: \.jsonl, "):
        text_files([tmp_path / "none"])


def dump_of(*texts):
    pages = "".join(
        f"<page><title>T{number}</title><ns>0</ns><revision><text>{escape(text)}</text></revision>"
        "</page>"
        for number, text in enumerate(texts)
    )
    return f"<mediawiki>{pages}</mediawiki>"


def test_references_and_tables_in_each_other_are_left_out(tmp_path):
    pytest.importorskip("mwparserfromhell")
    found = read(
        tmp_path / "dump.xml",
        dump_of(
            "A lamp.\n{|\n| cell <ref>source</ref>\n|}\nBy Tarnix.",
            "One <ref>x <ref>y</ref> z</ref>two.",
            "<gallery>a.png|<ref>b</ref></gallery>Three.",
        ),
    )
    assert [one.text.split() for one in found] == [
        ["A", "lamp.", "By", "Tarnix."], ["One", "two."], ["Three."],
    ]  # fmt: skip
    assert not any(one.unread for one in found)


def test_an_article_that_cannot_be_read_is_told_and_the_others_are_read(tmp_path):
    pytest.importorskip("mwparserfromhell")
    bombs = ["<ref>" * 60_000, "{{a|" * 20_000, "[[a|" * 20_000, "}}" * 9_000 + "{{" * 9_000]
    found = read(tmp_path / "dump.xml", dump_of("One.", *bombs, "Two."))
    assert [one.text for one in found] == ["One.", "", "", "", "", "Two."]
    assert all("not closed" in one.unread for one in found[1:-1])


def test_a_long_dump_takes_no_more_memory_than_a_short_one(tmp_path):
    pytest.importorskip("mwparserfromhell")
    import tracemalloc

    peaks = []
    for count in (50, 5_000):
        (tmp_path / "dump.xml").write_text(dump_of(*["A lamp by Tarnix."] * count))
        tracemalloc.start()
        assert sum(1 for _ in documents(tmp_path / "dump.xml")) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 500_000
