"""``python -m viper``: the command line."""

from viper.cli import main

if __name__ == "__main__":
    main()
