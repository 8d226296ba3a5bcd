"""``viper view``: browse evaluation runs in a web page."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands.options import DataTrust, PageOptions, given_by, option, options_as, root_option
from viper.commands.report import library_of, read_run
from viper.commands.terminal import status
from viper.errors import UsageError
from viper.plugins import need_packages
from viper.sandbox.sandbox import Mode
from viper.serve.settings import address_of, listening_at
from viper.strategies.replay import Replayer
from viper.web.viewer.gallery import RunGallery
from viper.web.viewer.index import ViewerIndex


@dataclass(frozen=True, kw_only=True)
class ViewOptions(PageOptions, DataTrust):
    """Options of ``viper view``."""

    # fmt: off
    root: Path | None = given_by(root_option)
    sandbox: Mode = option("--sandbox", default="strict",
        help="Sandbox mode for programs that run again for the pages.")
    # fmt: on


@click.command()
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN [AFTER]", type=click.Path(path_type=Path)
)
@options_as(ViewOptions)
def view(options: ViewOptions, runs: tuple[Path, ...]) -> None:
    """Show the samples of RUN (a folder that viper eval wrote) in a browser, until Ctrl-C.

    Filter by failure, tool, score, kind of query or text, or click into the error diagram. Open a
    sample to see each line of its program beside its result, and to give feedback (as with viper
    learn feedback). With AFTER, a second run over the same samples, the page shows which answers
    became right or wrong and how programs changed. Only feedback is written (and,
    once, the index of a run of an earlier version), and no model is loaded. Reload the page of an
    unfinished run to see new samples.

    Related: viper export RUN SAMPLE writes the program of a sample as a script, which viper apply
    runs on all pictures of a folder.

    \b
    viper view runs/first
    viper view runs/first runs/second
    viper view runs/testA --root refer --port 8001 --no-open
    """
    need_packages(("starlette", "uvicorn"), "viper view")
    if len(runs) > 2:
        raise UsageError(f"viper view shows one run or compares two; got {len(runs)}")
    from viper.serve.gate import AccessRules
    from viper.web.behind_token import serve_page
    from viper.web.viewer.app import ViewedRun, Viewer, create_viewer

    with ExitStack() as stack:
        stores = [stack.enter_context(read_run(run)) for run in runs]
        listening = stack.enter_context(listening_at(options.host, options.port))
        with status("comparing the runs") if len(stores) > 1 else nullcontext():
            index = ViewerIndex(stores)
        library = library_of(stores[0].manifest, options.trust)
        replayer = stack.enter_context(Replayer(library, options.sandbox))
        names = [run.resolve().name for run in runs]
        names = names if len(set(names)) == len(names) else [str(run) for run in runs]
        shelves = tuple(
            ViewedRun(name, store, RunGallery(store, options.root))
            for name, store in zip(names, stores, strict=True)
        )
        access = AccessRules.to_pages(options.host)
        app = create_viewer(Viewer(shelves, index, replayer, access))
        address = address_of(listening, f"{access.prefix}/")
        serve_page(app, listening, address, "Ctrl-C stops it", open_browser=options.open_browser)
