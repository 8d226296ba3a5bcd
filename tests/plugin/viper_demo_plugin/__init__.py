"""What an installed package may offer viper."""
