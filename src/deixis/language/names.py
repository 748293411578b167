"""Object names: indefinite articles, and caption nouns of COCO categories."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NOUNS = {  # COCO category -> caption nouns besides its own name
    "person": "man woman boy girl child kid baby toddler infant lady guy gentleman people adult teenager teen player "
    "worker performer dancer singer musician guitarist drummer skateboarder snowboarder skier surfer swimmer diver "
    "cyclist biker bicyclist motorcyclist rider runner racer jogger hiker climber skater wakeboarder gymnast acrobat "
    "athlete boxer wrestler fighter golfer batter pitcher catcher goalie referee cheerleader officer policeman soldier "
    "fireman firefighter fisherman construction-worker chef cook waiter waitress vendor bride groom couple friend "
    "brother sister mother father mom dad son daughter grandmother grandfather husband wife family crowd spectator "
    "audience pedestrian tourist student teacher artist photographer cowboy clown male female youngster human someone "
    "driver kayaker rower sailor bystander passenger model actor actress band team",
    "dog": "puppy pup greyhound terrier poodle bulldog retriever collie shepherd beagle labrador dalmatian dachshund",
    "bicycle": "bike mountain-bike tricycle",
    "motorcycle": "motorbike dirtbike scooter",
    "car": "vehicle taxi suv van jeep",
    "boat": "canoe kayak raft ship sailboat rowboat",
    "cat": "kitten",
    "bird": "duck goose seagull pigeon parrot swan pelican chicken",
    "horse": "pony",
    "cow": "bull calf cattle",
    "sheep": "lamb goat",
    "sports ball": "ball football soccerball basketball volleyball baseball",
    "couch": "sofa",
    "dining table": "table",
    "chair": "seat stool",
    "cell phone": "phone cellphone",
    "handbag": "purse bag",
    "backpack": "rucksack",
    "skis": "ski",
    "cup": "mug glass",
    "tennis racket": "racket racquet",
    "baseball bat": "bat",
    "baseball glove": "glove mitt",
    "potted plant": "plant",
    "tv": "television",
    "airplane": "plane jet",
}
COCO_NOUNS: Mapping[str, str] = {noun: name for name, nouns in _NOUNS.items() for noun in nouns.split()}
"""Head noun of a phrase -> COCO category."""

_PARTS = {  # part of a person that the extractor locates -> nouns for it and for what is worn there
    "head": "head hair hairdo ponytail mohawk haircut bun",
    "hat": "hat cap helmet visor beanie bandana headband hood hardhat headscarf turban wig crown",
    "face": "face eye mouth nose glass sunglass eyeglass goggle beard mustache smile mask makeup tongue chin cheek",
    "torso": "torso chest back stomach belly body vest apron",
    "top": "shirt t-shirt tshirt tee-shirt top jacket coat sweater sweatshirt hoodie blouse jersey tanktop cardigan",
    "arm": "arm sleeve elbow",
    "hand": "hand finger fist thumb",
    "legs": "leg knee",
    "lower body": "pant trouser jean short skirt khaki slack legging trunk waist hip lap",
    "foot": "foot shoe boot sneaker sandal sock",
    "feet": "foot shoe boot sneaker sandal sock",
    "outfit": "outfit dress suit uniform costume clothes clothing attire gown robe gear jumpsuit wetsuit kimono",
}
PART_NOUNS: Mapping[str, tuple[str, ...]] = {
    noun: tuple(part for part, nouns in _PARTS.items() if noun in nouns.split())
    for noun in {noun for nouns in _PARTS.values() for noun in nouns.split()}
}
"""Head noun of a phrase -> parts of a person that show it."""

SCENE_NOUNS = frozenset(
    ("alley", "area", "background", "backyard", "bar", "beach", "bridge", "building", "canyon", "cave", "church",
    "city", "cliff", "coast", "corner", "courtyard", "creek", "day", "desert", "dirt", "distance", "dock", "driveway",
    "farm", "field", "floor", "forest", "garage", "garden", "grass", "gravel", "ground", "gym", "hall", "hallway",
    "harbor", "highway", "hill", "hillside", "house", "ice", "indoors", "kitchen", "lab", "lake", "landscape", "lawn",
    "lot", "mall", "market", "meadow", "mountain", "mountainside", "mud", "museum", "night", "ocean", "office",
    "outdoors", "outside", "park", "pasture", "path", "patio", "pavement", "pier", "playground", "plaza", "pond",
    "pool", "porch", "puddle", "rain", "ramp", "range", "restaurant", "river", "road", "rock", "room", "runway",
    "sand", "scene", "sea", "setting", "shop", "shore", "shoreline", "sidewalk", "sky", "snow", "space", "square",
    "stadium", "stage", "station", "store", "stream", "street", "subway", "sunset", "surf", "terrain", "town",
    "track", "trail", "tunnel", "valley", "view", "wall", "water", "waterfall", "way", "wood", "yard", "zoo")
)  # fmt: skip
"""Head nouns (lemmas) of places, which often fill most of an image."""

# The article follows the sound: an hour, an SUV; a uniform, a ewe, a one-way street.
_AN = re.compile(
    r"[ai]|e(?!u|we)|o(?!ne\b|nce\b)|u(?!ni[^ndm]|s[aeiu]|t[ei]|k|rin)|hour|hono|heir"
    r"|8|11\b|18\b|[fhlmnrsx]\b|(?:suv|lcd|led|mp3|rv|atm|xbox)\b",
    re.IGNORECASE,
)
_DETERMINED = re.compile(
    r"(?:an?|the|some|one(?! way)|two|three|four|five|six|seven|eight|nine|ten|many|several|both|his|her|its|their) ",
    re.IGNORECASE,
)
_PLURAL = re.compile(
    r"(?:people|(?<!speci)(?<!abdo)men|children|feet|teeth|geese|mice|(?<![sui])s|skis|taxis|bikinis)\Z"
)
_SINGULAR = frozenset(["lens", "gas", "canvas", "christmas", "atlas", "omen", "ramen"])
_MASS = re.compile(
    r"(?:grass|water|snow|sand|dirt|mud|gravel|ice|smoke|fog|steam|sunlight|hair|fur|skin|wood|metal|concrete|hay|foliage"
    r"|greenery|vegetation|furniture|clothing|jewelry|luggage|baggage|equipment|traffic|machinery|silverware|food|bread"
    r"|rice|pasta|meat|bacon|cheese|butter|lettuce|broccoli|sauce|ketchup|mustard|frosting|icing|graffiti|writing|text"
    r"|lettering|lighting|fencing|flooring|siding|trash|garbage|debris|paint|dust)\Z"
)


def with_article(name: str) -> str:
    """Add an indefinite article ("a brown dog", "an orange cat"); plural and mass nouns get none ("green grass")."""
    head = name.split()[-1].lower()
    many = _PLURAL.search(head) is not None and head not in _SINGULAR
    if many or _MASS.match(head) or _DETERMINED.match(name):
        return name
    return f"{'an' if _AN.match(name) else 'a'} {name}"
