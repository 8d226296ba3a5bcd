"""``viper serve``: one Reasoner behind HTTP; see docs/serving.md."""
