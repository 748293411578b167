"""The two-stage network: its equations by hand, its gradients, its padding, weights of version 0.1."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis import DeixisError, Regions
from deixis.language.descriptions import Description
from deixis.language.relations import Relation
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions
from deixis.localize.box_regression import apply_offsets
from deixis.methods.reir import names
from deixis.methods.reir.network import OLD_NAMES, Matched, ReirConfig, ReirNet, vote_shares
from deixis.methods.reir.phrases import PaddedPhrases, name_vectors, pad_phrases
from deixis.model_folder import current_names
from deixis.types import Labels

GOLDEN = Path(__file__).parents[2] / "golden" / "reir.npz"
VOCABULARY = Vocabulary.build([["a", "man", "dog", "in", "red", "hat", "on"]], minimum=1)

CONFIGS = {
    "reir": {},
    "product": {"similarity": "product"},
    "linear": {"similarity": "linear"},
    "own-heads": {"share_stages": False},
    "names-prior": {"names": "prior"},
    "names-added": {"names": "add"},
    "no-names": {"names": "none"},
    "uniform": {"graph": "uniform"},
    "no-graph": {"graph": "none"},
    "region-regression": {"regress": "region"},
    "no-regression": {"regress": "none", "graph": "none"},
    "alone": {"context": False},
    "whole": {"place": "vote"},
    "whitened": {"whiten": 3},
    "one-stage": {"two_stages": False, "graph": "none", "similarity": "product"},
}

SENTENCES = (
    (
        Description(("a", "man", "in", "a", "red", "hat"), ((0, 2), (3, 6)), (Relation(0, "in", 1),)),
        Description(("a", "dog"), ((0, 2),)),
    ),
    (
        Description(
            ("a", "dog", "on", "a", "man", "in", "a", "hat"),
            ((0, 2), (3, 5), (6, 8)),
            (Relation(0, "on", 1), Relation(1, "in", 2)),
        ),
    ),
)


def small(name: str = "reir", **changes: object) -> ReirNet:
    torch.manual_seed(0)
    sizes = {"vocabulary": len(VOCABULARY), "features": 6, "words": 4, "width": 6, "hidden": 5, "keep": 3}
    refiner = ReirNet(ReirConfig(**{**sizes, **CONFIGS[name], **changes})).double()
    with torch.no_grad():  # as if something had been learnt
        for parameter in refiner.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return refiner


def seen(images: int = 2, regions: int = 5) -> PaddedRegions:
    torch.manual_seed(1)
    low, size = torch.rand(images, regions, 2) / 2, 0.1 + torch.rand(images, regions, 2) / 3
    boxes = torch.cat([low, low + size], -1).double()
    features = torch.randn(images, regions, 6).double()
    return PaddedRegions(features, torch.ones(images, regions, dtype=torch.bool), boxes, None)


def asked(sentences: Sequence[Sequence[Description]] = SENTENCES) -> PaddedPhrases:
    categories = {"in": 1, "on": 2}
    phrases = pad_phrases(sentences, VOCABULARY, categories, embed=False)
    torch.manual_seed(2)
    vectors = torch.rand(2, 9, 7).double()[: len(sentences), : phrases.mask.shape[1]]
    return replace(phrases, members=phrases.members.double(), vectors=vectors)


def called(regions: PaddedRegions) -> Tensor:
    torch.manual_seed(3)
    return torch.rand(2, 9, 7).double()[: len(regions.mask), : regions.mask.shape[1]]


def test_phrases_become_tensors() -> None:
    phrases = asked()
    assert phrases.mask.tolist() == [[True] * 3, [True] * 3]
    assert phrases.caption.tolist() == [[0, 0, 1], [0, 0, 0]]
    ids = VOCABULARY.encode(["a", "red", "hat"])
    assert phrases.spelling[0, 1].tolist() == ids
    assert phrases.relation[0].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert phrases.relation[1].tolist() == [[0, 2, 0], [0, 0, 1], [0, 0, 0]]
    assert torch.equal(phrases.related, phrases.related.transpose(1, 2))
    assert phrases.related.sum() == 6


def test_a_phrase_is_the_mean_of_the_states_of_its_words() -> None:
    """Eq. 1, with the LSTM run over one sentence alone."""
    refiner, phrases = small(), asked()
    states, _ = refiner.phrase_lstm(refiner.embed(phrases.words[0, :1]))
    torch.testing.assert_close(
        refiner.encode_phrases(phrases, refiner.read_captions(phrases))[0, 1], states[0, 3:6].mean(0)
    )


def test_a_phrase_by_itself_is_read_as_if_it_were_a_sentence() -> None:
    refiner, phrases = small("alone"), asked()
    states, _ = refiner.phrase_lstm(refiner.embed(torch.tensor([VOCABULARY.encode(["a", "red", "hat"], ends=False)])))
    torch.testing.assert_close(refiner.encode_phrases(phrases, refiner.read_captions(phrases))[0, 1], states[0].mean(0))


def test_names_of_regions_are_weighted_by_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region that is a dog at .6 and a cat at .2, and one that is surely a cat; the second image has only one."""
    known = {name: np.eye(384, dtype=np.float32)[i] for i, name in enumerate(("dog", "cat"))}
    monkeypatch.setattr(names, "text_vectors", lambda texts: np.stack([known[text] for text in texts]))
    names._table.cache_clear()
    labels = Labels(np.array([[0, 1], [1, 0]]), np.array([[0.6, 0.2], [1.0, 0.0]]), ("dog", "cat"))
    two = Regions(np.ones((2, 4)), np.ones((2, 3)), (9, 9), labels=labels)
    found = name_vectors([two, two.select([1])])
    torch.testing.assert_close(found[0, :, :2], torch.tensor([[0.75, 0.25], [0.0, 1.0]]))
    assert found[1, :, :2].tolist() == [[0, 1], [0, 0]]
    assert name_vectors([two], top=1)[0, :, :2].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(DeixisError, match="no class names"):
        name_vectors([Regions(np.ones((1, 4)), np.ones((1, 3)), (9, 9))])
    names._table.cache_clear()


def test_names_and_softmax_agree_with_the_published_code() -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        likeness, logits, attention = (torch.from_numpy(file[k]) for k in ("prior_sim", "logits", "prior_attention"))
    found = small().fuse(logits, likeness, torch.ones_like(logits, dtype=torch.bool)).softmax(-1)
    torch.testing.assert_close(found, attention, atol=1e-5, rtol=0)


def test_when_no_name_is_alike_all_regions_stay() -> None:
    logits, likeness = torch.randn(1, 3), torch.tensor([[0.0, 0, 0]])
    scores = small().fuse(logits, likeness, torch.tensor([[True, True, False]]))
    assert scores.tolist() == [[0, 0, -torch.inf]]


def test_the_graph_by_hand() -> None:
    """Eq. 5 to 8 with plain loops, for every phrase."""
    refiner, regions, phrases = small(), seen(), asked()
    out = refiner(regions, phrases, called(regions))
    assert out.fine is not None
    looks = refiner.embed_regions(regions.features)
    nodes, kept = {}, {}
    for i in range(2):
        for p in range(3):
            chosen = out.scores[i, p].topk(3).indices
            assert out.fine.index[i, p].tolist() == chosen.tolist()
            boxes = apply_offsets(regions.boxes[i, chosen], out.offsets[i, p, chosen]).clamp(0, 1)
            torch.testing.assert_close(out.fine.boxes[i, p], boxes)
            kept[i, p] = refiner.add_location(looks[i, chosen], boxes)
            nodes[i, p] = (out.attention[i, p, chosen, None] * kept[i, p]).sum(0)
    neighbours = {(0, 0): [1], (0, 1): [0], (0, 2): [], (1, 0): [1], (1, 1): [0, 2], (1, 2): [1]}
    for (i, p), others in neighbours.items():
        context = nodes[i, p]
        if others:
            said = torch.stack([refiner.message(nodes[i, j]) for j in others])
            context = context + (said @ refiner.message(nodes[i, p])).softmax(0) @ said
        expected = kept[i, p] + out.attention[i, p, out.fine.index[i, p], None] * context
        torch.testing.assert_close(out.fine.regions[i, p], expected)


def test_uniform_weights_by_hand() -> None:
    refiner, related = small("uniform"), asked().related
    nodes = torch.randn(2, 3, 6).double()
    passed = refiner.pass_messages(nodes, related)
    torch.testing.assert_close(passed[1, 1], nodes[1, 1] + refiner.message(nodes[1, [0, 2]]).mean(0))
    torch.testing.assert_close(passed[0, 2], nodes[0, 2])


def test_the_answer_is_the_best_of_both_stages() -> None:
    regions = seen()
    out = small()(regions, asked(), called(regions))
    boxes, evidence = out.predict().boxes, out.predict().evidence
    for i in range(2):
        for p in range(3):
            k = int((out.attention[i, p, out.fine.index[i, p]] * out.fine.attention[i, p]).argmax())
            expected = apply_offsets(out.fine.boxes[i, p, k], out.fine.offsets[i, p, k]).clamp(0, 1)
            torch.testing.assert_close(boxes[i, p], expected)
            torch.testing.assert_close(evidence[i, p], (out.attention[i, p] * out.scores[i, p]).sum())


def test_boxes_stay_until_something_is_learnt() -> None:
    config = ReirConfig(vocabulary=len(VOCABULARY), features=6, words=4, width=6, hidden=5)
    regions = seen()
    boxes = ReirNet(config).double()(regions, asked(), called(regions)).predict().boxes
    apart = (boxes.unsqueeze(2) - regions.boxes.unsqueeze(1)).abs().amax(-1)  # [I, P, N]
    assert apart.amin(-1).max() < 1e-9


def test_each_image_is_compared_with_each_phrase() -> None:
    """What the first image expects of the second's phrases is what it would if they were its own."""
    refiner, regions, phrases = small("product"), seen(), asked()
    names = called(regions)
    every = refiner.score_phrases(refiner(regions, phrases, names), regions, phrases, names)
    assert every.shape == (2, 6)
    swapped = pad_phrases(SENTENCES[::-1], VOCABULARY, embed=False)
    swapped = replace(swapped, members=swapped.members.double(), vectors=phrases.vectors.flip(0))
    own = refiner(regions, swapped, names)
    expected = own.predict().evidence  # by which a phrase that is not there is told
    torch.testing.assert_close(every[0, 3:], expected[0])
    torch.testing.assert_close(every[1, :3], expected[1])


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_right(name: str) -> None:
    refiner, regions, phrases = small(name), seen(), asked()
    regions = replace(regions, mask=torch.tensor([[True] * 5, [True] * 4 + [False]]))
    names = called(regions)

    def run(features: Tensor, *parameters: Tensor) -> list[Tensor]:
        out: Matched = refiner(replace(regions, features=features), phrases, names)
        results = [out.attended(), refiner.score_phrases(out, regions, phrases, names)]
        results += [] if out.offsets is None else [out.offsets]
        if out.fine is not None:
            results += [out.fine.attended(), *([] if out.fine.offsets is None else [out.fine.offsets])]
        return results

    # through the boxes of the second stage no gradient is meant to pass, though they move with the regressor's weights
    held = [
        p
        for n, p in refiner.named_parameters()
        if p.requires_grad and not n.startswith(("coarse.move", "coarse.offset"))
    ]
    moving = [p for n, p in refiner.named_parameters() if n.startswith(("coarse.move", "coarse.offset"))]
    if not moving:
        inputs = (regions.features.requires_grad_(), *held)
        assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
        return
    with torch.no_grad():  # boxes that do not move do not disturb the numerical gradient
        refiner.coarse.offset.weight.zero_()
        refiner.coarse.offset.bias.zero_()
    assert torch.autograd.gradcheck(run, (regions.features.requires_grad_(), *held), fast_mode=True)
    only_offsets = lambda *parameters: refiner(regions, phrases, names).offsets  # noqa: E731
    assert torch.autograd.gradcheck(only_offsets, tuple(moving), fast_mode=True)


@pytest.mark.parametrize("name", CONFIGS)
def test_regions_and_phrases_that_are_not_there_change_nothing(name: str) -> None:
    refiner, regions, phrases = small(name), seen(), asked()
    more = seen(regions=7)
    padded = PaddedRegions(
        torch.cat([regions.features, more.features[:, :2]], 1),
        torch.tensor([[True] * 5 + [False] * 2] * 2),
        torch.cat([regions.boxes, more.boxes[:, :2]], 1),
        None,
    )
    names = called(padded)
    plain = list(vars(refiner(regions, phrases, names[:, :5]).predict()).values())
    for one, other in zip(plain, vars(refiner(padded, phrases, names).predict()).values(), strict=True):
        torch.testing.assert_close(other, one)
    wide = pad_phrases([SENTENCES[0] + SENTENCES[1], SENTENCES[1]], VOCABULARY, embed=False)
    wide = replace(wide, members=wide.members.double(), vectors=torch.rand(2, 6, 7).double())
    wide.vectors[:, :3] = phrases.vectors
    out = list(vars(refiner(regions, wide, names[:, :5]).predict()).values())
    torch.testing.assert_close(out[0][:, :3], plain[0])
    torch.testing.assert_close(out[1][:, :3], plain[1])
    assert all(part.isfinite().all() for part in out)


def test_an_excluded_region_gets_no_share_of_the_votes() -> None:
    """Two halves that fit and the whole of both, which fits less; the same where the whole must not be chosen."""
    boxes = torch.tensor([[[0.2, 0.2, 0.4, 0.6], [0.4, 0.2, 0.6, 0.6], [0.2, 0.2, 0.6, 0.6]]])
    scores = torch.tensor([0.4, 0.4, 0.2]).log().view(1, 1, 3)
    found = vote_shares(boxes, scores)[0, 0]
    assert found.argmax() == 2
    torch.testing.assert_close(found.sum(), torch.tensor(1.0))
    out = vote_shares(boxes, scores.index_fill(-1, torch.tensor([2]), -torch.inf))[0, 0]
    torch.testing.assert_close(out, torch.tensor([0.5, 0.5, 0.0]))


def test_whitening_is_not_trained() -> None:
    assert not any(parameter.requires_grad for parameter in small("whitened").whiten.parameters())


def test_fewer_regions_than_are_kept() -> None:
    regions = seen(regions=2)
    lonely = replace(regions, mask=torch.tensor([[True, True], [True, False]]))
    boxes = small("no-regression")(lonely, asked(), called(regions)).predict().boxes
    assert torch.equal(boxes[1], regions.boxes[1, :1].expand(3, -1))


def test_a_graph_wants_a_second_stage() -> None:
    with pytest.raises(ValueError, match="one stage"):
        ReirConfig(vocabulary=9, features=6, two_stages=False)


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_of_version_01_are_read(name: str) -> None:
    refiner = small(name)
    old = {new: before for before, new in OLD_NAMES.items()}
    weights = {
        ".".join(old.get(part, part) for part in key.split(".")): value for key, value in refiner.state_dict().items()
    }
    assert weights.keys() != refiner.state_dict().keys()
    other = ReirNet(refiner.config).double()
    other.load_state_dict(current_names(other, weights))
    for key, value in other.state_dict().items():
        assert torch.equal(value, refiner.state_dict()[key])


def test_configurations_of_version_01_are_read() -> None:
    """Networks of version 0.1 have F_reg as wide as F_cls, heads for each stage, and do not pool boxes again."""
    config = ReirConfig(vocabulary=9, features=6)
    assert ReirConfig.from_json({**asdict(config), "place": "best"}) == config
    voting = replace(config, place="vote")
    assert ReirConfig.from_json(asdict(voting)) == voting
    stored = {name: value for name, value in asdict(config).items() if name not in ("share_stages", "repool")}
    del stored["regress_hidden"], stored["min_similarity"]
    assert ReirConfig.from_json(stored) == replace(config, share_stages=False, repool=False, regress_hidden=512)


def test_both_stages_share_their_heads() -> None:
    assert not hasattr(small(), "fine")
    own = small("own-heads")
    assert any(name.startswith("fine.") for name in own.state_dict())


def test_one_linear_layer_gives_all_phrases_one_attention() -> None:
    """F_cls of the published code without class names: why it is refused."""
    with pytest.raises(ValueError, match="linear"):
        small("linear", names="none")
    pair = small("linear").coarse
    phrases, regions = torch.randn(1, 3, 6).double(), torch.randn(1, 4, 6).double()
    attention = pair.similarity(pair.phrase(phrases), pair.region(regions)).softmax(-1)
    torch.testing.assert_close(attention[0, 0], attention[0, 1])
    layered = small().coarse
    attention = layered.similarity(layered.phrase(phrases), layered.region(regions)).softmax(-1)
    assert not torch.allclose(attention[0, 0], attention[0, 1])


def test_negative_scores_with_names() -> None:
    """Eq. 4 prefers the least similar name where scores are negative; names as a prior do not."""
    scores, names = torch.full((1, 1, 3), -4.0).double(), torch.tensor([[[0.9, 0.3, 0.05]]]).double()
    possible = torch.ones(1, 1, 3, dtype=torch.bool)
    multiplied = small().fuse(scores, names, possible).softmax(-1)[0, 0]
    np.testing.assert_allclose(multiplied.numpy(), [0.024, 0.262, 0.714], atol=2e-3)
    refiner = small("names-prior")
    refiner.name_share.data.fill_(1.0)
    np.testing.assert_allclose(
        refiner.fuse(scores, names, possible).softmax(-1)[0, 0].detach().numpy(), [0.72, 0.24, 0.04]
    )


def test_a_phrase_without_a_similar_class_is_matched_without_names() -> None:
    vectors, names = torch.tensor([[[1.0, 0], [0, 1]]]).double(), torch.tensor([[[0.9, 0.1], [0.2, 0.3]]]).double()
    found = small(min_similarity=0.5).name_similarity(vectors, names)
    assert found is not None
    np.testing.assert_allclose(found[0].numpy(), [[0.9, 0.2], [1.0, 1.0]], atol=1e-6)


def test_moved_boxes_are_pooled_again() -> None:
    """The second stage reads the features at the moved boxes, and those of the proposals without a grid."""
    refiner, regions, phrases = small(), seen(), asked()
    asked_for: list[Tensor] = []
    rows: list[Tensor] = []

    def repool(boxes: Tensor, index: Tensor) -> Tensor:
        asked_for.append(boxes)
        rows.append(index)
        return boxes.new_ones(*boxes.shape[:-1], 6)

    plain = refiner(regions, phrases, called(regions)).fine
    again = refiner(regions, phrases, called(regions), repool=repool).fine
    assert plain is not None
    assert again is not None
    torch.testing.assert_close(asked_for[0], again.boxes)
    torch.testing.assert_close(rows[0], again.index)
    torch.testing.assert_close(plain.boxes, again.boxes)
    assert not torch.allclose(plain.regions, again.regions)
    ones = refiner.add_location(refiner.embed_appearance(again.boxes.new_ones(*again.boxes.shape[:-1], 6)), again.boxes)
    node = small("no-graph")(regions, phrases, called(regions), repool=repool).fine
    assert node is not None
    assert node.regions.shape == ones.shape
    asked_for.clear()
    small("no-regression")(regions, phrases, called(regions), repool=repool)
    small(repool=False)(regions, phrases, called(regions), repool=repool)
    assert asked_for == []


def test_the_proposal_of_an_answer_is_told() -> None:
    matched = small()(seen(), asked(), called(seen()))
    answer = matched.predict()
    assert matched.fine is not None
    best = matched.fine_confidence().argmax(-1, keepdim=True)
    index = matched.fine.index.gather(-1, best)[..., 0]
    for image in range(2):
        torch.testing.assert_close(answer.proposals[image], seen().boxes[image][index[image]])
    assert not torch.allclose(answer.proposals, answer.boxes)
