"""Tells a command or an address of events.

Each gets an event at least once: one whose delivery failed, or was cut short by a kill, is told
again, with the same id.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Receiver:
    """A command, as an argument list, or an address, to which each event goes as JSON."""

    command: tuple[str, ...] = ()
    address: str = ""

    @classmethod
    def read(cls, text: str) -> Receiver:
        """Read a command line or an address; no shell ever reads the command.

        Raises:
            UsageError: it is neither.
        """
        if text.startswith(("http://", "https://")):
            return cls(address=text)
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            raise UsageError(f"--on-event {text[:60]!r}: {error}") from None
        if not command:
            raise UsageError("--on-event is empty; expected a command or an address")
        return cls(command)

    def tell(self, rows: Sequence[bytes]) -> tuple[int, str]:
        """Deliver rows in their order, up to the first that fails after some tries.

        Returns:
            How many were delivered, and why not the next; "" if all were.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_DeliveryError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(0.2, max=2),
            reraise=True,
        )
        for number, row in enumerate(rows):
            try:
                retrying(self._deliver, row)
            except _DeliveryError as error:
                return number, str(error)
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
