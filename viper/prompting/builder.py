"""Builds the prompts that ask a language model for a program or for an answer."""

from viper.prompting.compact import compact_document

__all__ = ["compact_document"]
