"""The number of a line: the number of its scene, then its position in the scene.

Ranking needs the scene and the neighbours of every line that it finds. Both follow from the number, without a read.
A scene is an unbroken part of a session. Unused positions lie between two scenes, so a neighbour's number never belongs
to another scene.
"""

SCENE_LINES_MAX = 64
POSITION_BITS = 7  # positions 1 to 64; the distance between scenes exceeds every distance of ranking's neighbours

_POSITION = (1 << POSITION_BITS) - 1


def line_id(scene: int, position: int) -> int:
    return scene << POSITION_BITS | position


def scene_of(line: int) -> int:
    return line >> POSITION_BITS


def position_of(line: int) -> int:
    return line & _POSITION


def is_position(line: int) -> bool:
    """Whether a line can have the number, as that of a neighbour of the first or last line of a scene cannot."""
    return 1 <= line & _POSITION <= SCENE_LINES_MAX
