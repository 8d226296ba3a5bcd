"""Taskset of the name `viper_episodes`, since verifiers finds tasksets by modules at the top.

Its default harness calls tools and nothing else: one that runs code on this machine could read the
answers there.
"""

from verifiers.v1.harnesses import NullHarness

from viper.env.verifiers import Episodes

__all__ = ["Episodes", "NullHarness"]
