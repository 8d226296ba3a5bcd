"""The commands of ``viper``; each file imports only click at the top."""
