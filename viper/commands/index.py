"""``viper setup index``: indexes of images and texts on this disk.

`images` embeds the pictures of a folder by the profile's matcher, `text` cuts documents into
passages; both read only what changed. `like` and `search` query an index as the tools of programs
do.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from viper.commands.options import ProfileChoice, open_profile, options_as, state_option
from viper.commands.terminal import Advance, counter, echo_json, echo_table
from viper.errors import UsageError
from viper.escape import for_terminal
from viper.models.media import read_picture
from viper.profiles.files import state_dir
from viper.search.named import NamedPictures, NamedTexts, named_indexes

# Rejected pictures that are named; a folder of the wrong kind would fill the terminal.
_SHOWN = 100

# fmt: off
name_option = click.option("--name", default="default", show_default=True, metavar="NAME",
    help="Name of the index; image_search and text_search of a profile name it as their model.")
limit_option = click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True,
    help="Maximum number of results.")
# fmt: on
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")


@click.group()
def index() -> None:
    """Index images and texts, for knowledge that an image does not show.

    Programs with --api abstract+knowledge search these indexes. After an interruption, the same
    command continues.

    \b
    viper setup index images photos/              captions and names from photos/metadata.jsonl
    viper setup index text notes/ facts.jsonl enwiki-pages-articles.xml.bz2
    viper setup index like photo.jpg              show similar images
    viper setup index search "when was the maker founded?"
    viper setup index list
    """


@index.command()
@click.argument("folder", type=click.Path(path_type=Path))
@name_option
@options_as(ProfileChoice)
def images(choice: ProfileChoice, folder: Path, name: str) -> None:
    """Index the images below FOLDER by their embeddings from the profile's matcher.

    A file metadata.jsonl beside the images may describe them, one object on each line:
    {"file_name": "a.jpg", "caption": "…", "title": "…", "entities": [{"name": "…",
    "description": "…"}]}. Unchanged images are not read again.
    """
    pictures = _pictures(name, choice)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; expected a folder with images")
    pictures.name_folder(folder)
    with _Bar("pictures") as read, _Bar("graph") as added:
        rejections = pictures.index().update(read, added)
    for rejection in rejections[:_SHOWN]:
        click.echo(f"passed over: {for_terminal(rejection.why)}", err=True)
    if len(rejections) > _SHOWN:
        click.echo(f"… and {len(rejections) - _SHOWN} more", err=True)
    click.echo(f"{len(pictures.index()):,} pictures indexed as {name!r}")


@index.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@name_option
@click.option("--prune", is_flag=True, help="Remove files from the index that are not in PATHS.")
@state_option
def text(paths: tuple[Path, ...], name: str, prune: bool, state: Path | None) -> None:
    """Index the texts in PATHS: JSON lines, Markdown or a Wikipedia dump; files or folders.

    A line of a .jsonl file is an object with "text" and, optionally, "title", "url", "direct" (a
    short answer that stands for the whole) and "related" (questions that it answers). Files may
    be packed (.gz, .bz2). Files that did not change are not read again.
    """
    texts = NamedTexts(state_dir(state), name)
    with _Bar("bytes") as bar:
        done = texts.update(paths, lambda _, read, total: bar(read, total), prune=prune)
    removed = f", {done.gone} files taken out" if done.gone else ""
    click.echo(
        f"{done.passages:,} passages indexed as {name!r}: {done.read} files read, "
        f"{done.kept} as before{removed}"
    )


@index.command("like")
@click.argument("picture", type=click.Path(path_type=Path))
@limit_option
@name_option
@json_option
@options_as(ProfileChoice)
def like(choice: ProfileChoice, picture: Path, limit: int, name: str, as_json: bool) -> None:
    """Show the indexed images that are most similar to PICTURE."""
    pixels = read_picture(picture)
    matches = _pictures(name, choice).similar(pixels, limit)
    if as_json:
        for match in matches:
            echo_json(asdict(match))
        return
    if not matches:
        click.echo("no picture is indexed there", err=True)
    for match in matches:
        same = ", the same picture" if match.identical else ""
        click.echo(f"{match.score:.3f} {for_terminal(match.picture_id)}{same}")
        names = "; ".join(entity.name for entity in match.entities)
        for what in (match.title, match.caption, names):
            if what:
                click.echo(f"      {for_terminal(what)}")


@index.command("search")
@click.argument("query")
@limit_option
@name_option
@json_option
@state_option
def search(query: str, limit: int, name: str, as_json: bool, state: Path | None) -> None:
    """Show the indexed passages that match QUERY best."""
    results = NamedTexts(state_dir(state), name).search(query, limit)
    if as_json:
        echo_json(asdict(results))
        return
    if results.is_empty:
        click.echo("nothing is found", err=True)
    if results.direct:
        click.echo(f"answer: {for_terminal(results.direct)}")
    for passage in results.passages:
        click.echo(
            f"{passage.score:6.2f} {for_terminal(passage.title)} ({for_terminal(passage.source)})"
        )
        click.echo(f"       {for_terminal(passage.text)}")
    for question in results.related:
        click.echo(f"related: {for_terminal(question)}")


@index.command("list")
@json_option
@state_option
def list_indexes(as_json: bool, state: Path | None) -> None:
    """List what is indexed."""
    rows = named_indexes(state_dir(state))
    if as_json:
        for kind, name, what in rows:
            click.echo(json.dumps({"kind": kind, "name": name, "holds": what}))
    elif rows:
        echo_table(("kind", "name", "holds"), [tuple(map(for_terminal, row)) for row in rows])
    else:
        click.echo("nothing is indexed yet; see: viper setup index --help", err=True)


class _Bar:
    """A bar that learns its total when it is first told of it; none where nothing is to do."""

    def __init__(self, label: str) -> None:
        self._label, self._stack = label, ExitStack()
        self._advance: Advance | None = None
        self._done = 0

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def __call__(self, done: int, total: int) -> None:
        if self._advance is None:
            self._advance = self._stack.enter_context(counter(self._label, total))
        if done > self._done:
            self._advance("", done - self._done)
            self._done = done


def _pictures(name: str, choice: ProfileChoice) -> NamedPictures:
    profile = open_profile(choice)
    matcher = profile.components().toolbox.models.shared("matcher")
    if matcher is None:
        raise UsageError(f"profile {profile.name} has no matcher; name another with --profile")
    return NamedPictures(state_dir(choice.state), matcher, name)
