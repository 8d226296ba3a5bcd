from viper.cli import main

main()
