"""Tells a command or an address of events.

Each gets an event at least once: one whose delivery failed, or was cut short by a kill, is told
again, with the same id.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from viper.errors import UsageError

# Name of the environment variable whose value goes into the header.
SECRET, HEADER = "VIPER_WATCH_SECRET", "X-Viper-Secret"

# Seconds for one delivery: a watch waits for it.
_TIMEOUT_S = 10.0

_ATTEMPTS = 3


class _DeliveryError(Exception):
    """The receiver did not take an event."""


@dataclass
class Pace:
    """When a receiver may be told; what comes at other times waits.

    Attributes:
        quiet: minutes of the day, by this machine's clock, from and until which nothing is told.
        per_hour: most events in any hour; None for any number.
    """

    quiet: tuple[int, int] | None = None
    per_hour: int | None = None
    _told: deque[float] = field(default_factory=deque)

    @classmethod
    def read(cls, quiet: str | None, per_hour: int | None) -> Pace:
        """Read hours such as ``22:00-06:30``.

        Raises:
            UsageError: they are none.
        """
        if quiet is None:
            return cls(None, per_hour)
        found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)", quiet)
        if found is None:
            raise UsageError(f"--quiet {quiet[:20]!r}: expected two times, as in 22:00-06:30")
        begin, begin_minute, end, end_minute = map(int, found.groups())
        return cls((60 * begin + begin_minute, 60 * end + end_minute), per_hour)

    def allows(self, now: float) -> bool:
        """Return whether an event may be told now, in seconds of the system's clock."""
        if self.quiet is not None:
            begin, end = self.quiet
            local = time.localtime(now)
            since = (60 * local.tm_hour + local.tm_min - begin) % (24 * 60)
            if since < (end - begin) % (24 * 60):
                return False
        while self._told and self._told[0] <= now - 3600:
            self._told.popleft()
        return self.per_hour is None or len(self._told) < self.per_hour

    def count(self, now: float) -> None:
        """Note that an event was told."""
        if self.per_hour is not None:
            self._told.append(now)


@dataclass(frozen=True)
class Receiver:
    """A command, as an argument list, or an address, to which each event goes as JSON."""

    command: tuple[str, ...] = ()
    address: str = ""
    pace: Pace = field(default_factory=Pace)

    @classmethod
    def read(cls, text: str, pace: Pace | None = None) -> Receiver:
        """Read a command line or an address; no shell ever reads the command.

        Raises:
            UsageError: it is neither.
        """
        if text.startswith(("http://", "https://")):
            return cls(address=text, pace=pace or Pace())
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            raise UsageError(f"--on-event {text[:60]!r}: {error}") from None
        if not command:
            raise UsageError("--on-event is empty; expected a command or an address")
        return cls(command, pace=pace or Pace())

    def tell(self, rows: Sequence[bytes]) -> tuple[int, str]:
        """Deliver rows in their order, up to the first that must wait or fails after some tries.

        Returns:
            How many were delivered, and why the next one failed; "" if none did.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_DeliveryError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(0.2, max=2),
            reraise=True,
        )
        for number, row in enumerate(rows):
            if not self.pace.allows(time.time()):
                return number, ""
            try:
                retrying(self._deliver, row)
            except _DeliveryError as error:
                return number, str(error)
            self.pace.count(time.time())
        return len(rows), ""

    def _deliver(self, row: bytes) -> None:
        if self.address:
            secret = os.environ.get(SECRET)
            headers = {"Content-Type": "application/json", **({HEADER: secret} if secret else {})}
            try:
                # what it replies is not read, however much or slowly it sends
                with httpx.stream(
                    "POST", self.address, content=row, headers=headers, timeout=_TIMEOUT_S
                ) as reply:
                    reply.raise_for_status()
            except httpx.HTTPStatusError as error:
                raise _DeliveryError(f"the address replied {error.response.status_code}") from None
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                raise _DeliveryError(f"{type(error).__name__} at the address") from None
            return
        try:
            done = subprocess.run(
                self.command,
                input=row,
                timeout=_TIMEOUT_S,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise _DeliveryError(f"{self.command[0]}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise _DeliveryError(f"{self.command[0]} took over {_TIMEOUT_S:g} s") from None
        if done.returncode:
            raise _DeliveryError(f"{self.command[0]} ended with exit code {done.returncode}")
