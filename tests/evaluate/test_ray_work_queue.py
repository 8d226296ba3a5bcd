"""Which actor gets which items, and who is to blame when one dies."""

from __future__ import annotations

from engine_doubles import a_sample, answered, some_items

from viper.evaluate.engines.ray import WorkQueue
from viper.evaluate.engines.sample_runner import Item


def test_each_item_goes_out_once_and_comes_back_once() -> None:
    items = some_items(10)
    queue = WorkQueue(items, 3)
    back: list[int] = []
    while not queue.finished:
        for actor in "ab":
            positions = queue.hand_out(actor)
            assert len(positions) <= 3
            found = queue.accept(actor, [answered(items[position]) for position in positions])
            back += [accept.position for accept in found]
    assert sorted(back) == list(range(10))


def test_a_busy_actor_gets_more_only_when_there_is_room() -> None:
    items = some_items(20)
    queue = WorkQueue(items, 6)
    assert queue.hand_out("a") == [0, 1, 2, 3, 4, 5]
    assert queue.hand_out("a") == []
    assert len(list(queue.accept("a", [answered(items[0])]))) == 1
    assert queue.hand_out("a") == []
    assert len(list(queue.accept("a", [answered(items[1])]))) == 1
    assert queue.hand_out("a") == [6, 7]


def test_items_of_one_picture_stay_together() -> None:
    items = [
        Item(number, a_sample(number, files=(f"{number // 4}.png",)), 0) for number in range(12)
    ]
    assert WorkQueue(items, 3).hand_out("a") == [0, 1, 2, 3]


def test_the_items_of_a_dead_actor_are_done_again_one_at_a_time_before_others() -> None:
    items = some_items(6)
    queue = WorkQueue(items, 3)
    assert queue.hand_out("a") == [0, 1, 2]
    assert list(queue.accept("a", [answered(items[1])]))
    assert list(queue.drop_actor("a")) == []
    assert queue.hand_out("a") == [0]
    assert queue.hand_out("a") == []
    assert list(queue.accept("a", [answered(items[0])]))
    assert queue.hand_out("a") == [2]
    assert list(queue.accept("a", [answered(items[2])]))
    assert queue.hand_out("a") == [3, 4, 5]


def test_only_the_item_that_kills_alone_is_given_up() -> None:
    items = some_items(3)
    queue = WorkQueue(items, 3)
    queue.hand_out("a")
    assert list(queue.drop_actor("a")) == []
    given_up = []
    for position in range(3):
        assert queue.hand_out("b") == [position]
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
    assert queue.hand_out("b") == [0]
    assert len(list(queue.accept("b", [answered(items[0])]))) == 1
    assert queue.finished
