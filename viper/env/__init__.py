"""Environments for training: an agent acts by code on a task, and the answer is rewarded exactly.

:class:`~viper.env.episode.Episode` is the environment; the other modules are its faces for TRL,
OpenEnv, verifiers and Gymnasium.
"""
