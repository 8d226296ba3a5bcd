"""A program with everything that it needs to answer about other pictures, as a script.

The script holds a literal and one call. Program and query are strangers' texts: they stand in
string literals, so Python never runs them; viper's sandbox does. Its profile and its routines are
data as well (:meth:`ExportedProgram.pinned_profile`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from pprint import pformat
from typing import Any

from viper.api.routine_files import StoredRoutines
from viper.errors import PARSE_ERRORS, UsageError
from viper.evaluate.runs.manifest import PACKAGES, decisive_tables, redacted
from viper.profiles.backends import OUTSIDE, is_installed
from viper.profiles.document import ProfileDocument
from viper.profiles.files import SHIPPED
from viper.profiles.wiring import Profile
from viper.record import RecordError, record_from_json
from viper.sandbox.sandbox import Mode
from viper.schema import Trace, to_json
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


def public_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile as JSON values without secrets and paths of viper."""
    values: dict[str, Any] = redacted(plain(document))
    values["run"] = {key: each for key, each in values["run"].items() if key != "own"}
    if values.get("path") and Path(values["path"]).expanduser().parent in SHIPPED:
        values["path"] = None
    return values


def deciding_facts(profile: Profile) -> list[Any]:
    """Return what decides the answers of a program, as JSON values: the tables of the profile, the
    API with the texts of its routines, and what the tools have learned.
    """
    document = public_document(to_json(profile.document))
    prompts = profile.soft_prompts()
    return [
        decisive_tables(document),
        profile.api or profile.document.run.api,
        to_json(profile.library().stored()),
        prompts.fingerprint if prompts else "",
    ]


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
        routines: the files of routines that the program may call.
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
    routines: tuple[StoredRoutines, ...] = ()
    viper: str = field(default_factory=lambda: version(PACKAGES["viper"]))

    @classmethod
    def of(
        cls,
        trace: Trace,
        document: Mapping[str, Any],
        models: Mapping[str, str],
        routines: tuple[StoredRoutines, ...] = (),
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
        return cls(
            query=trace.query.text,
            task=trace.task,
            options=trace.query.options,
            media=trace.query.media,
            program=trial.program,
            thresholds=trial.thresholds,
            api=trace.api,
            models=models,
            profile=public_document(document),
            routines=routines,
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
        except (RecordError, StopIteration, *PARSE_ERRORS) as error:
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

    def pinned_profile(
        self, *, sandbox: Mode = "strict", trust: bool = False, api: str | None = None, **more: Any
    ) -> Profile:
        """Return the profile with the thresholds of the answer.

        Args:
            trust: the profile and the files of routines that it names may run code here, as those
                of the user may. Otherwise they are data.
            api: an API of the user, instead of the export's.
            more: further attributes of :class:`viper.profiles.wiring.Profile`.

        Raises:
            UsageError: this version cannot read the profile, or it would run code as data.
        """
        try:
            document = record_from_json(ProfileDocument, self.profile)
        except (RecordError, UsageError) as error:
            raise UsageError(
                f"the profile that viper {self.viper} exported cannot be used ({error}); "
                "name another one with --profile"
            ) from None
        path = document.path and document.path.expanduser()
        own = trust or api is not None
        if not trust:
            self._check_is_data(document, () if own else self.routines)
        profile = Profile(
            replace(document, path=path),
            sandbox_mode=sandbox,
            api=api or self.api,
            routines=None if own else self.routines,
            **more,
        )
        return self.tuned(profile)

    def _check_is_data(self, document: ProfileDocument, files: Sequence[StoredRoutines]) -> None:
        """Check that the profile runs no code but that of viper and of installed packages.

        Nothing is sent to an address, and no variable read, that the export names.
        """
        trust = "give --trust if you know who wrote it, or name your own profile with --profile"
        for role, choice in {**document.models, **document.roles}.items():
            if not is_installed(role, choice.backend):
                raise UsageError(
                    f"{role}: the export names the backend {choice.backend!r}, which is neither "
                    f"viper's nor an installed package's; {trust}"
                )
            for options in (choice.options, document.load):
                for name in OUTSIDE & options.keys():
                    raise UsageError(
                        f"{role}: the export sets {name} to {options[name]!r}; {trust}"
                    )
        for file in files:
            if file.tools:
                raise UsageError(
                    f"the routine {file.tools[0]!r} of {file.name!r} runs outside the sandbox, and "
                    f"the export does not hold it; {trust}"
                )

    def tuned(self, profile: Profile) -> Profile:
        """Return a profile with the thresholds of the answer, as far as it has them."""
        known = profile.document.tools.sensitivities
        return profile.with_thresholds(
            {name: value for name, value in self.thresholds.items() if name in known}
        )
