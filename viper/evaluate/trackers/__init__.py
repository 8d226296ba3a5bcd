"""Experiment trackers, one file each; see :mod:`viper.evaluate.trackers.tracking`."""
