"""Data sets: one module each, which reads the set's official files; see ``viper.data.sample``."""
