"""``viper setup index``: indexes of images and texts on this disk.

`images` embeds the pictures of a folder by the profile's matcher, `text` cuts documents into
passages; both read only what changed. `like` and `search` query an index as the tools of programs
do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from viper.commands.options import ProfileChoice, open_profile, options_as, state_option
from viper.commands.terminal import Advance, counter, echo_json, echo_table, note, warn
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

    Programs with --api abstract+more+knowledge search these indexes. After an interruption, the
    same command continues.

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
    with _bar("pictures") as read, _bar("graph") as added:
        rejections = pictures.index().update(read, added)
    for rejection in rejections[:_SHOWN]:
        note(f"passed over: {for_terminal(rejection.why)}")
    if len(rejections) > _SHOWN:
        note(f"… and {len(rejections) - _SHOWN} more")
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
    with _bar("bytes") as bar:
        done = texts.update(paths, lambda _, read, total: bar(read, total), prune=prune)
    count, first = done.unread
    if count:
        warn(f"{count:,} articles could not be read: {for_terminal(first)}")
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
        note("no picture is indexed there")
    for match in matches:
        same = ", the same picture" if match.identical else ""
        click.echo(f"{match.score:.3f} {for_terminal(match.picture_id)}{same}")
        names = "; ".join(entity.name for entity in match.entities)
        for what in filter(None, (match.title, match.caption, names)):
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
        note("nothing is found")
    if results.direct:
        click.echo(f"answer: {for_terminal(results.direct)}")
    for passage in results.passages:
        title, source = for_terminal(passage.title), for_terminal(passage.source)
        click.echo(f"{passage.score:6.2f} {title} ({source})\n       {for_terminal(passage.text)}")
    for question in results.related:
        click.echo(f"related: {for_terminal(question)}")


@index.command("list")
@json_option
@state_option
def list_indexes(as_json: bool, state: Path | None) -> None:
    """List what is indexed."""
    rows, header = named_indexes(state_dir(state)), ("kind", "name", "holds")
    if as_json:
        for row in rows:
            click.echo(json.dumps(dict(zip(header, row, strict=True))))
    elif rows:
        echo_table(header, [tuple(map(for_terminal, row)) for row in rows])
    else:
        note("nothing is indexed yet; see: viper setup index --help")


@contextmanager
def _bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function whose first call tells the total and shows the bar."""
    advance: Advance | None = None
    shown = 0
    with ExitStack() as stack:

        def update(done: int, total: int) -> None:
            nonlocal advance, shown
            if advance is None:
                advance = stack.enter_context(counter(label, total))
            if done > shown:
                advance("", done - shown)
                shown = done

        yield update


def _pictures(name: str, choice: ProfileChoice) -> NamedPictures:
    profile = open_profile(choice)
    matcher = profile.components().toolbox.models.shared("matcher")
    if matcher is None:
        raise UsageError(f"profile {profile.name} has no matcher; name another with --profile")
    return NamedPictures(state_dir(choice.state), matcher, name)
