"""Nouns for people and animals in captions."""

from __future__ import annotations

ANIMATE_NOUNS = frozenset(
    ("adult", "animal", "artist", "athlete", "audience", "baby", "ballerina", "band", "batter", "bear", "being",
     "bicyclist", "biker", "bird", "boarder", "boxer", "boy", "bride", "brother", "bull", "bulldog", "cat",
     "catcher", "cheerleader", "chef", "chicken", "child", "climber", "clown", "coach", "collie", "cop", "couple",
     "cow", "cowboy", "crowd", "cyclist", "dad", "dancer", "daughter", "deer", "diver", "dog", "driver", "drummer",
     "duck", "elephant", "family", "fan", "father", "female", "firefighter", "fish", "friend", "gentleman", "girl",
     "goalie", "goat", "groom", "group", "guitarist", "guy", "gymnast", "hiker", "horse", "human", "individual",
     "infant", "jockey", "jogger", "jumper", "kayaker", "kid", "kitten", "lab", "labrador", "lady", "male", "member",
     "mom", "monkey", "mother", "motorcyclist", "musician", "officer", "onlooker", "owner", "parent", "passenger",
     "pedestrian", "people", "performer", "person", "photographer", "pigeon", "pitcher", "player", "poodle", "puppy",
     "racer", "referee", "retriever", "rider", "runner", "seagull", "sheep", "shepherd", "singer", "sister",
     "skateboarder", "skater", "skier", "snowboarder", "soldier", "someone", "son", "spectator", "student", "surfer",
     "swimmer", "team", "teen", "teenager", "terrier", "toddler", "tourist", "vendor", "waiter", "waitress",
     "worker", "wrestler", "youth")
)  # fmt: skip


def is_animate(lemma: str) -> bool:
    """Return whether a noun names a person or an animal; also compounds such as "fireman" and "greyhound"."""
    return lemma in ANIMATE_NOUNS or lemma.endswith(
        ("man", "woman", "girl", "boy", "dog", "hound", "boarder", "cyclist")
    )
