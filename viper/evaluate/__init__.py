"""Judging answers: metrics, engines that answer samples, the store of runs, reports."""
