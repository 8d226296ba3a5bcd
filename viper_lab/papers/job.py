"""A reproduction at work: profiles are opened, cells answered, reports written."""

from __future__ import annotations

import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from viper.commands.terminal import hint_to_go_on, status
from viper.errors import EXIT_FAILED, EXIT_OK
from viper.evaluate.campaign import bound_arenas
from viper.profiles.files import known_profiles
from viper.schema import to_json
from viper.strategies.base import Components
from viper.threads import available_cores
from viper_lab.papers import workers
from viper_lab.papers.cell_runner import CellRunner, Scale
from viper_lab.papers.options import Options
from viper_lab.papers.plan import plan_of, watching
from viper_lab.papers.report import PAGE, as_text, write_reports
from viper_lab.papers.result import Reproduction

_LINE_EVERY_S = 20.0


@dataclass(frozen=True)
class PaperJob(ABC):
    """A reproduction whose cells a runner answers."""

    options: Options

    @abstractmethod
    def writers(self) -> Mapping[str, Components]:
        """Return language models by name, over one set of vision models."""

    @abstractmethod
    def study(self, runner: CellRunner) -> workers.PaperStudy:
        """Return what is measured; may draw samples."""

    def scale(self) -> Scale:
        """Return how much is measured."""
        return Scale(self.options.samples, tuple(range(self.options.seeds)))

    @contextmanager
    def runner(self) -> Iterator[CellRunner]:
        """Open a runner over loaded profiles; closes all of it."""
        bound_arenas()
        document = to_json(self.options.opened().document)
        runner = CellRunner(self.writers(), document, self.options.out, self.scale())
        with closing(runner):
            yield runner

    def run(self, processes: int | None) -> int:
        """Answer, judge, write and print; the exit code.

        Args:
            processes: at work side by side; None chooses.

        Raises:
            UsageError: several seeds that cannot differ.
        """
        count = processes or self._processes()
        with self.runner() as runner, hint_to_go_on():
            with status("drawing samples, counting stored answers"):
                study = self.study(runner)
                runner.check_seeds(study.cells())
                plan = plan_of(runner, study.cells())
            began = time.monotonic()
            with watching(plan) as progress:
                workers.answer_together(self, runner, study.cells(), progress, count)
                reproduction = study.reproduce(runner)
        return print_report(reproduction, self.options.out, began, as_json=self.options.as_json)

    def _processes(self) -> int:
        """Return 2 where all models come with the package and there are two cores, else 1."""
        models = [choice.model or "" for _, choice in self.options.opened().choices()]
        small = all(model.startswith("embedded:") for model in models if model)
        return min(2, available_cores()) if small else 1


def second_writer(options: Options, second: str | None, main: Components) -> dict[str, Components]:
    """Return the language model that repeats the steps, over the vision models of ``main``.

    Args:
        second: its profile; None takes NAME-small, where there is such a profile.
    """
    beside = f"{options.opened().name}-small"
    if second is None and beside in known_profiles(options.profile.state):
        second = beside
    if second is None:
        return {}
    return {"second": replace(options.opened(profile=second).components(), toolbox=main.toolbox)}


def teller() -> Callable[[str], None]:
    """Return what says what is being done: all of it on a terminal, elsewhere now and then."""
    last_line, when = "", -_LINE_EVERY_S
    lock = threading.Lock()

    def say(text: str) -> None:
        nonlocal last_line, when
        with lock:
            now = time.monotonic()
            if text == last_line or (not sys.stderr.isatty() and now - when < _LINE_EVERY_S):
                return
            last_line, when = text, now
            click.echo(text, err=True)

    return say


def print_report(reproduction: Reproduction, out: Path, began: float, *, as_json: bool) -> int:
    """Write and print a reproduction with the seconds that answering took; the exit code.

    Args:
        out: folder of the reports.
        began: when answering began, by ``time.monotonic``.
    """
    seconds = round(time.monotonic() - began, 1)
    reproduction = replace(reproduction, facts={**reproduction.facts, "seconds": seconds})
    write_reports(reproduction, out)
    if as_json:
        click.echo(json.dumps(reproduction.to_json(), allow_nan=False))
    else:
        click.echo(as_text(reproduction))
    click.echo(f"{out / PAGE}", err=True)
    return EXIT_FAILED if any(claim.holds is False for claim in reproduction.claims) else EXIT_OK
