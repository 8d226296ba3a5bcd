from viper.models.groups import equal_groups


def test_equal_keys_share_groups_of_limited_size() -> None:
    assert equal_groups(["a", "b", "a", "a", "b"], 2) == [[0, 2], [3], [1, 4]]


def test_nothing_has_no_groups() -> None:
    assert equal_groups([], 4) == []
