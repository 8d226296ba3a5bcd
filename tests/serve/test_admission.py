"""The order of turns, and that no place is ever lost."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from viper.serve.jobs import Admission, Slot
from viper.serve.replies import QueueFullError


async def settle() -> None:
    """Lets every task go as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_turns_come_in_the_order_of_asking() -> None:
    async def scenario() -> list[int]:
        admission, order = Admission(1, 3), []

        async def visit(number: int, place: Slot) -> None:
            await place.turn()
            order.append(number)
            await asyncio.sleep(0)
            place.leave()

        await asyncio.gather(*(visit(number, admission.enter()) for number in range(4)))
        assert (admission.running, admission.waiting) == (0, 0)
        return order

    assert asyncio.run(scenario()) == [0, 1, 2, 3]


def test_no_more_than_the_workers_run_and_no_more_than_the_places_wait() -> None:
    async def scenario() -> None:
        admission = Admission(2, 1)
        places = [admission.enter() for _ in range(3)]
        assert (admission.running, admission.waiting) == (0, 3)
        tasks = [asyncio.create_task(place.turn()) for place in places]
        await settle()
        assert (admission.running, admission.waiting) == (2, 1)
        with pytest.raises(QueueFullError, match="all 3 places are taken"):
            admission.enter()
        places[0].leave()
        await asyncio.gather(*tasks)
        assert (admission.running, admission.waiting) == (2, 0)

    asyncio.run(scenario())


def test_leaving_twice_frees_one_place() -> None:
    async def scenario() -> None:
        admission = Admission(1, 1)
        first, second = admission.enter(), admission.enter()
        first.leave()
        first.leave()
        assert admission.waiting == 1
        await second.turn()
        second.leave()
        second.leave()
        assert (admission.running, admission.waiting) == (0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("when", ["while waiting", "as the turn comes"])
def test_who_gives_up_passes_the_turn_on(when: str) -> None:
    async def scenario() -> None:
        admission = Admission(1, 2)
        running, quitter, patient = (admission.enter() for _ in range(3))
        await running.turn()
        quitting = asyncio.create_task(quitter.turn())
        waiting = asyncio.create_task(patient.turn())
        await settle()
        if when == "as the turn comes":
            running.leave()
        quitting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await quitting
        quitter.leave()
        running.leave()
        await waiting
        assert (admission.running, admission.waiting) == (1, 0)
        patient.leave()
        assert (admission.running, admission.waiting) == (0, 0)

    asyncio.run(scenario())
