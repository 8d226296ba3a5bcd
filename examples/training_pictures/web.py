"""Pictures of a concept from a web service that answers with JSON."""

from pathlib import Path

from viper.tuning.picture_web import PictureService, WebSearch

service = PictureService(
    "https://search.example.org/pictures?q={text}&count={limit}",
    items="results",
    picture="image.url",
    page="source",
    hosts=("img.example.org", ".photos.example.org"),
    key_env="PICTURE_SEARCH_KEY",
)
search = WebSearch(service, Path("STATE/web"))
