"""Answers a question about a picture or a video.

from viper import Reasoner, load_profile
with Reasoner(load_profile("embedded")) as reasoner:
    result = reasoner.run("table.png", "the leftmost cube")
    print(result.value, result.program)

:meth:`Reasoner.stream` is the path of every run: it makes the context, lets a strategy yield its
trials, verifies, falls back, and puts all into a trace (:meth:`Reasoner._result`).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from viper.api.image_patch import ImagePatch
from viper.api.runtime import ImageHandle
from viper.api.written import field_types
from viper.errors import UnknownNameError, UsageError
from viper.models.decoding import limited
from viper.models.llm.messages import Prompt, as_text
from viper.models.media import media_from
from viper.run_result import RunResult
from viper.schema import TASKS, PixelBox, Query, RunWarning, Trace, Trial
from viper.strategies import strategy as named_strategy
from viper.strategies.answers import value_for
from viper.strategies.base import (
    TOOL_STOPS,
    Components,
    Conclusion,
    RunContext,
    ShowsPrompt,
    StoppedError,
    Strategy,
    UsageMeter,
    answering_trial,
    failure_of,
)
from viper.strategies.confidence import EXEC, check_risk, judged, mode_of
from viper.strategies.end_to_end import fall_back
from viper.strategies.marked import MarkedStrategy, boxes_of, with_marks
from viper.strategies.program import Generation, run_program
from viper.strategies.prompts import write_prompt
from viper.strategies.settings import RunSettings, all_settings, shipped_settings
from viper.strategies.tasks import resolve_task
from viper.strategies.verification import agreement, verify
from viper.strategies.warnings import warnings_of
from viper.tools.parent_routines import api_client

if TYPE_CHECKING:
    from viper.strategies.run_keywords import Keywords

# A page of text: longer queries are pasted documents, for which small writers have no room.
MAX_QUERY_CHARACTERS = 4_000


class ComponentSource(Protocol):
    """Anything that can wire the parts of a reasoner: a profile, or a test."""

    def components(self) -> Components: ...


@dataclass(frozen=True, init=False)
class RunOptions:
    """Settings of one call that differ from the profile.

    Attributes:
        options: the candidate answers; a text is split at its semicolons.
        like: up to four boxes of examples, (x0, y0, x1, y1) in pixels from the top-left corner of
            the picture, or texts as ``10,20,40,60``; programs get them as ``marked``.
        fields: what an ``extract`` reads, each as ``name:type``; a text is split at its commas.
        changes: settings by name, including those of single strategies; see
            :mod:`viper.strategies.settings`. Each is also a keyword and an attribute. None, or
            a missing name, keeps the profile's value.

    Raises:
        UnknownNameError: a keyword that is no setting.
        UsageError: options that are no texts, or wrong boxes.
    """

    task: str = "auto"
    options: tuple[str, ...] = ()
    sample_id: str | None = None
    like: tuple[PixelBox, ...] = ()
    fields: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __init__(
        self,
        task: str = "auto",
        options: Sequence[str] | str = (),
        *,
        sample_id: str | None = None,
        like: Sequence[Sequence[float] | str] = (),
        fields: Sequence[str] | str = (),
        changes: Mapping[str, Any] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        for name in settings:
            if name not in all_settings():
                choices = [*all_settings(), *self.__dataclass_fields__]
                raise UnknownNameError("setting", name, choices)
        changes = {**changes, **settings}
        if isinstance(options, str):
            texts = list(filter(None, map(str.strip, options.split(";"))))
            if options and not texts:
                raise UsageError(f"options is {options!r}; expected texts as in 'first; second'")
            options = texts
        if not all(isinstance(text, str) for text in options or ()):
            raise UsageError(f"options is {options!r}; expected texts")
        vars(self).update(
            task=task or "auto",
            options=tuple(options or ()),
            sample_id=sample_id,
            like=boxes_of(like or ()),
            fields=tuple(fields.split(",") if isinstance(fields, str) and fields else fields),
            changes={name: value for name, value in changes.items() if value is not None},
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in all_settings():
            raise AttributeError(name)
        return self.changes.get(name)

    def changed(self, **changes: Any) -> RunOptions:
        """Return a copy of these options with the changes; None removes a change."""
        return replace(self, **changes)

    def settings(self, base: RunSettings) -> RunSettings:
        """Return the profile's settings with these changes.

        Raises:
            UnknownNameError: a value is not among the known choices.
            UsageError: a value is out of range.
        """
        return base.changed(**self.changes)


def checked_query(text: str) -> str:
    """Return a query without the spaces around it.

    Raises:
        UsageError: it is no text, empty or too long.
    """
    if not isinstance(text, str):
        raise UsageError(f"the query is {text!r:.60}; expected a text")
    stripped = text.strip()
    if not stripped:
        raise UsageError("the query is empty; say what to find or ask a question")
    if len(stripped) > MAX_QUERY_CHARACTERS:
        raise UsageError(
            f"the query has {len(stripped)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )
    return stripped


class Reasoner:
    """Answers queries with the parts that a profile wires; safe to call from several threads.

    Args:
        source: a profile (``load_profile``), any object with ``components()``, or the
            Components themselves.
        preload: start loading the vision models in the background at once, instead of each on
            first use; None leaves the choice to the profile.
    """

    def __init__(
        self, source: ComponentSource | Components, *, preload: bool | None = None
    ) -> None:
        if isinstance(source, str | Path):
            raise UsageError(f"{str(source)!r} is no profile; give load_profile({str(source)!r})")
        self.components = source if isinstance(source, Components) else source.components()
        if self.components.preload if preload is None else preload:
            self.components.toolbox.models.load_in_background()

    def __enter__(self) -> Reasoner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of the sandbox."""
        self.components.close()

    def run(
        self,
        media: Any,
        query: str,
        request: RunOptions | None = None,
        *,
        on_trial: Callable[[Trial], None] | None = None,
        cancel: threading.Event | None = None,
        using: Strategy | None = None,
        **changes: Unpack[Keywords],
    ) -> RunResult:
        """Answer a query, in as many trials as needed.

        Args:
            media: path, paths, array, or PIL picture; see ``viper.models.media.media_from``.
            query: the question, or the object to find.
            request: settings of this run; the keywords after ``using`` change single ones, and None
                keeps the profile's value. ``viper run --help`` explains each.
            on_trial: called after every trial, in this thread.
            cancel: set it from another thread to end the run.
            using: a strategy object for this run, instead of a strategy by name; no fallback
                answers if it fails.

        Raises:
            UsageError: an empty or oversized query, an unknown name, a choice without options, a
                setting out of range.
            MediaError: unreadable media.
            CancelledError: ``cancel`` was set.
        """
        for event in self.stream(media, query, request, cancel=cancel, using=using, **changes):
            if isinstance(event, RunResult):
                return event
            if on_trial is not None:
                on_trial(event)
        raise AssertionError("a run ends with its result")

    def stream(
        self,
        media: Any,
        query: str,
        request: RunOptions | None = None,
        *,
        cancel: threading.Event | None = None,
        usage: UsageMeter | None = None,
        using: Strategy | None = None,
        **changes: Unpack[Keywords],
    ) -> Iterator[Trial | RunResult]:
        """Yield each Trial as it ends, and then the RunResult. Arguments and errors as :meth:`run`.

        Args:
            usage: counts the cost of the run while it proceeds, so that the caller knows the cost
                even if an error ends the run.
        """
        run_options = (request or RunOptions()).changed(**changes)
        context, reason = self.context(media, query, run_options, cancel)
        if usage is not None:
            context.usage = usage
        settings = context.settings
        if MarkedStrategy.answers(context.query):
            using = using or MarkedStrategy()
        strategy = using or named_strategy(settings.strategy)
        if settings.verify and not getattr(strategy, "writes_programs", False):
            raise UsageError(
                f"strategy {strategy.name} writes no programs to verify; leave --verify out, or "
                "use strategy program or plan"
            )
        self._check_risk(settings, strategy.name)
        started = time.perf_counter()
        trials: list[Trial] = []
        try:
            running = iter(strategy.trials(self.components, context))
            while True:
                trials.append(next(running))
                yield trials[-1]
        except StopIteration as end:
            conclusion = end.value or Conclusion()
        except TOOL_STOPS as stop:
            if not trials and not isinstance(stop, StoppedError):
                raise  # the program writer's endpoint is down, and there is nothing to keep
            conclusion = Conclusion(stopped=failure_of(stop))
        earlier = vars(context).get("final_value")
        if trials and earlier is not None:
            trials[-1] = replace(trials[-1], answer=earlier[0], value=earlier[1])
        conclusion = replace(conclusion, parts={**context.parts, **conclusion.parts})
        if settings.verify:
            conclusion = verify(self.components, context, conclusion)
        if using is None and answering_trial(trials) is None:
            fallback = fall_back(self.components, context, len(trials))
            if fallback is not None:
                name, trial = fallback
                conclusion = replace(conclusion, fallback=name if trial.ok else None)
                trials.append(trial)
                yield trial
        yield self._result(context, reason, strategy, trials, started, conclusion)

    async def arun(
        self, media: Any, query: str, request: RunOptions | None = None, **changes: Unpack[Keywords]
    ) -> RunResult:
        """Run :meth:`run` without blocking the event loop; cancelling the task cancels the run."""
        cancel = threading.Event()
        try:
            return await asyncio.to_thread(
                self.run, media, query, request, cancel=cancel, **changes
            )
        except asyncio.CancelledError:
            cancel.set()
            raise

    def execute(
        self,
        program: str,
        media: Any,
        query: str = "",
        request: RunOptions | None = None,
        *,
        cancel: threading.Event | None = None,
        **changes: Unpack[Keywords],
    ) -> RunResult:
        """Run a program of the caller, with self-tuning but without a language model.

        Arguments and errors as :meth:`run`; ``query`` is the question that the program receives.
        """
        run_options = (request or RunOptions()).changed(**changes)
        context, reason = self.context(media, query or "(no question)", run_options, cancel)
        if run_options.task == "auto" and not (run_options.options or run_options.fields):
            context.query = replace(context.query, task="auto")
            reason = "read from what the program returns"
        self._check_risk(replace(context.settings, verify=False), EXEC)
        started = time.perf_counter()
        accept_misfit = context.settings.on_misfit != "refuse"  # nobody writes another program
        trials = list(
            run_program(self.components, context, Generation(program), accept_misfit=accept_misfit)
        )
        return self._result(context, reason, None, trials, started, Conclusion())

    def patch(self, picture: Any) -> ImagePatch:
        """Return a picture as a patch, whose methods ask the models at once, without a program.

        As in programs, the y axis points up.

        Args:
            picture: path, bytes, array or PIL picture; see ``viper.models.media.media_from``.

        Raises:
            UsageError: several pictures, or a video.
            MediaError: an unreadable picture.
        """
        media = media_from(picture)
        if media.kind != "image":
            raise UsageError(f"expected one picture, got {media.kind} ({', '.join(media.names)})")
        call = api_client(self.components.toolbox.session(media))
        height, width = media.images[0].shape[:2]
        return ImagePatch(ImageHandle("image0", width, height, call))

    def prompt(
        self, media: Any, query: str, request: RunOptions | None = None, **changes: Unpack[Keywords]
    ) -> str:
        """Return the first prompt of a run without calling a model.

        Raises:
            UsageError: as :meth:`run`.
        """
        run_options = (request or RunOptions()).changed(**changes)
        context, _ = self.context(media, query, run_options, None)
        strategy = named_strategy(context.settings.strategy)
        if not isinstance(strategy, ShowsPrompt):
            return as_text(self.writer_prompt(media, query, run_options))
        return strategy.prompt(self.components, context)

    def writer_prompt(
        self, media: Any, query: str, request: RunOptions | None = None, **changes: Unpack[Keywords]
    ) -> Prompt:
        """Return the first prompt of the program writer, as a model reads it.

        Raises:
            UsageError: as :meth:`run`.
        """
        run_options = (request or RunOptions()).changed(**changes)
        context, _ = self.context(media, query, run_options, None)
        return write_prompt(self.components, context).prompt

    def context(
        self, media: Any, text: str, options: RunOptions, cancel: threading.Event | None = None
    ) -> tuple[RunContext, str]:
        """Return the context of a run that is about to begin, and the reason for its task.

        Arguments and errors as :meth:`run`.
        """
        stripped = checked_query(text)
        if options.task not in TASKS:
            raise UnknownNameError("task", options.task, TASKS)
        settings = options.settings(self.components.settings)
        with limited(settings.max_seconds or None, cancel):
            loaded = media_from(media).for_run()
        asked = options.options, options.sample_id, (), options.fields
        query = with_marks(Query(stripped, options.task, loaded.kind, *asked), options.like, loaded)
        task, reason = resolve_task(query, settings.usual_task)
        if task == "choice" and len(options.options) < 2:
            raise UsageError(
                f"a choice needs at least two options, got {len(options.options)}; "
                'give --options "first; second; …"'
            )
        if task == "extract":
            query = replace(query, fields=tuple(map(":".join, field_types(query.fields).items())))
            if "strategy" not in options.changes:  # the shipped program costs no request
                settings = settings.changed(strategy="extract")
        self.components.library.api_set(settings.api)
        resolved = replace(query, task=task)
        return RunContext(resolved, loaded, settings, cancel or threading.Event()), reason

    def _check_risk(self, settings: RunSettings, strategy: str) -> None:
        if settings.abstain:
            mode = mode_of(strategy, verify=settings.verify, checks=settings.checks)
            check_risk(self.components.confidence, strategy, mode, settings.abstain)

    def _result(
        self,
        context: RunContext,
        reason: str,
        strategy: Strategy | None,
        trials: Sequence[Trial],
        started: float,
        conclusion: Conclusion,
    ) -> RunResult:
        name = EXEC if strategy is None else strategy.name
        chosen = conclusion.chosen
        if chosen is None:
            chosen = max((i for i, each in enumerate(trials) if each.answer), default=None)
        answering = None if chosen is None else trials[chosen]
        answer = None if answering is None else answering.answer
        settings, checks = context.settings, conclusion.checks
        # Nobody verifies a given program: it has no rivals.
        verified = settings.verify and strategy is not None
        has_program = strategy is None or getattr(strategy, "writes_programs", False)
        if settings.checks and has_program and not verified:
            checks = agreement(self.components, context, answering)
        failures = [trial.failure for trial in trials if trial.correction != "fallback"]
        failure = failures[-1] if failures else conclusion.stopped
        warnings = warnings_of(
            self.components,
            context,
            answering,
            trials,
            strategy=name,
            names_things=not getattr(strategy, "searches_texts", False),
            fallback=conclusion.fallback,
        )
        reasons = [each for each in (*failures, conclusion.stopped) if each is not None]
        ended = next((each for each in reasons if each.kind in ("budget", "unavailable")), None)
        if ended is not None and (answer is not None or ended is not failure):
            so_far = "this is the best answer so far" if answer else "no trial had answered"
            text = f"The run ended early ({ended.message}); {so_far}."
            warnings = (*warnings, RunWarning("ended_early", text, {"kind": ended.kind}))
        parts = {
            key: tuple(part) if isinstance(part, list | tuple) else part
            for key, part in conclusion.parts.items()
        }
        trace = Trace(
            query=context.query,
            task=context.query.task,
            task_reason=reason,
            answer=answer,
            failure=None if answer is not None else failure,
            trials=tuple(replace(trial, value=None) for trial in trials),
            usage=context.usage.snapshot(),
            seconds=round(time.perf_counter() - started, 4),
            strategy=name,
            profile=self.components.profile_name,
            api=context.settings.api,
            left_out=conclusion.left_out,
            fallback=conclusion.fallback,
            chosen=chosen,
            votes=conclusion.votes,
            examples_shown=conclusion.examples_shown,
            examples_left_out=conclusion.examples_left_out,
            seed=context.settings.seed,
            warnings=warnings,
            checks=checks,
            path=parts.pop("path", ()),
            turns=parts.pop("turns", ()),
            parts=parts,
        )
        mode = mode_of(trace.strategy, verify=verified, checks=settings.checks)
        trace = judged(trace, self.components.confidence, mode=mode, risk=settings.abstain)
        value = None
        if answering is not None and trace.answer is not None:
            value = value_for(context.query.task, trace.answer, context.media, answering.value)
        return RunResult(trace, context.media, value, self.components.page)


def _name_keywords(function: Any, keywords: Iterable[inspect.Parameter]) -> None:
    """Show the keywords that a function takes by its last parameter in ``help`` and notebooks."""
    signature = inspect.signature(function)
    named = [each.replace(kind=each.KEYWORD_ONLY) for each in keywords]
    own = [*signature.parameters.values()][:-1]
    function.__signature__ = signature.replace(parameters=[*own, *named])


_name_keywords(RunOptions.__init__, (each.keyword for each in shipped_settings().values()))
for _method in ("run", "stream", "arun", "execute", "prompt", "writer_prompt"):
    _name_keywords(getattr(Reasoner, _method), inspect.signature(RunOptions).parameters.values())
