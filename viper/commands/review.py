"""``viper review``: label the cases of a folder that tell most, in a browser."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.fit import JobChoice, job_profile, show_runs
from viper.plugins import need_packages


@dataclass(frozen=True, kw_only=True)
class ReviewOptions(cli.PageOptions, JobChoice):
    """Options of ``viper review``."""


@click.command()
@click.argument("folder", metavar="JOB", type=click.Path(path_type=Path))
@click.argument("pictures", metavar="FOLDER", type=click.Path(path_type=Path))
@cli.options_as(ReviewOptions)
def review(options: ReviewOptions, folder: Path, pictures: Path) -> None:
    """Label pictures of FOLDER for JOB (of viper fit) in a browser, until Ctrl-C.

    Cases on which the kept programs disagree come first, then doubtful ones. A key gives an answer,
    u takes it back, s skips; where the answer is a box, drag it. Each label is stored at once, and
    the estimate moves with it. Refit fits again in the background: the program is replaced only by
    one that is surely better, and the page shows what changed.

    \b
    viper review shelf photos/
    """
    need_packages(("starlette", "uvicorn"), "viper review")
    from viper.jobs.job import Job, read_job
    from viper.jobs.review import review_of
    from viper.jobs.review_page import create_review
    from viper.serve.gate import AccessRules
    from viper.serve.settings import address_of, listening_at
    from viper.web.behind_token import serve_page

    record = read_job(folder)
    profile = job_profile(folder, options)
    cli.fetch_models(profile)
    with ExitStack() as stack:
        job = stack.enter_context(Job(folder))
        listening = stack.enter_context(listening_at(options.host, options.port))
        found = review_of(job, record, profile, pictures, show_runs)
        access = AccessRules.to_pages(options.host)
        app = create_review(found, access, lambda total, done: nullcontext(lambda row: None))
        address = address_of(listening, f"{access.prefix}/")
        serve_page(app, listening, address, "Ctrl-C stops it", open_browser=options.open_browser)
