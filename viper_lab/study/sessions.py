"""Sessions of a user study: each participant with a question, and the records of their actions."""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from viper.data.sample import Sample
from viper.errors import StoreError, UsageError
from viper.models.media import Media, media_from
from viper.reasoner import Reasoner
from viper.strategies.base import RunContext
from viper.strategies.seek.strategy import make_asker, seek_tools, seeker_of
from viper_lab.study.by_hand import HandSearch
from viper_lab.study.records import Session, session_line

# Participants whose state is held. The least recently active one is dropped first.
MOST_PARTICIPANTS = 200

_ID = re.compile(r"p-[0-9a-f]{12}")


def new_participant() -> str:
    """Return a random id that says nothing about the participant."""
    return f"p-{secrets.token_hex(6)}"


def is_participant(text: str) -> bool:
    """Return whether a text has the form of such an id."""
    return bool(_ID.fullmatch(text))


@dataclass
class ParticipantState:
    """The state of one participant.

    Attributes:
        order: numbers of the samples, in an order of their own; ``done`` of them are over.
        search: the question at hand; None where there is none left.
        message: the last error, in words.
    """

    participant: str
    order: Sequence[int]
    done: int = 0
    search: HandSearch | None = None
    media: Media | None = None
    message: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)


class Sessions:
    """The states of all participants. Several threads may use it at once.

    Args:
        samples: questions about one picture each.
        records: the file that takes the records; what it holds stays.

    Raises:
        UsageError: a sample that is no question about one picture.
    """

    def __init__(self, reasoner: Reasoner, samples: Sequence[Sample], records: Path) -> None:
        for sample in samples:
            if sample.task != "question" or sample.media != "image":
                raise UsageError(
                    f"{sample.sample_id} is a {sample.task} about {sample.media}; a study asks "
                    "questions about one picture, as of world-knowledge, okvqa or infoseek"
                )
        self.samples, self.records = samples, records
        self._reasoner = reasoner
        self._states: OrderedDict[str, ParticipantState] = OrderedDict()
        self._lock = threading.Lock()
        self.recorded = 0

    def state(self, participant: str) -> ParticipantState:
        """Return the state of a participant, with a question if one is left."""
        with self._lock:
            state = self._states.pop(participant, None)
            if state is None:
                order = list(range(len(self.samples)))
                Random(participant).shuffle(order)
                state = ParticipantState(participant, order)
            self._states[participant] = state
            while len(self._states) > MOST_PARTICIPANTS:
                self._states.popitem(last=False)
        with state.lock:
            if state.search is None and state.done < len(state.order):
                self._ask_next(state)
        return state

    def end(self, state: ParticipantState, is_answered: bool, answer: str) -> None:
        """Record a question and go on to the next.

        Raises:
            UsageError: it was found, and the answer is not said.
            StoreError: the record cannot be written; the question stays.
        """
        with state.lock:
            if state.search is None:
                return
            self._keep(state.search.ended(is_answered, answer))
            state.search, state.media = None, None
            state.done += 1

    def _ask_next(self, state: ParticipantState) -> None:
        sample = self.samples[state.order[state.done]]
        media = media_from(sample.load())
        components = self._reasoner.components
        context = RunContext(sample.query, media, components.settings, threading.Event())
        try:
            ask = make_asker(*seeker_of(components, context), context)
        except UsageError:  # no language model: the action finds nothing
            ask = lambda question, facts: ""  # noqa: E731
        state.media = media
        tools = seek_tools(components.toolbox.session(media), ask)
        state.search = HandSearch(state.participant, sample.text, tools)

    def _keep(self, session: Session) -> None:
        with self._lock:
            try:
                self.records.parent.mkdir(parents=True, exist_ok=True)
                with self.records.open("a", encoding="utf-8") as file:
                    file.write(session_line(session))
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise StoreError(f"{self.records}: cannot be written ({error.strerror})") from None
            self.recorded += 1
