"""A program with everything that it needs to answer about other pictures, as a script.

The script holds a literal and one call. Program and query are strangers' texts: they stand in
string literals, so Python never runs them; viper's sandbox does. The profile in it is trusted as
a profile's file is, because a backend may be a class in a file.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from pprint import pformat
from typing import Any

from viper.errors import UsageError
from viper.evaluate.runs.manifest import PACKAGES, redacted
from viper.profiles.document import ProfileDocument
from viper.profiles.files import SHIPPED
from viper.profiles.wiring import Profile
from viper.record import RecordError, record_from_json
from viper.sandbox.sandbox import Mode
from viper.schema import Trace
from viper.storage.json_lines import plain

# The name in the script to which the literal is assigned.
NAME = "EXPORT"

_SCRIPT = """#!/usr/bin/env python3
# Written by `viper export`, viper {version}.
#
#     python {file} PICTURE...                        answers the query about other pictures
#     viper apply {file} FOLDER -o answers.csv        answers it about thousands
#
# The program below runs in the sandbox of viper. The models are those of the profile below.

{name} = {literal}

if __name__ == "__main__":
    from viper.commands.exported import main

    main({name})
"""


@dataclass(frozen=True, kw_only=True)
class ExportedProgram:
    """The content of an exported script.

    Attributes:
        viper: version that wrote it.
        query, task, options: what the program was written for.
        media: ``image``, ``images`` (a query about several pictures together) or ``video``.
        program: the program.
        thresholds: thresholds of the trial that answered, from which other runs start.
        api: functions that the program may call.
        models: role to the id of the model that answered, with its hash where that is known.
        profile: the resolved profile as JSON values.
    """

    query: str
    task: str
    program: str
    api: str
    profile: Mapping[str, Any]
    options: tuple[str, ...] = ()
    media: str = "image"
    thresholds: Mapping[str, float] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    viper: str = field(default_factory=lambda: version(PACKAGES["viper"]))

    @classmethod
    def of(
        cls, trace: Trace, document: Mapping[str, Any], models: Mapping[str, str]
    ) -> ExportedProgram:
        """Return the program of a trace, with a profile without secrets and paths of viper.

        Raises:
            UsageError: the trace has no program that gave its answer alone.
        """
        trial = trace.answering
        if trial is None or trace.turns or trace.path or trace.fallback:
            how = f"fallback {trace.fallback}" if trace.fallback else f"strategy {trace.strategy}"
            raise UsageError(
                f"{trace.query.text[:60]!r} was answered by {how}, not by a single program; "
                "only programs of the strategies program and plan can be exported"
            )
        values: dict[str, Any] = redacted(plain(document))
        values["run"] = {key: each for key, each in values["run"].items() if key != "own"}
        if values.get("path") and Path(values["path"]).expanduser().parent in SHIPPED:
            values["path"] = None
        return cls(
            query=trace.query.text,
            task=trace.task,
            options=trace.query.options,
            media=trace.query.media,
            program=trial.program,
            thresholds=trial.thresholds,
            api=trace.api,
            models=models,
            profile=values,
        )

    @classmethod
    def read(cls, source: str) -> ExportedProgram | None:
        """Read a script without running it; return None for any other program.

        Raises:
            UsageError: its literal was changed to something else.
        """
        if f"\n{NAME} = " not in source:
            return None
        try:
            nodes = ast.parse(source).body
            literal = next(
                node.value
                for node in nodes
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == NAME
            )
            return record_from_json(cls, ast.literal_eval(literal))
        except (RecordError, ValueError, SyntaxError, StopIteration, RecursionError) as error:
            problem = str(error).partition("\n")[0][:120] or type(error).__name__
            raise UsageError(f"{NAME}: not what viper export wrote ({problem})") from None

    def script(self, file: str) -> str:
        """Return the text of the script.

        Args:
            file: its name, for the comment at its head.
        """
        values = plain(self)
        literal = pformat(values, width=96, sort_dicts=False)
        assert ast.literal_eval(literal) == values
        name = ascii(Path(file).name)[1:-1]
        return _SCRIPT.format(version=self.viper, file=name, name=NAME, literal=literal)

    def pinned_profile(self, *, sandbox: Mode = "strict", **more: Any) -> Profile:
        """Return the profile with the thresholds of the answer.

        Args:
            more: further attributes of :class:`viper.profiles.wiring.Profile`.

        Raises:
            UsageError: this version cannot read the profile.
        """
        try:
            document = record_from_json(ProfileDocument, self.profile)
        except (RecordError, UsageError) as error:
            raise UsageError(
                f"the profile that viper {self.viper} exported cannot be used ({error}); "
                "name another one with --profile"
            ) from None
        path = document.path and document.path.expanduser()
        profile = Profile(
            replace(document, path=path), sandbox_mode=sandbox, **{"api": self.api, **more}
        )
        return self.tuned(profile)

    def tuned(self, profile: Profile) -> Profile:
        """Return a profile with the thresholds of the answer, as far as it has them."""
        known = profile.document.tools.sensitivities
        return profile.with_thresholds(
            {name: value for name, value in self.thresholds.items() if name in known}
        )
