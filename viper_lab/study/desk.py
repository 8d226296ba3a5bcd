"""Who sits at the study: each participant with a question, and the records of what they did."""

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
from viper.strategies.seek.search import make_asker
from viper.strategies.seek.strategy import seek_tools, seeker_of
from viper_lab.study.by_hand import HandSearch
from viper_lab.study.records import Session, session_line

MOST_PARTICIPANTS = 200
"""Whose place is kept; the one who did nothing for longest loses theirs."""

_ID = re.compile(r"p-[0-9a-f]{12}")


def new_participant() -> str:
    """Return a random id that says nothing about the participant."""
    return f"p-{secrets.token_hex(6)}"


def is_participant(text: str) -> bool:
    """Return whether a text has the form of such an id."""
    return bool(_ID.fullmatch(text))


@dataclass
class ParticipantState:
    """A participant's.

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


class StudyDesk:
    """Everybody's places; threads may use it side by side.

    Args:
        samples: questions about one picture each.
        records: the file that takes the records; what it holds stays.

    Raises:
        UsageError: a sample that is no question about one picture.
    """

    def __init__(self, reasoner: Reasoner, samples: Sequence[Sample], records: Path) -> None:
        for one in samples:
            if one.task != "question" or one.media != "image":
                raise UsageError(
                    f"{one.sample_id} is a {one.task} about {one.media}; a study asks questions "
                    "about one picture, as of world-knowledge, okvqa or infoseek"
                )
        self.samples, self.records = samples, records
        self._reasoner = reasoner
        self._places: OrderedDict[str, ParticipantState] = OrderedDict()
        self._lock = threading.Lock()
        self.kept = 0

    def place(self, participant: str) -> ParticipantState:
        """Return the place of a participant, with a question if one is left."""
        with self._lock:
            place = self._places.pop(participant, None)
            if place is None:
                order = list(range(len(self.samples)))
                Random(participant).shuffle(order)
                place = ParticipantState(participant, order)
            self._places[participant] = place
            while len(self._places) > MOST_PARTICIPANTS:
                self._places.popitem(last=False)
        with place.lock:
            if place.search is None and place.done < len(place.order):
                self._sit_down(place)
        return place

    def end(self, place: ParticipantState, is_answered: bool, answer: str) -> None:
        """Record a question and go on to the next.

        Raises:
            UsageError: it was found, and the answer is not said.
            StoreError: the record cannot be written; the question stays.
        """
        with place.lock:
            if place.search is None:
                return
            self._keep(place.search.ended(is_answered, answer))
            place.search, place.media = None, None
            place.done += 1

    def _sit_down(self, place: ParticipantState) -> None:
        sample = self.samples[place.order[place.done]]
        media = media_from(sample.load())
        components = self._reasoner.components
        context = RunContext(sample.query, media, components.settings, threading.Event())
        try:
            ask = make_asker(*seeker_of(components, context), context)
        except UsageError:  # no language model: the action finds nothing
            ask = lambda question, facts: ""  # noqa: E731
        place.media = media
        tools = seek_tools(components.toolbox.session(media), ask)
        place.search = HandSearch(place.participant, sample.text, tools)

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
            self.kept += 1
