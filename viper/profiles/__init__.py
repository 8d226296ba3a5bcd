"""Profiles: which model plays which role, thresholds, trials, limits."""

from viper.profiles.files import known_profiles, read_profile
from viper.profiles.wiring import Profile, load_profile

__all__ = ["Profile", "known_profiles", "load_profile", "read_profile"]
