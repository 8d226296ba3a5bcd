"""Routines for pictures of boxes, items and towers; lengths are in pixels, y grows upwards."""

from viper import ImagePatch, routine

WALLS = ["left", "right", "top", "bottom"]

NEAR_CORNER = 5  # at most so far from both walls
NEAR = 20  # at most so much between two items, or an item and a wall


def _gap(first: ImagePatch, second: ImagePatch) -> float:
    """Return the greater of the horizontal and the vertical distance; negative if they overlap."""
    across = max(first.left - second.right, second.left - first.right)
    up = max(first.lower - second.upper, second.lower - first.upper)
    return max(across, up)


def _to_wall(item: ImagePatch, box: ImagePatch, wall: str) -> float:
    """Return the distance from an item to a wall of its box."""
    if wall == "left":
        return item.left - box.left
    if wall == "right":
        return box.right - item.right
    if wall == "top":
        return box.upper - item.upper
    if wall == "bottom":
        return item.lower - box.lower
    return min(_to_wall(item, box, side) for side in WALLS)


@routine(["statement"])
def touches_wall(item: ImagePatch, box: ImagePatch, wall: str = "any") -> bool:
    """Tell whether an item touches a wall of its box: left, right, top, bottom or any.

    Example:
        # there is a box with a black item touching its top
        def execute_command(image):
            boxes = ImagePatch(image).find("box")
            return any(
                touches_wall(item, box, "top") for box in boxes for item in box.find("black item")
            )
    """
    return _to_wall(item, box, wall) <= 0


@routine(["statement"])
def near_wall(item: ImagePatch, box: ImagePatch, wall: str = "any") -> bool:
    """Tell whether an item is close to a wall of its box: left, right, top, bottom or any."""
    return _to_wall(item, box, wall) <= NEAR


@routine(["statement"])
def in_corner(item: ImagePatch, box: ImagePatch, corner: str = "any") -> bool:
    """Tell whether an item is in a corner of its box: "top left", "bottom", … or "any"."""
    close = [wall for wall in WALLS if _to_wall(item, box, wall) <= NEAR_CORNER]
    is_there = ("left" in close or "right" in close) and ("top" in close or "bottom" in close)
    return is_there and all(wall in close for wall in WALLS if wall in corner)


@routine(["statement"])
def touching(first: ImagePatch, second: ImagePatch) -> bool:
    """Tell whether two different items touch each other; blocks of a tower are a pixel apart."""
    gap = _gap(first, second)
    return gap == 0 or (gap == 1 and first.left == second.left)


@routine(["statement"])
def near(first: ImagePatch, second: ImagePatch) -> bool:
    """Tell whether two different items are close to each other."""
    return 0 <= _gap(first, second) <= NEAR


@routine(["statement"])
def above(first: ImagePatch, second: ImagePatch) -> bool:
    """Tell whether the first item is above the second, at any distance."""
    return first.lower >= second.upper


@routine(["statement"])
def on(first: ImagePatch, second: ImagePatch) -> bool:
    """Tell whether the first item of a tower lies directly on the second."""
    return above(first, second) and _gap(first, second) <= 1


@routine(["statement"])
def tower(items: list[ImagePatch]) -> list[ImagePatch]:
    """Return the items from the base to the top; ``tower(items)[0]`` is the base.

    Example:
        # there is a tower with a blue block at the base
        def execute_command(image):
            boxes = ImagePatch(image).find("box")
            towers = [tower(box.find("item")) for box in boxes]
            return any(blocks and blocks[0].exists("blue item") for blocks in towers)
    """
    return sorted(items, key=lambda item: item.lower)


@routine(["statement"])
def colors(items: list[ImagePatch]) -> list[str]:
    """Return the different colours of the items: yellow, black, blue."""
    return [color for color in ["yellow", "black", "blue"] if any(i.exists(color) for i in items)]


@routine(["statement"])
def shapes(items: list[ImagePatch]) -> list[str]:
    """Return the different shapes of the items: square, circle, triangle."""
    return [s for s in ["square", "circle", "triangle"] if any(i.exists(s) for i in items)]


@routine(["statement"])
def sizes(items: list[ImagePatch]) -> list[str]:
    """Return the different sizes of the items: small, medium, big."""
    return [size for size in ["small", "medium", "big"] if any(i.exists(size) for i in items)]
