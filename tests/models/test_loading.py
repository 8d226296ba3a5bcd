"""Names of models, and how their inputs become batches."""

from collections.abc import Sequence

from viper.models.loading import in_equal_groups, model_id


def test_a_folder_is_named_by_its_name_and_weights(tmp_path):
    folder = tmp_path / "depth"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    first = model_id(folder)
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert first.startswith("depth@") and len(first) == len("depth@") + 12
    assert model_id(folder) != first


def test_a_published_name_stays_itself():
    assert model_id("org/checkpoint") == "org/checkpoint"


def test_items_with_equal_keys_share_batches_of_limited_size() -> None:
    batches: list[list[str]] = []

    def forward(batch: Sequence[str]) -> list[str]:
        batches.append(list(batch))
        return [item.upper() for item in batch]

    found = in_equal_groups(["a1", "b1", "a2", "a3", "b2"], lambda item: item[0], 2, forward)
    assert found == ["A1", "B1", "A2", "A3", "B2"]
    assert batches == [["a1", "a2"], ["a3"], ["b1", "b2"]]
    assert in_equal_groups([], len, 4, forward) == []
