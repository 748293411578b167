"""Five sentences about a scene: different words, order and detail, and nothing that the picture does not show.

A sentence is built from pieces: plain words and mentions. A mention is a phrase that refers to something, so the
token spans are known by construction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deixis.data.sample import Caption
from deixis.data.scenes.backdrop import Setting
from deixis.data.scenes.canvas import Paint
from deixis.data.scenes.dice import Dice
from deixis.data.scenes.facts import SCENE, Referent, Relation, kind_type, part_type
from deixis.data.scenes.kinds import ANIMALS, PEOPLE, VEHICLES
from deixis.data.scenes.lexicon import (
    ALWAYS,
    BUILT_IN,
    CONVERSE,
    DOING,
    DONE,
    FORMS,
    HUMAN_VERBS,
    NOUNS,
    NUMBERS,
    PAINTED,
    PLACES,
    POSES,
    SPATIAL,
    STATES,
    UNCOLOURED,
)
from deixis.data.scenes.things import Thing
from deixis.language.tokenise import tokens
from deixis.types import Phrase


@dataclass(frozen=True)
class Mention:
    """Words that refer to an entity; to none if what they name cannot be seen."""

    words: tuple[str, ...]
    head: str
    entity: str | None
    types: tuple[str, ...]


Pieces = list["str | Mention"]


@dataclass(frozen=True)
class Sentence:
    """A caption in the making, with the relations that it states."""

    pieces: Pieces
    relations: tuple[Relation, ...] = ()

    def plus(self, pieces: Pieces, *relations: Relation) -> Sentence:
        """The sentence with more at its end."""
        return Sentence([*self.pieces, *pieces], (*self.relations, *relations))

    def after(self, pieces: Pieces) -> Sentence:
        """The sentence with more at its beginning."""
        return Sentence([*pieces, *self.pieces], self.relations)

    def caption(self) -> Caption:
        """The finished caption."""
        words, starts = self._words()
        text = " ".join(words)
        text = f"{text[0].upper()}{text[1:]}."
        phrases = []
        for start, mention in starts:
            end = start + len(mention.words)
            named = " ".join(words[start:end]).rstrip(",")
            phrases.append(Phrase(named, start, end, mention.head, mention.entity, mention.types))
        return Caption(text, tokens(text), tuple(phrases))

    def text(self) -> str:
        """The words, for comparison."""
        return " ".join(self._words()[0])

    def _words(self) -> tuple[list[str], list[tuple[int, Mention]]]:
        """The words, each with the comma that follows it, and where every mention begins."""
        words: list[str] = []
        starts: list[tuple[int, Mention]] = []
        for piece in self.pieces:
            if isinstance(piece, Mention):
                starts.append((len(words), piece))
                words += piece.words
            elif piece == ",":
                words[-1] += ","
            else:
                words += piece.split()
        for k, following in enumerate(words[1:]):
            if words[k] == "a" and following[0] in "aeiou":
                words[k] = "an"
        return words, starts


@dataclass(frozen=True)
class Motion:
    """How a referent moves through a video."""

    verb: str
    way: str  # "left", "right" or "up"
    enters: bool  # it is not there in the first frame
    leaves: bool  # it is gone in the last frame
    passes: tuple[str, ...] = ()  # ids of what it moves past


@dataclass(frozen=True)
class Story:
    """All that may be told about one picture or video."""

    setting: Setting
    things: tuple[Thing, ...]
    referents: Mapping[str, Referent]  # those that may be named, by id; the main one first
    relations: tuple[Relation, ...]  # between those
    parts: frozenset[str]  # ids of the parts that are well to be seen
    motions: Mapping[str, Motion] = field(default_factory=dict)  # video: of the referents that move


def _unseen(preposition: str, words: str) -> Pieces:
    """A phrase for something that cannot be seen."""
    return [preposition, Mention(tuple(words.split()), words.split()[-1], None, ("notvisual",))]


# What a person might add that no pixel shows.
_ASIDES: tuple[Pieces, ...] = (
    _unseen("on", "a nice day"),
    _unseen("in", "the afternoon"),
    _unseen("for", "a while"),
    _unseen("without", "any hurry"),
    ["as usual"],
    ["once again"],
    ["this morning"],
)
_LIVELY_ASIDES: tuple[Pieces, ...] = (
    [",", *_unseen("having", "a good time")],
    [",", *_unseen("enjoying", "the day")],
    [",", *_unseen("waiting for", "a friend")],
    [",", "looking happy"],
)


# Writing ------------------------------------------------------------------------------------------------------------


class Writer:
    """Writes sentences about one story. The ``tell_`` methods are plans; each gives None where it does not fit."""

    def __init__(self, story: Story, dice: Dice) -> None:
        self.story = story
        self.dice = dice
        self.mains = [referent for referent in story.referents.values() if referent.leads]
        self.main = self.mains[0]

    def tell_action(self) -> Sentence | None:
        """A man in a red shirt is holding an umbrella in the park."""
        return self._clause(self.main, 0.7).plus(self._place(0.6, self.main)).plus(self._aside(self.main, 0.25))

    def tell_place_first(self) -> Sentence | None:
        """In the park, a man holds an umbrella."""
        return self._clause(self.main, 0.5).after([*self._place(), ","]).plus(self._aside(self.main, 0.15))

    def tell_fragment(self) -> Sentence | None:
        """A man holding an umbrella next to a bench."""
        sentence = self._clause(self.main, 0.6, finite=False)
        beside = self._beside(self.main)
        if beside is None:
            return sentence.plus(self._place(1.0, self.main))
        _, how, other, relation = beside
        return sentence.plus([self.dice.pick(SPATIAL[how]), *self._name(other, 0.3)], relation)

    def tell_relation(self) -> Sentence | None:
        """A dog is to the left of a tree."""
        beside = self._beside()
        if beside is None:
            return None
        subject, how, other, relation = beside
        phrase = [_be(subject), self.dice.pick(SPATIAL[how]), *self._name(other, 0.35)]
        return Sentence([*self._name(subject, 0.35), *phrase, *self._place(0.3)], (relation,))

    def tell_relation_first(self) -> Sentence | None:
        """To the left of a tree there is a dog."""
        beside = self._beside()
        if beside is None:
            return None
        subject, how, other, relation = beside
        seen = self.dice.pick((f"there {_be(subject)}", "we see"))
        where = [self.dice.pick(SPATIAL[how]), *self._name(other, 0.3)]
        return Sentence([*where, seen, *_new(self._name(subject, 0.5))], (relation,))

    def tell_passive(self) -> Sentence | None:
        """An umbrella is held by a man; on a bench there is a cat; a bench with a cat on it."""
        known = [r for r in self.story.relations if r.name in DONE or r.name in ("sit", "on", "under")]
        if not known:
            return None
        relation = self.dice.pick(known)
        actor, target = self.story.referents[relation.subject], self.story.referents[relation.object]
        first, second = self._name(target, 0.3), self._name(actor, 0.5)
        if relation.name in DONE:
            verb = [_be(target)] if self.dice.chance(0.6) else []
            pieces = [*first, *verb, self.dice.pick(DONE[relation.name]), *second]
        else:
            where = "under" if relation.name == "under" else "on"
            if self.dice.chance(0.5):
                pieces = [where, *first, f"there {_be(actor)}", *_new(second)]
            else:
                pieces = [*first, "with", *second, f"{where} it"]
        return Sentence([*pieces, *self._place(0.3)], (relation,))

    def tell_list(self) -> Sentence | None:
        """A man, a dog and a tree in the park."""
        if len(self.mains) < 2:
            return None
        named = self.dice.some(self.mains, self.dice.whole(2, 3))
        pieces = self._name(named[0], 0.4)
        for k, referent in enumerate(named[1:], start=2):
            pieces = [*pieces, "and" if k == len(named) else ",", *self._name(referent, 0.3)]
        return Sentence([*pieces, *self._place(0.8)])

    def tell_existence(self) -> Sentence | None:
        """There is a man holding an umbrella; the photo shows a man holding an umbrella."""
        openings: tuple[Pieces, ...] = (
            [f"there {_be(self.main)}"],
            ["we can see"],
            ["you can see"],
            [*_unseen("this is", "a picture"), "of"],
            [*_unseen("", "the photo"), "shows"],
        )
        return (
            self._clause(self.main, 0.5, finite=False).after(self.dice.pick(openings)).plus(self._place(0.5, self.main))
        )

    def tell_two(self) -> Sentence | None:
        """A man holds an umbrella while a dog sits under a tree."""
        busy = [referent for referent in self.mains[1:] if self._is_busy(referent)]
        if not busy:
            return None
        second = self.dice.pick(busy)
        one, two = self._clause(self.main, 0.45), self._clause(second, 0.35)
        link = self.dice.pick(("while", "and", "and"))
        return one.plus([link, *two.pieces, *self._place(0.3, second)], *two.relations)

    def tell_detail(self) -> Sentence | None:
        """The man wears a red shirt; the house has a brown roof."""
        for referent in self.dice.some(self.mains, len(self.mains)):
            thing = self.story.things[referent.things[0]]
            features = [] if referent.plural else self._features(referent.id, thing)
            if features:
                feature = self.dice.pick(features)
                verb = f"is {feature[0]}" if feature[0] in ("in", "on") else "has"
                if feature[0] in ("in", "wearing") and thing.kind in PEOPLE:
                    verb = self.dice.pick(("is wearing", "wears"))
                return Sentence([*self._name(referent, 0.0), verb, *feature[1:], *self._place(0.3)])
        return None

    def tell_motion(self) -> Sentence | None:
        """A man walks past a tree to the left and leaves the picture."""
        moving = [self.story.referents[key] for key in self.story.motions]
        if not moving:
            return None
        referent = moving[0] if self.dice.chance(0.75) else self.dice.pick(moving)
        motion = self.story.motions[referent.id]
        sentence = Sentence([*self._name(referent, 0.5), self._verb(referent, motion.verb)])
        for relation in self.story.relations:
            if relation.subject == referent.id and relation.name in ("lead", "ride"):
                sentence = sentence.plus(self._name(self.story.referents[relation.object], 0.15), relation)
        passed = [self.story.referents[key] for key in motion.passes]
        if passed and self.dice.chance(0.6):
            other = self.dice.pick(passed)
            sentence = sentence.plus(["past", *self._name(other, 0.2)], Relation("past", referent.id, other.id))
        start = "right" if motion.way == "left" else "left"
        if motion.way == "up":
            sentence = sentence.plus([self.dice.pick(("up", "up into the air"))])
        elif motion.enters and self.dice.chance(0.6):
            return sentence.plus([f"into view from the {start}"])
        elif len(sentence.relations) == 0 or self.dice.chance(0.4):
            ways = (f"to the {motion.way}", f"towards the {motion.way}", f"from {start} to {motion.way}")
            sentence = sentence.plus([self.dice.pick(ways)])
        if motion.leaves and self.dice.chance(0.7):
            return sentence.plus(_unseen("and leave" if referent.plural else "and leaves", "the picture"))
        return sentence.plus(self._place(0.4, referent))

    # Clauses

    def _clause(self, referent: Referent, detail: float, finite: bool = True) -> Sentence:
        """Subject, verb and object: "a man is holding a flag", "a man holds a flag" or "a man holding a flag"."""
        sentence = Sentence(self._name(referent, detail))
        relation = next((r for r in self.story.relations if r.subject == referent.id and r.name in BUILT_IN), None)
        thing = self.story.things[referent.things[0]]
        if relation is not None and relation.name in DOING:
            verb, word = self.dice.pick(DOING[relation.name])
            target = [*word.split(), *self._name(self.story.referents[relation.object], 0.15)]
            return sentence.plus([self._verb(referent, verb, finite), *target], relation)
        alive = thing.kind in PEOPLE or thing.kind in ANIMALS
        if referent.id in self.story.motions and not alive:
            return sentence.plus([self._verb(referent, self.story.motions[referent.id].verb, finite)])
        if relation is None and thing.kind in VEHICLES and thing.kind != "boat":
            return sentence.plus([f"{_be(referent)} parked" if finite else "parked"])
        if relation is not None and not alive:
            sentence = sentence.plus([_be(referent)] if finite else [])
        else:
            verbs = POSES.get(thing.traits.get("pose", ""), ("stand",)) if alive else (STATES.get(thing.kind, "stand"),)
            verbs = tuple(verb for verb in verbs if thing.kind in PEOPLE or verb not in HUMAN_VERBS)
            sentence = sentence.plus([self._verb(referent, self.dice.pick(verbs), finite)])
        if relation is None:
            return sentence
        where = self.dice.pick(SPATIAL[relation.name])
        return sentence.plus([where, *self._name(self.story.referents[relation.object], 0.15)], relation)

    def _is_busy(self, referent: Referent) -> bool:
        """Whether there is something to tell about what it does."""
        if referent.id in self.story.motions or kind_type(referent.kind) != "other":
            return True
        return any(r.subject == referent.id and r.name in BUILT_IN for r in self.story.relations)

    def _verb(self, subject: Referent, verb: str, finite: bool = True) -> str:
        ing, he, they = FORMS[verb]
        if not finite:
            return ing
        return f"{_be(subject)} {ing}" if self.dice.chance(0.6) else they if subject.plural else he

    def _beside(self, about: Referent | None = None) -> tuple[Referent, str, Referent, Relation] | None:
        """Two referents and how the first stands to the second; a relation can be told from both ends."""
        found: list[tuple[Referent, str, Referent, Relation]] = []
        for relation in self.story.relations:
            if relation.name in CONVERSE:
                a, b = self.story.referents[relation.subject], self.story.referents[relation.object]
                found.append((a, relation.name, b, relation))
                found.append((b, CONVERSE[relation.name], a, relation))
        found = [entry for entry in found if about is None or entry[0].id == about.id]
        if not found:
            return None
        # What hides something, or is over it, is worth more words than what merely stands beside it.
        telling = [entry for entry in found if entry[3].name in ("front", "above")]
        return self.dice.pick(telling if telling and self.dice.chance(0.5) else found)

    def _place(self, probability: float = 1.0, about: Referent | None = None) -> Pieces:
        """Where it all happens, or where someone is."""
        if not self.dice.chance(probability):
            return []
        if about is not None and about.zone in ("sky", "sea"):
            preposition, words = self.dice.pick(PLACES[about.zone])
            return [preposition, Mention(tuple(words.split()), words.split()[-1], SCENE, ("scene",))]
        if self.dice.chance(0.15):
            return [
                self.dice.pick(("indoors", "inside") if self.story.setting.name == "room" else ("outside", "outdoors"))
            ]
        preposition, words = self.dice.pick(PLACES[self.story.setting.name])
        return [preposition, Mention(tuple(words.split()), words.split()[-1], SCENE, ("scene",))]

    def _aside(self, about: Referent, probability: float) -> Pieces:
        """Words that no pixel shows, or the weather."""
        if not self.dice.chance(probability):
            return []
        if self.story.setting.weather and self.dice.chance(0.35):
            return _unseen("on", f"a {self.story.setting.weather} day")
        lively = kind_type(about.kind) == "people" and self.dice.chance(0.5)
        return self.dice.pick(_LIVELY_ASIDES if lively else _ASIDES)

    # Phrases

    def _name(self, referent: Referent, detail: float) -> Pieces:
        """A phrase for a referent and, with probability ``detail``, one for something it wears or has."""
        if referent.plural:
            return [self._name_group(referent)]
        thing = self.story.things[referent.things[0]]
        mention = self._name_person(referent, thing) if thing.kind in PEOPLE else self._name_thing(referent, thing)
        # People are told apart by what they wear; the parts of other things are named less often.
        detail *= 1.0 if thing.kind in PEOPLE else 0.6
        features = self._features(referent.id, thing) if self.dice.chance(detail) else []
        return [mention, *self.dice.pick(features)] if features else [mention]

    def _name_group(self, referent: Referent) -> Mention:
        words = self.dice.pick(NUMBERS[len(referent.things)]).split()
        things = [self.story.things[k] for k in referent.things]
        colours = {thing.paints["main"].name for thing in things if "main" in thing.paints}
        if len(colours) == 1 and referent.kind not in UNCOLOURED and self.dice.chance(0.5):
            words += colours
        return _mention([*words, *self.dice.pick(NOUNS[referent.kind][1]).split()], referent)

    def _name_thing(self, referent: Referent, thing: Thing) -> Mention:
        dice, size = self.dice, thing.traits.get("size", "")
        words = ["the" if dice.chance(0.12) else "a"]
        if size and dice.chance(0.6):
            words.append(dice.pick(("big", "large") if size == "big" else ("small", "little")))
        if thing.kind not in UNCOLOURED:
            words += self._colour(thing.paints["main"], 1.0 if thing.traits.get("twin") else 0.62)
        return _mention([*words, *dice.pick(NOUNS[thing.kind][0]).split()], referent)

    def _name_person(self, referent: Referent, thing: Thing) -> Mention:
        dice, noun = self.dice, self.dice.pick(NOUNS[thing.kind][0])
        words = ["the" if dice.chance(0.12) else "a"]
        others = {r.kind for r in self.story.referents.values() if kind_type(r.kind) == "people"} - {thing.kind}
        if thing.kind in ("boy", "girl"):
            if not others & {"boy", "girl", "people"} and dice.chance(0.3):
                noun = dice.pick(("kid", "child"))
            elif dice.chance(0.35):
                words.append(dice.pick(("young", "little")))
        elif not others and dice.chance(0.15):
            noun = "person"
        if thing.paints["hair"].name == "grey" and "hat" not in thing.traits and dice.chance(0.4):
            words.append("old")
        return _mention([*words, noun], referent)

    def _features(self, owner: str, thing: Thing) -> list[Pieces]:
        """Ways to tell what a thing wears or has, of what is well to be seen: "in a red shirt", "with a roof"."""
        prefix = f"{owner}."
        seen = sorted(part.removeprefix(prefix) for part in self.story.parts if part.startswith(prefix))
        if thing.kind in PEOPLE:
            return self._clothes(owner, thing, seen)
        out: list[Pieces] = []
        for part in seen:
            plural = part.endswith("s")
            if PAINTED.get(part) in thing.paints:
                words = self._colour(thing.paints[PAINTED[part]], 0.85)
                out.append([{"pot": "in", "leash": "on"}.get(part, "with"), _part(owner, part, words)])
            elif (thing.kind, part) in ALWAYS:
                out.append(["with", _part(owner, part, [ALWAYS[thing.kind, part]], plural)])
        return out

    def _clothes(self, owner: str, thing: Thing, seen: Sequence[str]) -> list[Pieces]:
        dice, top, bottom = self.dice, thing.traits["top"], thing.traits["bottom"]
        out: list[Pieces] = []
        if top in seen:
            worn = _part(owner, top, self._colour(thing.paints["top"], 0.85))
            dressed: Pieces = [dice.pick(("in", "in", "wearing")), worn]
            out += [dressed] * 3
            if bottom != top and bottom in seen:
                words = [] if bottom == "jeans" else self._colour(thing.paints["bottom"], 0.8)
                out.append([*dressed, "and", _part(owner, bottom, words, plural=bottom != "skirt")])
        style = thing.traits.get("hat", "")
        hat = "hat" if style == "beanie" else style
        if hat in seen:
            worn = _part(owner, hat, self._colour(thing.paints["hat"], 0.8))
            out += [[dice.pick(("in", "wearing", "with")), worn]] * 2
        if "hair" in seen and not style:
            shape = thing.traits["hair"] if thing.traits["hair"] != "tied" and dice.chance(0.6) else ""
            words = [*shape.split(), thing.paints["hair"].name]
            out.append(["with", _part(owner, "hair", words, plural=True)])
        if "glasses" in seen:
            out.append(["with", _part(owner, "glasses", [], plural=True)])
        if "beard" in seen:
            out.append(["with", _part(owner, "beard", [])])
        return out

    def _colour(self, paint: Paint, probability: float) -> list[str]:
        words = [paint.name] if self.dice.chance(probability) else []
        return [*words, paint.pattern] if paint.pattern and self.dice.chance(0.7) else words


def _be(subject: Referent) -> str:
    return "are" if subject.plural else "is"


def _new(pieces: Pieces) -> Pieces:
    """The pieces with the first mention made indefinite: "there is a man", not "the man"."""
    first = pieces[0]
    if isinstance(first, Mention) and first.words[0] == "the":
        return [replace(first, words=("a", *first.words[1:])), *pieces[1:]]
    return pieces


def _mention(words: Sequence[str], referent: Referent) -> Mention:
    return Mention(tuple(words), words[-1], referent.id, (kind_type(referent.kind),))


def _part(owner: str, part: str, words: Sequence[str], plural: bool = False) -> Mention:
    article = () if plural else ("a",)
    return Mention((*article, *words, part), part, f"{owner}.{part}", (part_type(part),))


def sentences(story: Story, dice: Dice, count: int = 5) -> list[Sentence]:
    """That many different sentences about a story, in random order."""
    writer = Writer(story, dice)
    plans = [writer.tell_motion] * 3 if story.motions else []
    plans += [writer.tell_action, writer.tell_fragment]
    plans += dice.some(
        [
            writer.tell_place_first, writer.tell_relation, writer.tell_relation_first, writer.tell_passive,
            writer.tell_passive, writer.tell_list, writer.tell_existence, writer.tell_two, writer.tell_detail,
        ],
        9,
    )  # fmt: skip
    out: dict[str, Sentence] = {}
    while len(out) < count:
        for plan in plans:
            sentence = plan()
            if sentence is not None and len(out) < count:
                out.setdefault(sentence.text(), sentence)
    return dice.some(list(out.values()), count)
