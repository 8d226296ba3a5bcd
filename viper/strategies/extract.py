"""Strategy ``extract``: the shipped program that reads the fields of a document by their labels.

The program, ``extract.txt``, is text like that of any writer: it runs in the sandbox, is stored in
the trace, and ``viper run --program-only`` prints it for changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from viper.errors import UsageError
from viper.schema import Trial
from viper.strategies.base import Components, RunContext
from viper.strategies.program import Generation, run_program


class ExtractStrategy:
    """Run the shipped program once; no language model is asked."""

    name = "extract"

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """Yield the trials of the program.

        Raises:
            UsageError: the task is not ``extract``, or the query is about a video.
        """
        if context.query.task != "extract" or context.media.video is not None:
            raise UsageError("strategy extract reads pictures and PDF files; give their --schema")
        yield from run_program(components, context, Generation(shipped_program()))


def shipped_program() -> str:
    """Return the text of the shipped program."""
    return files("viper.strategies").joinpath("extract.txt").read_text("utf-8")
