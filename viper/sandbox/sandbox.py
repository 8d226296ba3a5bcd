"""Runs untrusted programs and reports the result of each.

:meth:`Sandbox.run` is a session of a single turn: it takes a locked child from the pool, refuses it
in strict mode if a required layer is missing, and lets a :class:`viper.sandbox.turn.TurnRunner` run
the program in it. :meth:`Sandbox.session` keeps the child for further turns.

A program that runs again, about the next picture, finds the child of its last run
(:mod:`viper.sandbox.kept`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal

from viper.errors import SandboxUnavailableError, UsageError
from viper.sandbox.arrays import Arrays
from viper.sandbox.interface import Layer, Limits, NoTools, Outcome, Prelude, ToolClient
from viper.sandbox.kept import Kept
from viper.sandbox.pool import Child, Pool
from viper.sandbox.turn import TurnRunner
from viper.schema import Failure

Mode = Literal["strict", "weak"]
# Layers without which strict mode refuses to run, and what their absence costs. Landlock is not
# among them: kernels before 5.13 have none, and seccomp alone keeps files and sockets out of reach.
REQUIRED_LAYERS: Mapping[str, str] = {
    "seccomp": "a program that breaks out of Python could call the system",
    "rlimits": "a program could fill the memory of this machine and compute without end",
    "descriptors": "a program that breaks out of Python could use open files of this process",
    "uid": "a program that breaks out of Python would have the rights of root",
    "pdeathsig": "a program could outlive this process",
    "dumpable": "another program of this user could read its memory",
    "no_new_privs": "a program that breaks out of Python could gain rights by set-user-id files",
}


class Sandbox(AbstractContextManager["Sandbox"]):
    """Runs programs in locked processes that hold names only.

    Safe to use from several threads. No process starts before the first program, unless
    :meth:`start` is called.

    Args:
        tools: answers the calls of programs; each run may replace it.
        limits: budgets of each program.
        prelude: the names that programs see in addition to ordinary Python.
        mode: "strict" refuses to run if the system-call filter is missing, "weak"
            continues without it.
        without: layers to leave out; only for tests that show the effect of a layer.
        keeps: let a program that runs again find the process of its last run.

    Example:
        >>> class Sums:
        ...     def call(self, name, args, kwargs, line):
        ...         return sum(args)
        >>> with Sandbox(Sums(), prelude=Prelude.functions("add"), mode="weak") as sandbox:
        ...     sandbox.run("answer = add(20, 22)").value
        42
    """

    def __init__(
        self,
        tools: ToolClient | None = None,
        limits: Limits | None = None,
        prelude: Prelude | None = None,
        mode: Mode = "strict",
        without: tuple[str, ...] = (),
        keeps: bool = True,
    ) -> None:
        if mode not in ("strict", "weak"):
            raise UsageError(f"unknown sandbox mode {mode!r}; known: strict, weak")
        self.limits = limits or Limits()
        self.mode = mode
        self._tools: ToolClient = tools or NoTools()
        prelude = prelude or Prelude.functions()
        self._pool = Pool(self.limits, prelude, frozenset(without))
        # functions of sources are a stranger's or a user's, and may keep what they like
        self._kept = Kept(self.limits) if keeps and not prelude.sources else None
        self._layers: tuple[Layer, ...] | None = None

    def start(self) -> None:
        """Start the processes in the background, so that the first program finds them ready."""
        self._pool.start()

    def run(
        self,
        code: str,
        *,
        tools: ToolClient | None = None,
        entry: str | None = None,
        args: Mapping[str, Any] | None = None,
        arrays: Arrays | None = None,
        return_type: Callable[[Any], str | None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Outcome:
        """Run one program in its own process.

        Args:
            tools: answers its calls, in place of the sandbox's own client.
            arrays: see :meth:`session`.
            entry: the function to call, its parameters bound by name to ``args`` (aliases:
                see :mod:`viper.sandbox.entry`). If the program does not define it, or if
                ``entry`` is None, the program is a script: its answer is the value of
                ``answer``, ``final_answer`` or ``result``.
            args: values by canonical name (``image``, ``question``, …); also variables of
                the program.
            return_type: checks the value and returns None or the problem; a problem turns the
                outcome into a ``return_type`` failure.
            cancel: ends the run soon after it is set.

        Raises:
            SandboxUnavailableError: strict mode, and a required layer is missing here.
            SandboxHostError: no process could be started.
            CancelledError: ``cancel`` was set.
            Exception: any exception of ``tools`` except ToolError.
        """
        kept = self._kept if arrays is None else None
        if kept is None or not kept.allows(code):
            with self.session(tools=tools, arrays=arrays) as session:
                session._is_last = True
                return session.run(
                    code, entry=entry, args=args, return_type=return_type, cancel=cancel
                )
        child = kept.take(code)
        while True:
            if child is None:
                session = self.session(tools=tools)
            else:
                session = Session(self._pool, child, tools or self._tools, self.limits)
            session._is_apart = True
            outcome = session.run(
                code, entry=entry, args=args, return_type=return_type, cancel=cancel
            )
            is_dead = outcome.failure is not None and outcome.failure.kind in ("crash", "memory")
            if child is None or not is_dead or outcome.calls:
                break
            child = None  # ended from outside, or full of what was left: no fault of this run
        if outcome.ok and not session.ended and kept.has_room(session._child, outcome.seconds):
            kept.put(code, session._child)
        else:
            session.close()
        return outcome

    def session(self, *, tools: ToolClient | None = None, arrays: Arrays | None = None) -> Session:
        """Start one process for one episode: turns of code that share their variables.

        Args:
            arrays: read-only arrays by name, which the process maps; its prelude reads them from
                ``call.arrays``, and programs get more of numpy. None gives a process without.

        Raises:
            UsageError: the arrays are too many or too large.
        """
        child = self._pool.take(arrays)
        self._layers = child.layers
        missing = {layer.name: layer for layer in child.layers if not layer.holds}
        for name in REQUIRED_LAYERS if self.mode == "strict" else ():
            if name in missing:
                child.kill()
                raise SandboxUnavailableError(
                    f"the sandbox layer {name} is missing ({missing[name].detail}): "
                    f"{REQUIRED_LAYERS[name]}; or run without it: --sandbox=weak"
                )
        return Session(self._pool, child, tools or self._tools, self.limits)

    def layers(self) -> list[Layer]:
        """Return every protection layer and whether it holds on this machine."""
        if self._layers is None:
            child = self._pool.take()
            self._layers = child.layers
            child.kill()
        policy = "checked before compiling; attributes are allow-listed by exact type"
        return [
            Layer("policy", True, policy),
            Layer("process", True, "one killable process for each program, holding names only"),
            *self._layers,
        ]

    @property
    def zygote_pid(self) -> int | None:
        """Return the pid of the process that programs are forked from, or None if it is not
        running.
        """
        return self._pool.zygote_pid

    def close(self) -> None:
        """End all processes of this sandbox. A later run starts new ones."""
        if self._kept is not None:
            self._kept.close()
        self._pool.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class Session(AbstractContextManager["Session"]):
    """One episode, created by :meth:`Sandbox.session`. Not safe to use from several threads.

    A turn that ends by force (timeout, memory, crash, too many calls) ends the episode.
    """

    def __init__(self, pool: Pool, child: Child, tools: ToolClient, limits: Limits) -> None:
        self._pool, self._child, self._tools, self._limits = pool, child, tools, limits
        self.ended = False
        self._is_last = False  # the next turn ends the episode
        self._is_apart = False  # turns share nothing

    def run(
        self,
        code: str,
        *,
        entry: str | None = None,
        args: Mapping[str, Any] | None = None,
        return_type: Callable[[Any], str | None] | None = None,
        cancel: threading.Event | None = None,
        shows: bool = False,
    ) -> Outcome:
        """Run one turn; see :meth:`Sandbox.run`.

        Args:
            shows: return the value of the turn's last statement, as a notebook does: of an
                expression or of an assignment to a single name, and None for any other.

        Raises:
            UsageError: the episode has ended.
        """
        if self.ended:
            raise UsageError("this episode has ended; start a new session")
        turn = TurnRunner(self._pool, self._child, self._tools, self._limits, cancel)
        try:
            outcome = turn.run(code, entry, args or {}, self._is_last, shows, self._is_apart)
        except BaseException:
            self.close()
            raise
        if self._is_last or turn.forced or (outcome.failure and outcome.failure.kind == "memory"):
            self.close()
        problem = return_type(outcome.value) if outcome.ok and return_type is not None else None
        if problem is None:
            return outcome
        failure = Failure("return_type", problem)
        return replace(outcome, ok=False, value=None, failure=failure)

    def close(self) -> None:
        """End the episode and its process; calling it again is safe."""
        self.ended = True
        self._child.kill()

    def __exit__(self, *_: object) -> None:
        self.close()
