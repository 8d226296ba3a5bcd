"""A detector that returns red regions for every phrase; it has no model."""

from scipy import ndimage

from viper.models.vision.roles import Detection


class RedDetector:
    def __init__(self, source, *, least=3):
        self.model_id = f"red:{source}:{least}"
        self._least = least

    def encode(self, images):
        return [image[..., 0].astype(int) - image[..., 1:].max(axis=-1) for image in images]

    def detect(self, encoding, phrases):
        labels, _ = ndimage.label(encoding >= self._least)
        detections = []
        for number, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
            redness = encoding[rows, columns][labels[rows, columns] == number].mean() / 255
            box = (columns.start, rows.start, columns.stop, rows.stop)
            detections.append(Detection(tuple(map(float, box)), float(redness)))
        detections.sort(key=lambda detection: -detection.score)
        return [list(detections) for _ in phrases]
