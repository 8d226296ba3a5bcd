"""The sandbox with one guard taken away: preludes that patch it before a child is made.

An attempt that fails in the real sandbox must succeed in the one that lacks its guard;
otherwise its failure proves nothing. Every other layer stays on. A module here is the
name of a guard in ``tests/sandbox/abuse``; it offers the names of ``base`` and differs
only by its patch, which the zygote makes when it imports the prelude.
"""
