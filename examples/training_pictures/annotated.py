"""Annotated pictures of a concept, rendered by the embedded world."""

from viper.tuning.data_collection import collect_annotated
from viper.tuning.training_data import ConceptQuery
from viper_lab.world.annotated import WorldStore

query = ConceptQuery("pyramid", related=("cone", "cube"))
collection = collect_annotated(query, WorldStore(), limit=2, negatives=2, seed=3)
picture = collection.positives[0]
print(picture.pixels().shape, [(thing.labels, thing.box) for thing in picture.things])
