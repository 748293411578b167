"""Captions: five sentences from the facts of a scene, with different words, order and detail.

A sentence is a template whose slots are filled with pieces: words, mentions (phrases that refer to an entity) and the
relations that it states. The token spans of the phrases follow from that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from deixis.data.sample import Caption
from deixis.data.scenes.colours import Paint
from deixis.data.scenes.facts import Referent, Relation, label_and_type
from deixis.data.scenes.kinds import KINDS, SETTINGS
from deixis.data.scenes.layout import Scene
from deixis.data.scenes.rng import Rng
from deixis.language.tokenise import tokens
from deixis.types import Phrase

SCENE = "scene"  # id of the entity that is the place itself

# {main} is a phrase for a referent; {main_does} is "holds a flag", {main_doing} "holding a flag", {main_is} "is".
_FIRST = (
    "{mover} {mover_does} {way}", "{mover} {mover_doing} {way}", "{main} {main_does} {maybe} {aside}",
    "{a} {a_doing} {where} {b}",
)  # fmt: skip
_MORE = (
    "{place} , {main} {main_does} {aside}", "{main} {main_doing} {place}", "we see {main} {main_doing} {maybe}",
    "there {main_is} {main} {main_doing}", "{a} {a_is} {where} {b} {maybe}", "{where} {b} there {a_is} {a}",
    "{where} {b} you can see {a}", "{target} {target_is} {done} {actor} {maybe}", "{target} with {actor} {at} it",
    "{at} {target} there {actor_is} {actor}", "{main} and {second} {place}", "{main} , {second} and {third}",
    "{main} {main_does} while {second} {second_does}", "{owner} {feature} {maybe}",
)  # fmt: skip
_NUMBERS = {2: "two, two, a pair of, some", 3: "three, three, a group of, some", 4: "four, four, several, some"}
# What someone does to something (the verb, and a word before its object), and what is done to it.
_ACTIONS = {
    "hold": ("hold, hold, carry", "held by, carried by, in the hands of"),
    "lead": ("walk, lead, walk with", "led by, walked by"),
    "ride": ("ride, ride, sit on", "ridden by"),
    "kick": ("kick, play with", "kicked by, at the feet of"),
    "sit": ("sit on, sit on, rest on", ""),
}
# What people do on their own, by pose.
_POSES = {"stand": "stand, pose", "walk": "walk, stroll", "run": "run, jog", "sit": "sit, rest", "wave": "wave"}
_WHERE = {
    "left": "to the left of, on the left of, left of", "right": "to the right of, on the right of, right of",
    "next": "next to, beside, near, close to", "front": "in front of", "behind": "behind", "above": "above, over",
    "below": "below, under", "on": "on, on top of", "under": "under, beneath, below",
}  # fmt: skip
_CONVERSE = {"left": "right", "next": "next", "front": "behind", "above": "below"}
_ZONES = {"sky": "in the sky, in the air", "sea": "on the sea, on the water"}
_ASIDES = "on a nice day, in the afternoon, for a while, without any hurry"  # no pixel shows these


class Mention(NamedTuple):
    """Words that refer to an entity, or to none if what they name is not visible."""

    words: Sequence[str]
    entity: str | None


Pieces = list[str | Mention | Relation]


def to_caption(pieces: Pieces) -> Caption:
    """Return the caption with the token spans of its phrases."""
    words: list[str] = []
    starts: list[tuple[int, Mention]] = []
    for piece in pieces:
        if isinstance(piece, Mention):
            starts.append((len(words), piece))
            words += piece.words
        elif piece == ",":
            words[-1] += ","
        elif isinstance(piece, str):
            words += piece.split()
    words = ["an" if a == "a" and b[0] in "aeiou" else a for a, b in zip(words, [*words[1:], "."], strict=True)]
    text = " ".join(words)
    text = f"{text[0].upper()}{text[1:]}."
    phrases = []
    for start, (named, entity) in starts:
        span = " ".join(words[start : start + len(named)]).rstrip(",")
        kind = label_and_type(entity)[1] if entity else "notvisual"
        phrases.append(Phrase(span, start, start + len(named), named[-1], entity, (kind,)))
    return Caption(text, tokens(text), tuple(phrases))


@dataclass(frozen=True)
class Writer:
    """Writes sentences about one picture or video."""

    rng: Rng
    scene: Scene
    referents: Mapping[str, Referent]  # those that may be named, by id; the main one first
    relations: Sequence[Relation]  # between those
    parts: Collection[str]  # ids of the parts that may be named

    def write(self, count: int = 5) -> list[Pieces]:
        """Return that many different sentences, in random order."""
        found: dict[str, Pieces] = {}
        while len(found) < count:
            for template in (*_FIRST, *self.rng.some(_MORE, len(_MORE))):
                if len(found) < count and (pieces := self._fill(template)):
                    found.setdefault(" ".join(str(piece) for piece in pieces), pieces)
        return self.rng.some(list(found.values()), count)

    def _fill(self, template: str) -> Pieces:
        """Return the pieces of a sentence, or none if a slot cannot be filled."""
        pieces: Pieces = []
        roles, slots = self._choose()
        place = self._place([roles[role] for role in roles if f"{{{role}}}" in template])
        slots |= {"place": place, "maybe": place if self.rng.chance(0.4) else []}
        for word in template.split():
            role, _, aspect = word.strip("{}").partition("_")
            if not word.startswith("{"):
                pieces.append(word)
            elif role in roles:
                detail = 0.0 if role == "owner" else 0.4
                pieces += self._predicate(roles[role], aspect) if aspect else self._name(roles[role], detail)
            elif role in slots:
                pieces += slots[role]
            else:
                return []
        return pieces

    def _choose(self) -> tuple[dict[str, Referent], dict[str, Pieces]]:
        """Choose what a sentence is about: referents by role, and pieces for the other slots."""
        rng, known = self.rng, self.referents
        leads = [next(group) for _, group in groupby(known.values(), key=lambda referent: referent.unit)]
        roles = dict(zip(("main", "second", "third"), (leads[0], *rng.some(leads[1:], 2)), strict=False))
        slots = {"aside": _mention(rng.word(_ASIDES), None) if rng.chance(0.2) else []}
        spatial = [relation for relation in self.relations if relation.name in _CONVERSE]
        ends = [(r.subject, r.name, r.object, r) for r in spatial]
        ends += [(r.object, _CONVERSE[r.name], r.subject, r) for r in spatial]
        rare = [end for end in ends if end[1] not in ("left", "right", "next")]
        if ends:
            a, name, b, relation = rng.pick(rare if rare and rng.chance(0.5) else ends)
            roles |= {"a": known[a], "b": known[b]}
            slots["where"] = [rng.word(_WHERE[name]), relation]
        if built_in := [relation for relation in self.relations if relation.name not in _CONVERSE]:
            relation = rng.pick(built_in)
            roles |= {"actor": known[relation.subject], "target": known[relation.object]}
            done = _ACTIONS.get(relation.name, ("", ""))[1]
            slots["done" if done else "at"] = [rng.word(done) or relation.name.replace("sit", "on"), relation]
        owner = rng.pick([referent for referent in known.values() if len(referent.things) == 1] or leads)
        if features := self._features(owner):
            preposition, *feature = rng.pick(features)
            roles["owner"], slots["feature"] = owner, ["wears" if preposition == "in" else "has", *feature]
        if moving := [referent for referent in leads if any(self.scene.units[referent.unit].drift)]:
            roles["mover"] = rng.pick(moving)
            dx, dy = self.scene.units[roles["mover"].unit].drift
            start, end = ("right", "left") if dx < 0 else ("left", "right")
            ways = "up, up into the air" if dy else f"to the {end}, towards the {end}, from {start} to {end}"
            slots["way"] = [rng.word(ways)]
        return roles, slots

    def _place(self, about: Sequence[Referent]) -> Pieces:
        """Say where all of these are: in the air, on the water, or else on the ground of the place."""
        setting = self.scene.setting
        phrases = {_ZONES.get(self.scene.units[r.unit].zone) or SETTINGS[setting].phrases for r in about}
        if len(phrases) != 1 or self.rng.chance(0.12):
            return [self.rng.word("indoors, inside" if setting == "room" else "outside, outdoors")]
        return _mention(self.rng.word(phrases.pop()), SCENE)

    def _predicate(self, referent: Referent, aspect: str) -> Pieces:
        """Say what a referent does: "holds a flag", "holding a flag", "is". The object of a relation does nothing."""
        be, unit = "are" if len(referent.things) > 1 else "is", self.scene.units[referent.unit]
        if aspect == "is" or referent.things[0] != self.scene.members(referent.unit)[0]:
            return [be] if aspect == "is" else []
        built = next((r for r in self.relations if r.subject == referent.id and r.name not in _CONVERSE), None)
        spec, pose = KINDS[referent.kind], unit.things[0].look.traits["pose"]
        verbs = {"people": _POSES.get(pose, "pose"), "animals": pose}.get(spec.type, spec.verb)
        verbs = unit.moves if any(unit.drift) else verbs
        if built is None:
            return [self._verb(self.rng.word(verbs), be, aspect)]
        verb, _, word = self.rng.word(_ACTIONS[built.name][0] if built.name in _ACTIONS else verbs).partition(" ")
        word = word if built.name in _ACTIONS else self.rng.word(_WHERE[built.name])
        return [self._verb(verb, be, aspect), word, *self._name(self.referents[built.object]), built]

    def _verb(self, verb: str, be: str, aspect: str) -> str:
        if verb == "park":
            return "parked" if aspect == "doing" else f"{be} parked"
        stem = verb + verb[-1] if verb in ("run", "sit", "jog") else "ly" if verb == "lie" else verb.removesuffix("e")
        if aspect == "doing" or self.rng.chance(0.6):
            return f"{stem}ing" if aspect == "doing" else f"{be} {stem}ing"
        return verb if be == "are" else f"{verb[:-1]}ies" if verb in ("fly", "carry") else f"{verb}s"

    def _name(self, referent: Referent, detail: float = 0.2) -> Pieces:
        """A phrase for a referent and, with probability ``detail``, one for something that it wears or has."""
        rng, spec, looks = self.rng, KINDS[referent.kind], [self.scene.things[k].look for k in referent.things]
        paints = [look.paints["main"] for look in looks if "main" in look.paints]
        if len(looks) > 1:
            words, colours = rng.word(_NUMBERS[len(looks)]).split(), {paint.name for paint in paints}
            words += colours if len(colours) == 1 and rng.chance(0.5) else ()
            return [Mention([*words, *rng.word(spec.plurals).split()], referent.id)]
        size = {"big": "big, large", "small": "small, little"}.get(looks[0].traits["size"], "")
        words = ["the" if rng.chance(0.12) else "a", *([rng.word(size)] if size and rng.chance(0.6) else [])]
        hair = looks[0].paints.get("hair")
        words += ["old"] if hair and hair.name == "grey" and rng.chance(0.4) else []
        words += self._colour(paints[0], 1.0 if "twin" in looks[0].traits else 0.6) if paints else []
        features = self._features(referent) if rng.chance(detail) else []
        return [Mention([*words, *rng.word(spec.nouns).split()], referent.id), *rng.pick(features or [[]])]

    def _features(self, referent: Referent) -> list[Pieces]:
        """Phrases for what a thing wears or has: "in a red shirt", "with a brown roof"."""
        look, out = self.scene.things[referent.things[0]].look, list[Pieces]()
        words = {part: [word] for part, word in KINDS[look.kind].details.items()} | {"glasses": [], "beard": []}
        for slot, paint in look.paints.items():
            part = look.traits[slot] if slot in ("top", "bottom", "hat") else slot
            words[part] = [*([look.traits["hair"]] if slot == "hair" else []), *self._colour(paint, 0.85)]
        for part in sorted(part for part in words if f"{referent.id}.{part}" in self.parts):
            article = [] if part == "hair" or (part.endswith("s") and part != "dress") else ["a"]
            preposition = "in" if label_and_type(part)[1] == "clothing" else "with"
            out.append([preposition, Mention([*article, *words[part], part], f"{referent.id}.{part}")])
        return out

    def _colour(self, paint: Paint, probability: float) -> list[str]:
        words = [paint.name] if self.rng.chance(probability) else []
        return [*words, paint.pattern] if paint.pattern and self.rng.chance(0.7) else words


def _mention(text: str, entity: str | None) -> Pieces:
    """Return a phrase with its preposition."""
    preposition, *words = text.split()
    return [preposition, Mention(words, entity)]
