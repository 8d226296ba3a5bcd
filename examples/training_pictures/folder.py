"""Pictures of a concept from a folder, found by file name or by a matcher."""

from pathlib import Path

from viper.models.vision.matcher_open_clip import OpenClipMatcher
from viper.tuning.data_collection import collect_pictures
from viper.tuning.picture_folder import FolderSearch
from viper.tuning.training_data import ConceptQuery

matcher = OpenClipMatcher.from_pretrained("MATCHER")
search = FolderSearch(Path("PICTURES"), matcher, state=Path("STATE"))
collection = collect_pictures(
    ConceptQuery("pyramid"), search, vocabulary=("cone", "cube"), matcher=matcher
)
print(len(collection.positives), len(collection.negatives), collection.evidence["related"])
