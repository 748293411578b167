"""The words of the captions."""

from __future__ import annotations

# One and many; a kind that never comes in groups has no plural.
NOUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "man": (("man", "man", "guy"), ("men", "guys")),
    "woman": (("woman", "woman", "lady"), ("women", "ladies")),
    "boy": (("boy",), ("boys", "boys", "kids", "children")),
    "girl": (("girl",), ("girls", "girls", "kids", "children")),
    "people": ((), ("people",)),
    "dog": (("dog",), ("dogs",)),
    "cat": (("cat",), ("cats",)),
    "horse": (("horse",), ("horses",)),
    "cow": (("cow",), ("cows",)),
    "sheep": (("sheep",), ("sheep",)),
    "bird": (("bird",), ("birds",)),
    "duck": (("duck",), ("ducks",)),
    "car": (("car",), ("cars",)),
    "bus": (("bus",), ()),
    "truck": (("truck",), ()),
    "bicycle": (("bicycle", "bike"), ()),
    "boat": (("boat", "sailboat"), ("boats", "sailboats")),
    "house": (("house", "building"), ()),
    "tree": (("tree",), ("trees",)),
    "pine": (("tree", "pine tree"), ("trees", "pine trees")),
    "palm": (("palm tree", "tree"), ()),
    "bush": (("bush",), ()),
    "flower": (("flower",), ("flowers",)),
    "plant": (("plant",), ()),
    "rock": (("rock", "stone"), ()),
    "bench": (("bench",), ()),
    "table": (("table",), ()),
    "chair": (("chair",), ()),
    "sofa": (("sofa", "couch"), ()),
    "lamp": (("lamp", "light"), ()),
    "sign": (("sign",), ()),
    "picture": (("painting",), ()),
    "snowman": (("snowman",), ()),
    "ball": (("ball",), ("balls",)),
    "balloon": (("balloon",), ("balloons",)),
    "umbrella": (("umbrella",), ()),
    "kite": (("kite",), ()),
    "flag": (("flag",), ()),
    "book": (("book",), ()),
    "cup": (("cup", "mug"), ()),
    "box": (("box",), ("boxes",)),
    "bucket": (("bucket", "pail"), ()),
    "bag": (("bag",), ()),
}
UNCOLOURED = ("plant", "snowman", "picture", "pine", "palm", "bush")
NUMBERS = {
    2: ("two", "two", "a pair of", "some"),
    3: ("three", "three", "a group of", "several", "some"),
    4: ("four", "four", "a group of", "several", "some"),
}
# Parts that captions name by their colour, with the paint that has it.
PAINTED = {
    "collar": "collar", "leash": "collar", "sail": "sail", "scarf": "scarf", "pot": "main", "saddle": "saddle",
    "roof": "roof", "door": "door", "trunk": "trunk",
}  # fmt: skip
# Parts that captions name by a word that is always true of them.
ALWAYS = {
    ("dog", "ears"): "floppy", ("dog", "tail"): "long", ("cat", "ears"): "pointed", ("cat", "tail"): "long",
    ("horse", "tail"): "long", ("horse", "mane"): "thick", ("cow", "horns"): "short", ("bird", "beak"): "orange",
    ("duck", "beak"): "orange", ("car", "wheels"): "black", ("truck", "wheels"): "black", ("bus", "windows"): "large",
    ("bicycle", "wheels"): "thin", ("house", "windows"): "square", ("house", "chimney"): "small",
}  # fmt: skip
PLACES = {
    "park": (("in", "a park"), ("in", "the park"), ("on", "the grass"), ("on", "the lawn")),
    "beach": (("on", "the beach"), ("at", "the beach"), ("on", "the sand"), ("by", "the sea")),
    "street": (("on", "the street"), ("on", "a street"), ("in", "the city"), ("on", "the road")),
    "snow": (("in", "the snow"), ("on", "the snow"), ("on", "the snowy ground")),
    "field": (("in", "a field"), ("in", "the field"), ("on", "a farm")),
    "room": (("in", "a room"), ("in", "the room"), ("in", "the living room")),
    "sky": (("in", "the sky"), ("in", "the air")),
    "sea": (("on", "the sea"), ("on", "the water")),
}
# -ing, he, they
FORMS = {
    "carry": ("carrying", "carries", "carry"), "chase": ("chasing", "chases", "chase"),
    "drive": ("driving", "drives", "drive"), "float": ("floating", "floats", "float"),
    "fly": ("flying", "flies", "fly"), "hold": ("holding", "holds", "hold"), "jog": ("jogging", "jogs", "jog"),
    "jump": ("jumping", "jumps", "jump"), "kick": ("kicking", "kicks", "kick"), "lead": ("leading", "leads", "lead"),
    "leap": ("leaping", "leaps", "leap"), "lie": ("lying", "lies", "lie"), "play": ("playing", "plays", "play"),
    "pose": ("posing", "poses", "pose"), "rest": ("resting", "rests", "rest"), "ride": ("riding", "rides", "ride"),
    "rise": ("rising", "rises", "rise"), "roll": ("rolling", "rolls", "roll"), "run": ("running", "runs", "run"),
    "sail": ("sailing", "sails", "sail"), "sit": ("sitting", "sits", "sit"), "stand": ("standing", "stands", "stand"),
    "stroll": ("strolling", "strolls", "stroll"), "walk": ("walking", "walks", "walk"),
    "wave": ("waving", "waves", "wave"),
}  # fmt: skip
# What someone does to something: the verb, and the word before its object.
DOING: dict[str, tuple[tuple[str, str], ...]] = {
    "hold": (("hold", ""), ("hold", ""), ("carry", "")),
    "fly": (("fly", ""), ("fly", ""), ("play", "with")),
    "lead": (("walk", ""), ("lead", ""), ("walk", "with")),
    "ride": (("ride", ""), ("ride", ""), ("sit", "on")),
    "kick": (("kick", ""), ("play", "with")),
    "chase": (("chase", ""), ("run", "after"), ("play", "with")),
    "sit": (("sit", "on"), ("sit", "on"), ("rest", "on")),
}
# What is done to something by someone.
DONE = {
    "hold": ("held by", "carried by", "in the hands of"),
    "fly": ("held by", "flown by"),
    "lead": ("led by", "walked by"),
    "ride": ("ridden by", "carrying"),
    "kick": ("kicked by", "at the feet of"),
    "chase": ("chased by", "followed by"),
}
# What people and animals do on their own, by pose.
POSES = {
    "stand": ("stand", "stand", "pose"), "walk": ("walk", "walk", "stroll"), "run": ("run", "run", "jog"),
    "jump": ("jump", "leap"), "wave": ("wave",), "sit": ("sit", "rest"), "fly": ("fly",),
}  # fmt: skip
HUMAN_VERBS = ("pose", "stroll", "jog")
# What things do on their own; the others stand.
STATES = {
    "boat": "float", "balloon": "float", "kite": "fly", "ball": "lie", "rock": "lie", "book": "lie", "bag": "lie",
}  # fmt: skip
SPATIAL = {
    "left": ("to the left of", "on the left of", "left of"),
    "right": ("to the right of", "on the right of", "right of"),
    "next": ("next to", "beside", "near", "close to"),
    "front": ("in front of",),
    "behind": ("behind",),
    "above": ("above", "over"),
    "below": ("below", "under"),
    "on": ("on", "on top of"),
    "under": ("under", "beneath", "below"),
}
CONVERSE = {"left": "right", "next": "next", "front": "behind", "above": "below"}
BUILT_IN = (*DOING, "on", "under")
