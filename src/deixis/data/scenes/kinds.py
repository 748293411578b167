"""Kinds of things and the places where they are found. Lists are texts with commas; shapes are in ``shapes.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deixis.data.scenes.colours import HAIR, SKIN, Rgb

PEOPLE = ("man", "woman", "boy", "girl")
_BRIGHT = "red, orange, yellow, green, blue, purple, pink"
_CLOTH = f"{_BRIGHT}, white, black, grey, brown"
_FUR = "brown, black, white, grey"


_SKIES = (((168, 212, 240), (232, 244, 250)), ((184, 216, 246), (250, 240, 226)), ((252, 214, 190), (252, 240, 218)))
_WALLS = (((238, 226, 206), (226, 215, 196)), ((214, 228, 222), (203, 217, 211)), ((226, 218, 234), (215, 207, 222)))


@dataclass(frozen=True)
class Kind:
    """A kind of thing. Points are in hundredths of its height."""

    height: float  # in picture widths, when it stands in front
    nouns: str  # words for one
    plurals: str = ""  # words for several
    type: str = "other"  # as in Flickr30k Entities
    colours: str = _BRIGHT  # of its main paint, which captions name
    patterns: str = ""  # of its main paint, or of the top of a person
    traits: Mapping[str, str] = field(default_factory=dict)  # values of each trait
    paints: Mapping[str, str] = field(default_factory=dict)  # colours of further paints
    details: Mapping[str, str] = field(default_factory=dict)  # parts that captions name, with a word that is true
    verb: str = "stand"  # what it does if it has no pose
    zone: str = "ground"  # where it stands: ground, far, sky or sea
    moves: str = ""  # how it can move through a video
    use: str = ""  # pose of a person who holds or rides it
    grip: float = -50  # y of the hand that holds it
    top: tuple[float, float, float] = (0, 0, 0)  # where things are upon it: x from, x to, y
    cover: tuple[float, float, float] = (0, 0, 0)  # what is under it: distance from the middle from, to; how high


_SIZED = {"size": ", , , big, small"}
_DOG, _CAT, _WALK = {"pose": "stand, walk, run", **_SIZED}, {"pose": "sit", **_SIZED}, {"pose": "stand, walk"}
_BIRD, _FLY, _SAIL, _TRUNK = {"pose": "stand, fly"}, {"pose": "fly"}, {"sail": "white, red"}, {"trunk": "brown"}
_PERSON = {"hat": ", , , , hat, cap", "glasses": ", , , , yes"}
_MALE = {"top": "shirt, jacket, sweater", "bottom": "pants, pants, shorts", "hair": "short, short, curly", **_PERSON}
_FEMALE = {"top": "shirt, jacket, sweater, dress", "bottom": "pants, skirt", "hair": "long, long, curly", **_PERSON}
_WORN = {"skin": ", ".join(SKIN), "top": _CLOTH, "bottom": _FUR, "shoes": _FUR, "hat": _CLOTH}
_ADULT, _CHILD = {"hair": ", ".join(HAIR), **_WORN}, {"hair": "black, brown, blond, red", **_WORN}
KINDS: dict[str, Kind] = {
    "man": Kind(0.56, "man, man, guy", "men, guys", "people", "", "striped", {"beard": ", , yes", **_MALE}, _ADULT),
    "woman": Kind(0.53, "woman, woman, lady", "women, ladies", "people", "", "striped", _FEMALE, _ADULT),
    "boy": Kind(0.4, "boy, boy, young boy", "boys, boys, kids, children", "people", "", "striped", _MALE, _CHILD),
    "girl": Kind(0.39, "girl, girl, little girl", "girls, kids, children", "people", "", "striped", _FEMALE, _CHILD),
    "people": Kind(0.5, "", "people", "people"),
    "dog": Kind(0.23, "dog", "dogs", "animals", _FUR, "spotted", _DOG, {"collar": "red, blue"}, {"ears": "floppy"}),
    "cat": Kind(0.2, "cat", "cats", "animals", "orange, black, white, grey", "striped", _CAT, {}, {"ears": "pointed"}),
    "horse": Kind(0.5, "horse", "horses", "animals", _FUR, "spotted", _WALK, {"saddle": "red, blue"},
                  {"tail": "long", "mane": "thick"}, use="ride", top=(-2, -2, -68)),
    "cow": Kind(0.33, "cow", "cows", "animals", "white, brown, black", "spotted", _WALK, {}, {"horns": "short"}),
    "sheep": Kind(0.26, "sheep", "sheep", "animals", "white, grey", traits=_WALK),
    "bird": Kind(0.12, "bird", "birds", "animals", "red, blue, yellow, black", "", _BIRD, {}, {"beak": "orange"}),
    "car": Kind(0.24, "car", "cars", "vehicles", _CLOTH, verb="park", moves="drive", top=(-20, 20, -97)),
    "bicycle": Kind(0.33, "bicycle, bike", "", "vehicles", verb="park", use="cycle", top=(-19, -19, -88)),
    "boat": Kind(0.26, "boat, sailboat", "boats", "vehicles", paints=_SAIL, verb="float", zone="sea", moves="sail"),
    "house": Kind(0.5, "house, building", colours="white, yellow, pink, blue, grey", traits=_SIZED, zone="far",
                  paints={"roof": "red, brown, grey, blue", "door": "red, blue, green, brown"},
                  details={"windows": "square", "chimney": "small"}, top=(-16, 16, -93)),
    "tree": Kind(0.68, "tree", "trees", "other", "green", "", _SIZED, _TRUNK, zone="far", cover=(14, 18, 40)),
    "flower": Kind(0.22, "flower", "flowers", use="hold", grip=-20),
    "rock": Kind(0.13, "rock, stone", colours="grey, grey, brown", traits=_SIZED, verb="lie", top=(-10, 10, -90)),
    "bench": Kind(0.22, "bench", colours="brown, green, red, white", top=(-65, 65, -48), cover=(0, 50, 60)),
    "table": Kind(0.25, "table", colours="brown, white, red, blue, black", top=(-50, 50, -99), cover=(0, 30, 72)),
    "chair": Kind(0.34, "chair", colours="brown, white, red, blue, green", top=(-3, 3, -46)),
    "sofa": Kind(0.27, "sofa, couch", patterns="striped", top=(-70, 70, -50)),
    "lamp": Kind(0.6, "lamp, light", patterns="striped", zone="far"),
    "ball": Kind(0.11, "ball", "balls", patterns="striped, spotted", verb="lie", moves="roll", use="carry"),
    "balloon": Kind(0.34, "balloon", patterns="striped", traits=_FLY, verb="float", moves="rise", use="hold", grip=0),
    "umbrella": Kind(0.4, "umbrella", patterns="striped", use="hold", grip=-5, cover=(8, 12, 50)),
    "kite": Kind(0.4, "kite", traits=_FLY, verb="fly", moves="rise", use="hold", grip=0),
    "flag": Kind(0.34, "flag", patterns="striped", use="hold", grip=-18),
    "book": Kind(0.1, "book", colours="red, blue, green, purple, black, orange", verb="lie", use="carry"),
    "box": Kind(0.14, "box", "boxes", colours="brown, red, blue, green, yellow", traits=_SIZED, use="carry"),
    "bag": Kind(0.15, "bag", colours=_CLOTH, patterns="striped", verb="lie", use="hang", grip=-96),
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A place: how captions name it, how it is painted, and what may be there."""

    phrases: str
    ground: tuple[Rgb, Rgb]  # colours, far and near
    stamps: tuple[tuple[str, int, float, float, float], ...]  # name, how many at most, y from, y to, size; see draw.py
    scenery: str
    animals: str
    items: str  # what people hold, and what lies on or under other things
    groups: str  # what may come in groups, besides animals and people
    airborne: str = "bird, bird, balloon, kite"
    people: str = ", ".join(PEOPLE)
    upper: tuple[tuple[Rgb, Rgb], ...] = _SKIES  # colours of the sky or wall, at the top and at the horizon


_SKY = (("sun", 1, -0.84, -0.66, 0.05), ("clouds", 4, -0.9, -0.45, 0.05))
_HILLS, _GRASS = ("hill", 4, 0.02, 0.02, 0.12), ("tuft", 40, 0.06, 1.0, 0.018)
_CLUTTER = (("pebble", 16, 0.3, 1.0, 0.006), ("scribble", 2, 0.2, 0.95, 0.07), ("scribble", 2, 0.2, 0.95, 0.07))
SETTINGS: dict[str, Setting] = {
    "park": Setting(
        "in a park, in the park, on the grass, on the lawn", ((190, 214, 156), (168, 200, 134)),
        (*_SKY, _HILLS, _GRASS, *_CLUTTER), "tree, tree, bench, bench, rock, lamp, flower, house, bicycle, table",
        "dog, cat, bird, horse", "balloon, umbrella, ball, kite, book, flag, bag", "flower, tree",
    ),
    "beach": Setting(
        "on the beach, at the beach, on the sand, by the sea", ((244, 228, 194), (233, 211, 171)),
        (*_SKY, ("foam", 1, 0, 0, 1), *_CLUTTER), "tree, boat, boat, umbrella, rock, chair, ball", "dog, bird",
        "kite, ball, flag, umbrella", "ball, boat",
    ),
    "street": Setting(
        "on the street, on a street, in the city, on the road", ((202, 201, 204), (186, 185, 190)),
        (*_SKY, ("skyline", 1, 0, 0, 1), ("road", 1, 0, 0, 1), *_CLUTTER), "car, car, bicycle, lamp, tree, bench",
        "dog, cat, bird", "umbrella, bag, box, balloon, flag", "car",
    ),
    "snow": Setting(
        "in the snow, on the snow, on the snowy ground", ((242, 245, 251), (228, 234, 244)),
        (*_SKY, _HILLS, ("flake", 60, -1, 1, 0.005), *_CLUTTER), "tree, house, rock, car, bench",
        "dog, horse, bird", "flag, box, bag, umbrella", "tree",
    ),
    "field": Setting(
        "in a field, in the field, on a farm", ((216, 214, 150), (200, 198, 126)),
        (*_SKY, _HILLS, ("fence", 1, 0, 0, 1), _GRASS, *_CLUTTER), "tree, house, rock, flower, bicycle",
        "cow, sheep, horse, dog", "bag, flag, kite, flower, box", "flower",
    ),
    "room": Setting(
        "in a room, in the room, in the living room", ((222, 201, 176), (208, 186, 158)),
        (("floor", 1, 0, 0, 1), ("rug", 1, 0.65, 0.65, 1.1), *_CLUTTER[1:]), "table, chair, sofa, lamp",
        "dog, cat", "book, box, balloon, ball, bag", "ball, box", airborne="", upper=_WALLS,
    ),
}  # fmt: skip
