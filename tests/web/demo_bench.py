"""A demo that is served on a free port of this machine, over fake models and a scripted writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.strategies.bench import Bench
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.scripted import ScriptedLLM
from viper.serve.settings import listening_at
from viper.strategies.replay import Replayer
from viper.web.demo.manager import RunOpener, SessionManager

COUNT = "def execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n"
FAINT = "def execute_command(image):\n    return ImagePatch(image).find('faint ball')[0]\n"
BROKEN = "def execute_command(image):\n    return nonsense\n"
WAIT_S = 30
"""How long a test waits for what must happen; only a broken one waits so long."""


class HeldLLM(ScriptedLLM):
    """Writes what ``write`` says; a query with ``slow`` in it waits for ``released``.

    Attributes:
        asked: set once a slow query is being written.
    """

    def __init__(self, write: Callable[[str], str]) -> None:
        super().__init__(write)
        self.asked, self.released = threading.Event(), threading.Event()

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        if any("slow" in prompt for prompt in prompts):
            self.asked.set()
            assert self.released.wait(WAIT_S)
        return super().generate(prompts, sampling)


def program_for(prompt: str) -> str:
    """What the fake writer writes."""
    query = prompt[-400:]
    return BROKEN if "broken" in query else FAINT if "faint" in query else COUNT


@dataclass(frozen=True)
class Desked:
    """A manager with what stands behind it."""

    managers: tuple[SessionManager, ...]
    llm: HeldLLM
    folder: Path

    @property
    def manager(self) -> SessionManager:
        """The one of strategy ``program``."""
        return self.managers[0]


@contextmanager
def desked(
    folder: Path, write: Callable[[str], str] = program_for, *, opened: bool = True
) -> Iterator[Desked]:
    """A manager over fake models; models are loaded at once unless ``opened`` is False."""
    llm = HeldLLM(write)
    with Bench([], trials=3) as bench:
        bench.reasoner.components = bench.reasoner.components.with_models(llm=llm, looker=llm)
        openers = [
            RunOpener(bench.reasoner, folder, {}),
            RunOpener(bench.reasoner, folder.with_name(f"{folder.name}-vqa"), {}, "vqa"),
            RunOpener(bench.reasoner, folder.with_name(f"{folder.name}-look"), {}, "look"),
            RunOpener(bench.reasoner, folder.with_name(f"{folder.name}-second"), {}),
            RunOpener(bench.reasoner, folder.with_name(f"{folder.name}-second-vqa"), {}, "vqa"),
        ]
        managers = tuple(SessionManager(bench.reasoner, opener) for opener in openers)
        for manager in managers[3:]:
            manager.name = ("second", manager.opener.strategy)
        if opened:
            openers[0].start()
            assert openers[0].wait(WAIT_S) is not None
        try:
            yield Desked(managers, llm, folder)
        finally:
            llm.released.set()
            for manager in managers:
                manager.stop_all()
                manager.opener.close()


@dataclass(frozen=True)
class ServedDemo:
    """A demo that runs."""

    address: str
    manager: SessionManager
    llm: HeldLLM
    folder: Path


@contextmanager
def served_demo(folder: Path, host: str = "127.0.0.1") -> Iterator[ServedDemo]:
    """Runs a demo while the block does."""
    from viper.web.demo.serving import DemoAddress, make_server, private_folder
    from viper.web.demo.session import scene_source

    with private_folder() as uploads, desked(folder, opened=False) as bench:
        place = DemoAddress.at(host)
        with (
            listening_at("127.0.0.1", 0) as listening,
            Replayer(bench.manager.reasoner.components.library) as replayer,
        ):
            replayers = {"bench": replayer, "second": replayer}
            server: Any = make_server(bench.managers, place, replayers, uploads, scene_source())
            thread = threading.Thread(target=server.run, args=([listening],))
            thread.start()
            try:
                port = listening.getsockname()[1]
                yield ServedDemo(
                    f"http://127.0.0.1:{port}{place.access.prefix}/",
                    bench.manager,
                    bench.llm,
                    folder,
                )
            finally:
                bench.llm.released.set()
                server.should_exit = True
                thread.join(WAIT_S)
                assert not thread.is_alive()
