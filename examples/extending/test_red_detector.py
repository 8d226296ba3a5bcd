import numpy as np
from red_detector import RedDetector

from viper.testing.conformance import KnownObject, check_detector


def test_the_detector_conforms_to_its_role():
    wide, tall = np.zeros((40, 90, 3), np.uint8), np.zeros((90, 40, 3), np.uint8)
    wide[5:15, 60:80, 0] = tall[60:80, 5:15, 0] = 255
    wide[30:35, 5:10, 0] = tall[10:15, 30:35, 0] = 20
    known = [KnownObject(wide, "ball", (60, 5, 80, 15)), KnownObject(tall, "cup", (5, 60, 15, 80))]
    check_detector(RedDetector("demo"), [wide, tall], known=known)
