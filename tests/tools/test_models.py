"""When and how often backends are loaded."""

import threading
import time

import pytest

from viper.errors import ModelError, ToolError
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
        {role: lambda: Heavy(40) for role in ("detector", "depth", "vqa")}, max_bytes=100
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
    models = ModelSet({"depth": lambda: Heavy(80), "vqa": lambda: Heavy(80)}, max_bytes=100)
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
    models = ModelSet({"depth": lambda: Heavy(8), "vqa": lambda: Heavy(800)}, max_bytes=100)
    models.get("depth")
    models.get("vqa")
    assert list(models.loaded()) == ["vqa"]


def test_backends_without_weights_of_their_own_stay():
    models = ModelSet({"text": object, "vqa": lambda: Heavy(800)}, max_bytes=100)
    models.get("text")
    models.get("vqa")
    assert set(models.loaded()) == {"text", "vqa"}


def test_running_out_of_memory_says_what_to_change():
    models = ModelSet({"vqa": object})
    with pytest.raises(ModelError, match="vqa: out of memory; .*quantize"), models.using("vqa"):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
