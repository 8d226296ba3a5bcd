"""Which actor gets which items, and who is to blame when one dies."""

from __future__ import annotations

from collections.abc import Hashable

from engine_doubles import a_sample, answered, some_items

from viper.evaluate.engines.ray import WorkQueue
from viper.evaluate.engines.sample_runner import Item


def taken(queue: WorkQueue, actor: str) -> list[int]:
    """Hand out items; return their positions."""
    return [item.position for item in queue.hand_out(actor)]


def test_each_item_goes_out_once_and_comes_back_once() -> None:
    items = some_items(10)
    queue = WorkQueue(items, 3)
    back: list[int] = []
    while not queue.finished:
        for actor in "ab":
            positions = taken(queue, actor)
            assert len(positions) <= 3
            found = queue.accept(actor, [answered(items[position]) for position in positions])
            back += [accept.position for accept in found]
    assert sorted(back) == list(range(10))


def test_a_busy_actor_gets_more_only_when_there_is_room() -> None:
    items = some_items(20)
    queue = WorkQueue(items, 6)
    assert taken(queue, "a") == [0, 1, 2, 3, 4, 5]
    assert taken(queue, "a") == []
    assert len(list(queue.accept("a", [answered(items[0])]))) == 1
    assert taken(queue, "a") == []
    assert len(list(queue.accept("a", [answered(items[1])]))) == 1
    assert taken(queue, "a") == [6, 7]


def test_items_of_one_picture_stay_together() -> None:
    items = [
        Item(number, a_sample(number, files=(f"{number // 4}.png",)), 0) for number in range(12)
    ]
    assert taken(WorkQueue(items, 3), "a") == [0, 1, 2, 3]


def test_an_actor_gets_the_pictures_that_it_had_before_and_then_those_of_others() -> None:
    """Here over two runs, in which actors keep what models saw of a picture."""

    def a_run() -> WorkQueue:
        files = [(f"{number // 2}.png",) for number in range(12)]
        return WorkQueue([Item(n, a_sample(n, files=f), 0) for n, f in enumerate(files)], 4, homes)

    def done(queue: WorkQueue, actor: str) -> list[int]:
        given = queue.hand_out(actor)
        assert len(list(queue.accept(actor, [answered(item) for item in given]))) == len(given)
        return [item.position for item in given]

    homes: dict[tuple[str, ...], Hashable] = {}
    first = a_run()
    assert [done(first, actor) for actor in "abab"] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [],
    ]
    second = a_run()
    assert [done(second, actor) for actor in "bbaa"] == [
        [4, 5, 6, 7],
        [0, 1],  # one picture of another at a time
        [2, 3, 8, 9],
        [10, 11],
    ]
    assert second.finished


def test_the_items_of_a_dead_actor_are_done_again_one_at_a_time_before_others() -> None:
    items = some_items(6)
    queue = WorkQueue(items, 3)
    assert taken(queue, "a") == [0, 1, 2]
    assert list(queue.accept("a", [answered(items[1])]))
    assert list(queue.drop_actor("a")) == []
    assert taken(queue, "a") == [0]
    assert taken(queue, "a") == []
    assert list(queue.accept("a", [answered(items[0])]))
    assert taken(queue, "a") == [2]
    assert list(queue.accept("a", [answered(items[2])]))
    assert taken(queue, "a") == [3, 4, 5]


def test_only_the_item_that_kills_alone_is_given_up() -> None:
    items = some_items(3)
    queue = WorkQueue(items, 3)
    queue.hand_out("a")
    assert list(queue.drop_actor("a")) == []
    given_up = []
    for position in range(3):
        assert taken(queue, "b") == [position]
        if position == 1:
            given_up += list(queue.drop_actor("b"))
        else:
            assert list(queue.accept("b", [answered(items[position])]))
    assert queue.finished
    assert [(accept.position, accept.row.failure) for accept in given_up] == [(1, "crash")]
    assert "died 2 times" in (given_up[0].row.message or "")


def test_what_comes_late_from_an_actor_given_up_is_not_counted_twice() -> None:
    items = some_items(1)
    queue = WorkQueue(items, 3)
    queue.hand_out("a")
    assert list(queue.drop_actor("a")) == []
    assert list(queue.accept("a", [answered(items[0])])) == []
    assert taken(queue, "b") == [0]
    assert len(list(queue.accept("b", [answered(items[0])]))) == 1
    assert queue.finished
