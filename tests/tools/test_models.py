"""When and how often backends are loaded."""

import threading
import time
import weakref

import pytest

from viper.errors import ModelError, ToolError
from viper.models.memory import MemoryBudget
from viper.tools.models import ModelSet


def test_each_backend_is_loaded_once_however_many_threads_ask():
    loads = []

    def load():
        time.sleep(0.02)
        loads.append(1)
        return object()

    models = ModelSet({"vqa": load})
    got = []
    threads = [threading.Thread(target=lambda: got.append(models.get("vqa"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert len(set(map(id, got))) == 1


def test_two_backends_never_load_at_the_same_time():
    inside, most = [], []

    def load():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return object()

    models = ModelSet(dict.fromkeys(("detector", "depth", "vqa"), load))
    threads = [threading.Thread(target=models.get, args=(role,)) for role in models.roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]


def test_loading_in_the_background_loads_everything():
    models = ModelSet({"detector": lambda: "d", "depth": lambda: "z"})
    models.load_in_background().join(10)
    assert models.loaded() == {"detector": "d", "depth": "z"}


def test_what_few_programs_need_is_not_loaded_ahead():
    models = ModelSet({"detector": lambda: "d", "inpainter": lambda: "i"})
    models.load_in_background().join(10)
    models.load_all()
    assert models.loaded() == {"detector": "d"}
    assert models.get("inpainter") == "i"


def test_a_backend_that_cannot_be_loaded_says_so_where_it_is_used():
    def broken():
        raise ModelError("no weights there")

    models = ModelSet({"depth": broken})
    models.load_in_background().join(10)
    with pytest.raises(ModelError, match="no weights there"):
        models.get("depth")


def test_a_role_without_a_model_is_an_error():
    with pytest.raises(ToolError, match="no model plays the role 'video'"):
        ModelSet({}).get("video")


class Heavy:
    def __init__(self, size):
        self.memory_bytes = size


def test_the_backend_not_used_for_longest_goes_first():
    models = ModelSet(
        {role: lambda: Heavy(40) for role in ("detector", "depth", "vqa")}, MemoryBudget(100)
    )
    models.get("detector")
    models.get("depth")
    models.get("detector")
    models.get("vqa")
    assert set(models.loaded()) == {"detector", "vqa"}
    assert models.memory_bytes() == 80
    models.get("depth")
    assert set(models.loaded()) == {"vqa", "depth"}


def test_a_backend_in_use_is_never_let_go():
    models = ModelSet({"depth": lambda: Heavy(80), "vqa": lambda: Heavy(80)}, MemoryBudget(100))
    got = threading.Event()

    def load_another():
        models.get("vqa")
        got.set()

    with models.using("depth") as depth:
        threading.Thread(target=load_another).start()
        assert got.wait(10)
        assert models.get("depth") is depth
    models.get("depth")
    assert "depth" in models.loaded()


def test_one_backend_above_the_bound_is_loaded_alone():
    models = ModelSet({"depth": lambda: Heavy(8), "vqa": lambda: Heavy(800)}, MemoryBudget(100))
    models.get("depth")
    models.get("vqa")
    assert list(models.loaded()) == ["vqa"]


def test_backends_without_weights_of_their_own_stay():
    models = ModelSet({"text": object, "vqa": lambda: Heavy(800)}, MemoryBudget(100))
    models.get("text")
    models.get("vqa")
    assert set(models.loaded()) == {"text", "vqa"}


def test_one_in_use_is_not_let_go_by_the_thread_that_uses_it_either():
    models = ModelSet({"depth": lambda: Heavy(80), "vqa": lambda: Heavy(80)}, MemoryBudget(100))
    with models.using("depth") as depth:
        models.get("vqa")
        assert models.loaded()["depth"] is depth
    models.get("vqa")


class OnModel:
    """A backend on a model that several roles share."""

    def __init__(self, model):
        self.model, self.memory_bytes = model, model.memory_bytes


def share(models, role, key, load, on=OnModel):
    weights = models.budget.weights(key)
    models.add_sharing(role, weights, lambda: on(weights.shared_model(load)))


def sharing(max_bytes=None, size=40):
    """A set whose roles share a model, and every model that was loaded for it."""
    loads, models = [], ModelSet({}, MemoryBudget(max_bytes))

    def load():
        loads.append(Heavy(size))
        return loads[-1]

    for role in ("vqa", "video"):
        share(models, role, "a model", load)
    return models, loads


@pytest.mark.parametrize("order", [("vqa", "video"), ("video", "vqa")])
def test_roles_that_share_a_model_load_and_count_it_once(order):
    models, loads = sharing()
    first, second = (models.get(role) for role in order)
    assert first is not second and first.model is second.model is loads[0]
    assert len(loads) == 1 and models.memory_bytes() == 40
    assert set(models.loaded()) == {"vqa", "video"}


def test_a_shared_model_is_loaded_once_however_many_threads_ask():
    models, loads = sharing()
    threads = [
        threading.Thread(target=models.get, args=(role,))
        for role in ("vqa", "video")
        for _ in "1234"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


def test_unlike_keys_share_nothing():
    models, loads = sharing()
    share(models, "text", "another model", lambda: Heavy(2))
    models.load_all()
    assert len(loads) == 1 and models.memory_bytes() == 42


def test_a_shared_model_goes_when_none_of_its_roles_was_used_for_longest():
    models, loads = sharing(100)
    models.add("depth", lambda: Heavy(50))
    models.add("detector", lambda: Heavy(30))
    models.get("vqa")
    models.get("depth")
    models.get("video")  # used by one of its roles, it is newer than depth
    models.get("detector")
    assert set(models.loaded()) == {"vqa", "video", "detector"}
    gone = weakref.ref(loads.pop())
    models.get("detector")
    models.get("depth")
    assert set(models.loaded()) == {"detector", "depth"} and gone() is None
    models.get("video")
    assert len(loads) == 1 and "vqa" not in models.loaded()


def test_a_shared_model_in_use_by_one_role_stays_for_the_other():
    models, loads = sharing(100, 80)
    models.add("depth", lambda: Heavy(80))
    models.get("vqa")
    with models.using("video"):
        other = threading.Thread(target=models.get, args=("depth",))
        other.start()
        other.join(10)
        assert set(models.loaded()) == {"vqa", "video", "depth"}
    assert len(loads) == 1


def test_two_roles_of_a_shared_model_take_turns():
    models, _ = sharing()
    order = []

    def use():
        with models.using("video"):
            order.append("video")

    with models.using("vqa"):
        other = threading.Thread(target=use)
        other.start()
        other.join(0.1)
        order.append("vqa")
    other.join(10)
    assert order == ["vqa", "video"]


def test_a_shared_model_on_which_no_backend_could_be_made_counts_and_can_go():
    def refuse(model):
        raise ModelError("no chat template")

    models = ModelSet({"depth": lambda: Heavy(80)}, MemoryBudget(100))
    share(models, "vqa", "a model", lambda: Heavy(60), refuse)
    models.get("depth")
    with pytest.raises(ModelError, match="no chat template"):
        models.get("vqa")
    assert not models.loaded() and models.memory_bytes() == 60
    models.get("depth")
    assert list(models.loaded()) == ["depth"] and models.memory_bytes() == 80


def test_running_out_of_memory_says_what_to_change():
    models = ModelSet({"vqa": object})
    with pytest.raises(ModelError, match="vqa: out of memory; .*quantize"), models.using("vqa"):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
