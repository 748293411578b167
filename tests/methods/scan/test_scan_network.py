"""The matcher against SCAN's published numbers, against a plain loop, and against itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.layers.padding import PaddedRegions
from deixis.methods.scan.network import EncodedWords, ScanConfig, ScanNet

GOLDEN = Path(__file__).parents[2] / "golden" / "scan.npz"
AGGREGATIONS = {"mean": "Mean", "logsumexp": "LogSumExp", "max": "Max", "sum": "Sum"}
DIRECTIONS = {"text-to-image": "t2i", "image-to-text": "i2t"}


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return {name: torch.from_numpy(np.asarray(file[name])) for name in file.files}


def published(golden: dict[str, Tensor], **choices: object) -> ScanNet:
    """Ours with the published weights and, unlike the papers, the published leak."""
    sizes = {"vocabulary": 40, "features": 20, "words": 12, "embed": 16}
    matcher = ScanNet(ScanConfig(**sizes, leak=0.1, **choices))  # type: ignore[arg-type]
    names = {"w_img/fc.": "embed_regions.", "w_txt/embed.": "embed.", "w_txt/rnn.": "gru."}
    weights = {
        ours + name.removeprefix(theirs): value
        for name, value in golden.items()
        for theirs, ours in names.items()
        if name.startswith(theirs)
    }
    matcher.load_state_dict(weights)
    return matcher.eval()


def padded(features: Tensor, mask: Tensor | None = None) -> PaddedRegions:
    mask = torch.ones(features.shape[:2], dtype=torch.bool) if mask is None else mask
    return PaddedRegions(features, mask, torch.zeros(*mask.shape, 4), None)


def test_embeddings_agree_with_the_published_matcher(golden: dict[str, Tensor]) -> None:
    matcher = published(golden)
    regions, words = matcher.encode_regions(padded(golden["img"])), matcher.encode_words(golden["cap"])
    torch.testing.assert_close(regions.vectors, golden["img_emb"], atol=1e-5, rtol=0)
    torch.testing.assert_close(words.vectors, golden["cap_emb"], atol=1e-5, rtol=0)
    assert words.mask.sum(1).tolist() == golden["lens"].tolist()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_scores_agree_with_the_published_matcher(golden: dict[str, Tensor], direction: str, aggregation: str) -> None:
    matcher = published(golden, direction=direction, aggregation=aggregation)
    scores = matcher.scores(matcher.encode_regions(padded(golden["img"])), matcher.encode_words(golden["cap"]))
    expected = golden[f"sim_{DIRECTIONS[direction]}_{AGGREGATIONS[aggregation]}"]
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_scores_of_nouns_agree_with_the_published_matcher(golden: dict[str, Tensor], aggregation: str) -> None:
    """The fourth caption has no noun, and all its words count."""
    matcher = published(golden, aggregation=aggregation, count="nouns", rivals="counted")
    assert not golden["tag_mask"][3].any()
    scores = matcher.scores(
        matcher.encode_regions(padded(golden["img"])), matcher.encode_words(golden["cap"], golden["tag_mask"])
    )
    torch.testing.assert_close(scores, golden[f"sim_t2i_pos_{AGGREGATIONS[aggregation]}"], atol=1e-5, rtol=0)


def test_attention_agrees_with_the_published_matcher(golden: dict[str, Tensor]) -> None:
    matcher = published(golden)
    first = golden["cap"][0].expand(6, 1, -1)
    attention = matcher.attention(padded(golden["img"]), first)[:, 0]  # [I, T, N]
    expected = golden["attn_cap0_all_images_region_word"].transpose(1, 2)
    torch.testing.assert_close(attention, expected, atol=1e-5, rtol=0)


def test_matched_pairs_agree_with_the_published_matcher(golden: dict[str, Tensor]) -> None:
    matcher = published(golden, count="nouns", rivals="counted")
    regions, words, counts = padded(golden["img"]), golden["cap"].unsqueeze(1), golden["tag_mask"].unsqueeze(1)
    scores = matcher.match(regions, words, counts)[:, 0]
    torch.testing.assert_close(scores.double(), golden["pair_score_pos_mean"], atol=1e-5, rtol=0)
    encoded = matcher.encode_words(words, counts)
    attention, relevance = (found[:, 0] for found in matcher.align(matcher.encode_regions(regions), encoded))
    counted = encoded.counts[:, 0]
    for image in range(6):
        expected = golden[f"pair_attn_pos_{image}"]
        torch.testing.assert_close(attention[image][counted[image]], expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(relevance[image][counted[image]].mean(), scores[image])


# Against a plain loop, and against itself ---------------------------------------------------------------------------

VARIANTS = [
    *({"direction": direction, "aggregation": how} for direction in DIRECTIONS for how in AGGREGATIONS),
    {"leak": 0.1},
    {"leak": 0.1, "direction": "image-to-text"},
    {"rivals": "counted", "count": "nouns"},
]


def small(**choices: object) -> ScanNet:
    torch.manual_seed(1)
    sizes = {"vocabulary": 12, "features": 6, "words": 4, "embed": 5}
    matcher = ScanNet(ScanConfig(**sizes, **choices)).double()  # type: ignore[arg-type]
    nn.init.normal_(matcher.embed.weight)
    return matcher


def world() -> tuple[PaddedRegions, Tensor, Tensor]:
    """Three images of 4, 3 and 2 regions, four sentences of 5, 2, 4 and 3 words, some of which count."""
    generator = torch.Generator().manual_seed(3)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]], dtype=torch.bool)
    words = torch.tensor([[1, 4, 5, 6, 2], [1, 2, 0, 0, 0], [1, 7, 8, 2, 0], [1, 9, 2, 0, 0]])
    counts = torch.tensor([[0, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]], dtype=torch.bool)
    return padded(torch.randn(3, 4, 6, dtype=torch.float64, generator=generator), mask), words, counts


def plain_score(regions: Tensor, words: Tensor, counts: Tensor, config: ScanConfig) -> float:
    """One image, one sentence, word by word, with the attended vectors that the matcher never builds."""
    queries, context = (words, regions) if config.direction == "text-to-image" else (regions, words)
    clipped = torch.zeros(len(queries), len(context), dtype=torch.float64)
    for q, query in enumerate(queries):
        for k, thing in enumerate(context):
            similarity = float(query @ thing / (query.norm() * thing.norm()))
            clipped[q, k] = similarity if similarity > 0 else config.leak * similarity
    found = []
    for q, query in enumerate(queries):
        rivals = counts if config.rivals == "counted" else torch.ones(len(queries), dtype=torch.bool)
        warmth = [clipped[q, k] / (clipped[rivals, k].norm() + 1e-8) for k in range(len(context))]
        weights = torch.softmax(config.temperature * torch.stack(warmth), 0)
        attended = sum((weights[k] * context[k] for k in range(len(context))), torch.zeros_like(query))
        if config.direction == "image-to-text" or counts[q]:
            found.append(torch.nn.functional.cosine_similarity(query, attended, dim=0))
    relevance = torch.stack(found)
    return float(
        {
            "mean": relevance.mean(),
            "sum": relevance.sum(),
            "max": relevance.max(),
            "logsumexp": (relevance * config.sharpness).exp().sum().log() / config.sharpness,
        }[config.aggregation]
    )


@pytest.mark.parametrize("choices", VARIANTS, ids=lambda c: "-".join(map(str, c.values())))
@torch.no_grad()
def test_the_fast_score_equals_a_plain_loop(choices: dict[str, object]) -> None:
    matcher, (regions, words, counts) = small(**choices), world()
    encoded = matcher.encode_words(words, counts)
    scores = matcher.scores(matcher.encode_regions(regions), encoded)
    vectors = matcher.embed_regions(regions.features)
    for image in range(3):
        for caption in range(4):
            there = words[caption] > 0
            counted = counts[caption] if counts[caption].any() else there
            seen = nn.functional.normalize(vectors[image][regions.mask[image]], dim=-1)
            one = plain_score(seen, encoded.vectors[caption][there], counted[there], matcher.config)
            assert scores[image, caption].item() == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize("choices", VARIANTS, ids=lambda c: "-".join(map(str, c.values())))
def test_gradients_are_right(choices: dict[str, object]) -> None:
    matcher, (regions, words, counts) = small(**choices), world()

    def run(features: Tensor, *parameters: Tensor) -> Tensor:
        return matcher.scores(
            matcher.encode_regions(replace(regions, features=features)), matcher.encode_words(words, counts)
        )

    features = regions.features.clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (features, *matcher.parameters()), fast_mode=True)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("block", [1, 21, 55, 10_000])
def test_blocks_give_the_whole(direction: str, block: int) -> None:
    matcher, (regions, words, counts) = small(direction=direction), world()
    seen, encoded = matcher.encode_regions(regions), matcher.encode_words(words, counts)
    torch.testing.assert_close(matcher.scores(seen, encoded, block), matcher.scores(seen, encoded))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_matched_pairs_are_the_diagonal_of_all_pairs(direction: str) -> None:
    matcher, (regions, words, counts) = small(direction=direction), world()
    everything = matcher.scores(matcher.encode_regions(regions), matcher.encode_words(words, counts))
    own = torch.tensor([[0, 3], [1, 0], [2, 2]])
    torch.testing.assert_close(matcher.match(regions, words[own], counts[own]), everything.gather(1, own))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_padding_changes_nothing(direction: str, aggregation: str) -> None:
    matcher, (regions, words, counts) = small(direction=direction, aggregation=aggregation), world()
    short = matcher.scores(matcher.encode_regions(regions), matcher.encode_words(words, counts))
    junk = torch.full((3, 2, 6), 7.0, dtype=torch.float64)
    wider = padded(
        torch.cat([regions.features, junk], 1), torch.cat([regions.mask, torch.zeros(3, 2, dtype=torch.bool)], 1)
    )
    longer = nn.functional.pad(words, (0, 3))
    encoded = matcher.encode_words(longer, nn.functional.pad(counts, (0, 3), value=True))
    torch.testing.assert_close(matcher.scores(matcher.encode_regions(wider), encoded), short)
    wide = matcher.attention(wider, longer[:3, None])
    assert torch.all(wide[..., 4:] == 0)
    assert torch.all(wide[:, :, 5:] == 0)
    torch.testing.assert_close(wide[:, :, :5, :4], matcher.attention(regions, words[:3, None]))


def test_attention_by_hand() -> None:
    """Two words that each resemble one of two regions alone: similarities 1 and 0 stay so when normalised."""
    matcher = small(temperature=9.0)
    eye = torch.eye(5, dtype=torch.float64)
    matcher.encode_words = (
        lambda words, counts: EncodedWords(  # type: ignore[method-assign]
            eye[None, None, :2], words > 0, words > 0
        )
    )
    with torch.no_grad():
        matcher.embed_regions.weight.copy_(torch.eye(5, 6))
        matcher.embed_regions.bias.zero_()
    attention = matcher.attention(padded(torch.eye(2, 6, dtype=torch.float64)[None]), torch.tensor([[[4, 5]]]))
    sure = 1 / (1 + np.exp(-9.0))
    expected = torch.tensor([[[[sure, 1 - sure], [1 - sure, sure]]]], dtype=torch.float64)
    torch.testing.assert_close(attention, expected)


def test_a_sentence_of_nothing_but_padding_has_a_score_that_is_a_number() -> None:
    for direction in DIRECTIONS:
        matcher, (regions, _, _) = small(direction=direction), world()
        nothing = torch.zeros(2, 4, dtype=torch.long)
        assert matcher.scores(matcher.encode_regions(regions), matcher.encode_words(nothing)).isfinite().all()


def test_words_are_counted_by_choice_from_text_to_image_only() -> None:
    with pytest.raises(ValueError, match="counted"):
        ScanConfig(vocabulary=9, features=6, direction="image-to-text", count="nouns")


def test_lower_precision_comes_near() -> None:
    """Under autocast the products are bfloat16; states and gradients stay what they were to two digits."""
    torch.manual_seed(0)
    matcher = ScanNet(ScanConfig(vocabulary=12, features=6, words=4, embed=5))
    nn.init.normal_(matcher.embed.weight)
    words = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 8, 2, 0]])

    def run(low: bool) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            vectors = matcher.encode_words(words).vectors
        (gradient,) = torch.autograd.grad(vectors[..., 0].sum(), matcher.gru.weight_hh_l0)
        return vectors, gradient

    for rough, exact in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(rough, exact, atol=0.02, rtol=0)
        assert not torch.equal(rough, exact)
