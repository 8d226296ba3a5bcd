import time
from viper.sandbox import *
