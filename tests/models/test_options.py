import pytest

from viper.errors import ProfileError
from viper.models.options import check_at_least, check_shares, checked_texts


def test_options_are_checked() -> None:
    check_at_least(1, frames=1)
    with pytest.raises(ProfileError, match="the option frames is 0; expected 1 or more"):
        check_at_least(1, frames=0)
    assert checked_texts("neutral", ("a", "b"), at_least=1) == ["a", "b"]
    with pytest.raises(ProfileError, match="the option neutral is 'still'; expected a list"):
        checked_texts("neutral", "still")
    with pytest.raises(ProfileError, match="expected a list of texts"):
        checked_texts("neutral", ["a", 3])  # type: ignore[list-item]
    with pytest.raises(ProfileError, match="has 0 texts; expected 1 or more"):
        checked_texts("neutral", [], at_least=1)
    check_shares(threshold=0, overlap=1.0)
    with pytest.raises(ProfileError, match="the option overlap is nan; expected 0 to 1"):
        check_shares(threshold=0.5, overlap=float("nan"))
