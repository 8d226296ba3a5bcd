"""Judging answers, and what needs judged answers.

Metrics, intervals; engines that answer samples, the store of runs, reports; the score
of the embedded world. On top of them the learning loop (:mod:`viper.evaluate.learning`), the mining
of examples and of first demonstrations, and the workflows of exploring agents
(:mod:`viper.evaluate.workflows`).
"""
