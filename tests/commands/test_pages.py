"""Pages of runs, and the command lines they give."""

from __future__ import annotations

import errno
import html
import os
import re
import shlex
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set
from tests.evaluate.run_samples import a_manifest, a_row
from viper.commands.options import command_line
from viper.evaluate.runs.store import RunStore
from viper.web.sample_pages import rerun_command


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """A question about a picture, for the fake models."""
    _, profile = a_set(tmp_path / "set", 2)
    picture = tmp_path / "set" / "pictures" / "0.png"
    return ["run", str(picture), "what color is thing 0?", "--profile", str(profile)]


def test_a_page_is_written_beside_the_answer(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "page.html"
    _, plain, _ = viper(capsys, *asked)
    code, out, err = viper(capsys, *asked, "--html", str(target), "--seed", "4")
    assert code == 0 and out == plain and f"written: {target}; open it in a browser" in err
    page = target.read_text("utf-8")
    assert "what color is thing 0?" in page and "data:image/png;base64," in page
    assert f"viper run --seed 4 --profile {asked[-1]} " in page and "--html" not in page
    assert [path.name for path in target.parent.iterdir()] == ["page.html"]
    (shown,) = re.findall(r'<pre id="command"[^>]*>(.*)</pre>', page)
    assert viper(capsys, *shlex.split(html.unescape(shown))[1:])[:2] == (0, plain)


@pytest.mark.parametrize("option", ["--html page.html", "--save answer.png"])
def test_a_file_that_cannot_be_written_loses_no_answer(
    option: str,
    asked: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk is full only when the file is written."""
    name, file = option.split()
    _, plain, _ = viper(capsys, *asked)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("viper.storage.files.replace_file", full)
    code, out, err = viper(capsys, *asked, name, str(tmp_path / file))
    assert code == 1 and out == plain and "Traceback" not in err
    assert file in err.splitlines()[-1] and "the disk is full" in err.splitlines()[-1]


class Run:
    """A set of six questions and where its run goes."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.set, self.profile = a_set(folder / "set", 6)
        self.folder, self._capsys = folder / "run", capsys

    def eval(self, *more: str) -> tuple[int, str, str]:
        given = ["eval", str(self.set), "--profile", str(self.profile), "--out", str(self.folder)]
        return viper(self._capsys, *given, *more)

    def links(self) -> list[Path]:
        """The trace pages that the report links to."""
        page = (self.folder / "report.html").read_text("utf-8")
        return [self.folder / link for link in re.findall(r'href="(traces/[^"]+)"', page)]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


def test_every_sample_of_a_report_links_to_its_trace(run: Run) -> None:
    code, _, err = run.eval("--seeds", "2")
    assert code == 0 and "trace pages: 12/12" in err
    links = run.links()
    assert len(set(links)) == 12 and all(link.is_file() for link in links)
    page = links[0].read_text("utf-8")
    assert "Right is:" in page and 'href="../report.html"' in page


def test_pages_know_the_routines_beside_a_profile(run: Run) -> None:
    lines = ["from viper import routine", "@routine", "def twice(n: int) -> int:",
             '    """Double a number."""', "    return 2 * n"]  # fmt: skip
    (run.profile.parent / "own.py").write_text("\n".join(lines), "utf-8")
    text = run.profile.read_text("utf-8").replace("[run]", '[run]\napi = "abstract+own.py"')
    run.profile.write_text(text, "utf-8")
    code, _, err = run.eval()
    assert code == 0 and "trace pages: 6/6" in err


def test_no_page_asks_for_no_trace_page(run: Run) -> None:
    assert run.eval("--no-html")[0] == 0
    assert not (run.folder / "traces").exists() and not (run.folder / "report.html").exists()


def test_the_line_of_a_trace_answers_its_sample_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run.folder.parent)
    more = ["--limit=4", "--seeds", "2", f"--out={run.folder}", "--resume"]
    given = ["eval", str(run.set), "--profile", str(run.profile), "--out", "elsewhere", *more]
    monkeypatch.setattr(sys, "argv", ["/somewhere/viper/__main__.py", *given])
    assert run.eval(*more)[0] == 0
    page = next(page for page in run.links() if "-1-" in page.name)
    (shown,) = re.findall(r'<pre id="command"[^>]*>(.*)</pre>', page.read_text("utf-8"))
    words = shlex.split(html.unescape(shown))
    assert words[0] == "viper" and len(words) == len({*words})
    code, _, err = viper(capsys, *words[1:])
    assert code == 0, err
    (again,) = Path("runs").iterdir()
    with RunStore.read(again) as store:
        (first, second) = store.rows()
    assert first.sample_id == second.sample_id == page.name.partition("-")[0]
    assert (first.seed, second.seed) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--root", "~/my sets"], "--root ~/'my sets'"),
        (["--root=~/sets", "--ids=a,b"], "--root ~/sets"),
        (["--resume", "--out", "runs/a", "--json"], "--json"),
    ],
)
def test_the_line_of_a_trace_runs_in_a_shell(arguments: list[str], line: str) -> None:
    manifest = a_manifest(arguments=("__main__.py", "eval", "world", *arguments))
    line = " ".join(filter(None, ["viper eval world", line, "--ids s00003 --seed 0 --seeds 1"]))
    assert rerun_command(manifest, a_row(3)) == line


def test_a_report_written_later_makes_the_pages_too(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.eval("--no-html")
    code, out, _ = viper(capsys, "report", str(run.folder), "--html")
    assert code == 0 and out.split() == [str(run.folder / "report.html")]
    pages = {link: link.stat().st_mtime_ns for link in run.links()}
    assert len(pages) == 6
    viper(capsys, "report", str(run.folder), "--html")
    assert {link: link.stat().st_mtime_ns for link in run.links()} == pages


def test_where_the_samples_are_gone_there_is_a_report_without_links(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.eval("--no-html")
    (run.set.parent / "pictures" / "0.png").unlink()
    viper(capsys, "report", str(run.folder), "--html")
    assert [link.name[:2] for link in run.links()] == ["q4", "q5"]  # four share a picture
    run.set.unlink()
    for page in run.links():
        page.unlink()
    code, _, err = viper(capsys, "report", str(run.folder), "--html")
    assert code == 0 and run.links() == [] and "viper: no trace pages: " in err


def repeated(*arguments: str) -> str:
    @click.command("ask")
    @click.argument("things", nargs=-1)
    @click.option("--name", "-n", multiple=True)
    @click.option("--count", type=int, default=3)
    @click.option("--tune/--no-tune", default=None)
    @click.option("--quiet", is_flag=True)
    @click.option("--html")
    def ask(**given: object) -> None:
        click.echo(command_line(click.get_current_context(), ("html",)), nl=False)

    return CliRunner().invoke(ask, arguments, prog_name="viper").output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["a b", "it's"], "viper 'a b' 'it'\"'\"'s'"),
        (["x", "--count", "3"], "viper --count 3 x"),
        (["-n", "a", "x", "-n", "b"], "viper --name a --name b x"),
        (["--no-tune", "--quiet", "x"], "viper --no-tune --quiet x"),
        (["--tune", "x", "--html", "p.html"], "viper --tune x"),
        (["--", "-x"], "viper -- -x"),
    ],
)
def test_the_line_repeats_what_was_typed(arguments: list[str], line: str) -> None:
    assert repeated(*arguments) == line
    assert repeated(*shlex.split(line)[1:]) == line


def test_quiet_prints_the_answer_alone(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, page = tmp_path / "answer.png", tmp_path / "page.html"
    files = ["--save", str(picture), "--html", str(page)]
    code, _, err = viper(capsys, *asked, *files)
    assert code == 0 and f"written: {picture}\n" in err and f"written: {page};" in err
    code, out, err = viper(capsys, *asked, *files, "-q")
    assert code == 0 and out and err == ""
