"""The decoder against the published Up-Down captioner and against itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.methods.updown.decode import EOS, PAD, GenerationConfig
from deixis.methods.updown.losses.cross_entropy import cross_entropy
from deixis.methods.updown.network import Decoder, DecoderConfig, Encoded, State
from deixis.methods.updown.sample import greedy

GOLDEN = Path(__file__).parents[2] / "golden" / "updown.npz"

NAMES = {  # the published captioner's parameter -> ours
    "embed.0.weight": "embed.weight",
    "fc_embed.0": "embed_image",
    "att_embed.0": "embed_regions",
    "logit": "output",
    "ctx2att": "key",
    "core.att_lstm": "attention_lstm",
    "core.lang_lstm": "language_lstm",
    "core.attention.h2att": "query",
    "core.attention.alpha_net.weight": "energy",
}


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(scope="module")
def published(golden: dict[str, Tensor]) -> Decoder:
    weights = {}
    for name, value in golden.items():
        # a bias of the energy moves all regions alike and is gone after the softmax: ours has none
        if name.startswith("w/") and not name.endswith("alpha_net.bias"):
            theirs = name.removeprefix("w/")
            prefix = next(prefix for prefix in NAMES if theirs.startswith(prefix))
            weights[NAMES[prefix] + theirs.removeprefix(prefix)] = value
    decoder = Decoder(DecoderConfig(vocabulary=31, features=20, words=16, hidden=24, attention=12))
    decoder.load_state_dict(weights)
    return decoder.eval()


def everything(regions: Tensor) -> Tensor:
    return torch.ones(regions.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize("masked", [False, True])
def test_teacher_forcing_agrees_with_the_published_captioner(
    published: Decoder, golden: dict[str, Tensor], masked: bool
) -> None:
    mask = golden["att_masks"].bool() if masked else everything(golden["att"])
    encoded = published.encode(golden["att"], mask, golden["fc"])
    out = published(encoded, golden["seq"][:, None, :-1])
    logprobs, attention = published.word_logprobs(out.states)[:, 0, :, 0], out.attention[:, 0, :, 0]
    end = "_masked" if masked else ""
    # the published loop stops when every caption has ended and leaves zeros behind
    steps = golden["logprobs" + end].abs().sum(-1) > 0
    assert steps.sum() > 30
    torch.testing.assert_close(logprobs[steps], golden["logprobs" + end][steps], atol=1e-5, rtol=0)
    torch.testing.assert_close(attention[steps], golden["att_weights" + end][steps], atol=1e-5, rtol=0)


def test_cross_entropy_agrees_with_the_published_captioner(published: Decoder, golden: dict[str, Tensor]) -> None:
    encoded = published.encode(golden["att"], everything(golden["att"]), golden["fc"])
    out = published(encoded, golden["seq"][:, None, :-1])
    # the published mask counts the end token, which is 0 like its padding: mark what it leaves out as padding -1
    targets = golden["seq"][:, None, 1:].masked_fill(golden["masks"][:, None, 1:] == 0, -1)
    torch.testing.assert_close(cross_entropy(published, out, targets, pad=-1), golden["xe_loss"], atol=1e-5, rtol=0)


def renumbered(published: Decoder) -> Decoder:
    """The published captioner with our ids: its 0, begin and end in one, is our bos and eos; word w is w + 3."""
    decoder = Decoder(replace(published.config, vocabulary=34)).eval()
    weights = published.state_dict()
    rows = torch.cat([torch.zeros(4, dtype=torch.long), torch.arange(1, 31)])
    for name in ("embed.weight", "output.weight", "output.bias"):
        weights[name] = weights[name][rows]
    weights["output.bias"][[0, 1, 3]] = -torch.inf  # the published output layer has no pad, bos and unk
    decoder.load_state_dict(weights)
    return decoder


def test_greedy_agrees_with_the_published_captioner(published: Decoder, golden: dict[str, Tensor]) -> None:
    encoded = published.encode(golden["att"], everything(golden["att"]), golden["fc"])
    generation = GenerationConfig(max_words=9, allow_adjacent_repeats=True)
    sentences = greedy(renumbered(published), encoded, generation)
    words = sentences.words[:, 0]
    theirs = torch.where((words == EOS) | (words == PAD), 0, words - 3)
    assert torch.equal(theirs, golden["greedy_seq"])
    torch.testing.assert_close(sentences.logprobs[:, 0], golden["greedy_logprobs"], atol=1e-5, rtol=0)
    torch.testing.assert_close(sentences.attention[:, 0, :, 0], golden["greedy_att"], atol=1e-5, rtol=0)


CONFIGS = {
    "updown": {},
    "gvd": {"language_to_attention": False},
    "previous": {"attend_from": "previous"},
    "branches": {"branches": 3},
    "distributed-attention": {"branches": 3, "language_to_attention": False, "attend_from": "previous"},
    "no-elimination": {"branches": 2, "eliminate": False},
    "heads": {"heads": 2},
    "grid": {"grid": 3, "branches": 2},
    "grounding-aware": {"classes": 3, "location": 2},
}


def small(name: str = "updown", seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    sizes = {"vocabulary": 11, "features": 6, "words": 4, "hidden": 6, "attention": 4, "dropout": 0.0}
    return Decoder(DecoderConfig(**sizes, **CONFIGS[name])).double()


def encode(decoder: Decoder, features: Tensor, mask: Tensor | None = None) -> Encoded:
    """Whatever else a configuration wants besides features, the same for the same images."""
    rows = torch.arange(len(features), dtype=features.dtype)[:, None, None]
    boxes = torch.arange(features.shape[1] * 4, dtype=features.dtype).view(1, -1, 4) / 20 + rows
    cells = torch.arange(15, dtype=features.dtype).view(1, 5, 3).sin() + rows
    mask = everything(features) if mask is None else mask
    return decoder.encode(features, mask, boxes=boxes, grid=cells)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_are_right(name: str) -> None:
    decoder = small(name)
    features = torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, True, True], [True, True, True, False]])
    words = torch.tensor([[[1, 4, 5], [1, 6, 7]], [[1, 8, 2], [1, 9, 9]]])
    targets = words.roll(-1, dims=-1)

    def run(features: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        out = decoder(encode(decoder, features, mask), words)
        return cross_entropy(decoder, out, targets, pad=0), out.attention

    assert torch.autograd.gradcheck(run, (features, *decoder.parameters()), fast_mode=True)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_region_that_is_not_there_changes_nothing(name: str) -> None:
    decoder = small(name)
    features = torch.randn(1, 5, 6, dtype=torch.float64)
    words = torch.tensor([[[1, 4, 5]]])
    short = decoder(encode(decoder, features[:, :4]), words)
    mask = torch.tensor([[True, True, True, True, False]])
    long = decoder(encode(decoder, features, mask), words)
    torch.testing.assert_close(long.states, short.states)
    assert torch.all(long.attention[..., 4] == 0)
    torch.testing.assert_close(long.attention[..., :4], short.attention)


@pytest.mark.parametrize("name", CONFIGS)
def test_captions_of_one_image_do_not_see_each_other(name: str) -> None:
    decoder = small(name)
    features = torch.randn(1, 4, 6, dtype=torch.float64)
    encoded = encode(decoder, features)
    words = torch.tensor([[[1, 4, 5], [1, 6, 7]]])
    both = decoder(encoded, words)
    alone = decoder(encoded, words[:, 1:])
    torch.testing.assert_close(both.states[:, 1:], alone.states)


@pytest.mark.parametrize("name", CONFIGS)
def test_steps_add_up_to_teacher_forcing(name: str) -> None:
    decoder = small(name)
    features = torch.randn(2, 4, 6, dtype=torch.float64)
    encoded = encode(decoder, features)
    words = torch.tensor([[[1, 4, 5]], [[1, 8, 2]]])
    whole = decoder(encoded, words)
    state: State = decoder.initial_state(encoded, 1)
    weights = decoder.step_weights(state.h2.shape[2])
    for t in range(3):
        state, logprobs, alpha = decoder.step(encoded, words[:, :, t], state, weights)
        torch.testing.assert_close(logprobs, decoder.word_logprobs(whole.states[:, :, t]))
        torch.testing.assert_close(alpha, whole.attention[:, :, t])


def test_a_branch_does_not_look_where_an_earlier_one_took() -> None:
    decoder = small("branches")
    features = torch.randn(3, 5, 6, dtype=torch.float64)
    alpha = decoder(encode(decoder, features), torch.randint(0, 11, (3, 2, 4))).attention
    taken = alpha.argmax(-1)  # [I, C, T, K]
    for later in (1, 2):
        for earlier in range(later):
            at = taken[..., earlier].unsqueeze(-1)
            assert torch.all(alpha[..., later, :].gather(-1, at) == 0)
    torch.testing.assert_close(alpha.sum(-1), torch.ones_like(alpha.sum(-1)))


def test_elimination_by_hand() -> None:
    """Two branches with the same weights: the second gives the first's attention without its best region."""
    decoder = small("branches")
    size = decoder.config.attention
    with torch.no_grad():
        for layer in (decoder.key, decoder.query):
            for parameter in layer.parameters():
                parameter.copy_(parameter[:size].repeat(3, *[1] * (parameter.dim() - 1)))
        decoder.energy.copy_(decoder.energy[:1].expand(3, -1))
    features = torch.randn(1, 4, 6, dtype=torch.float64)
    first, second, third = decoder(encode(decoder, features), torch.tensor([[[1]]])).attention[0, 0, 0]
    order = first.argsort(descending=True)
    expected = first.clone()
    expected[order[0]] = 0
    torch.testing.assert_close(second, expected / expected.sum())
    expected[order[1]] = 0
    torch.testing.assert_close(third, expected / expected.sum())


def test_the_last_region_is_shared_rather_than_nothing_seen() -> None:
    decoder = small("branches")
    features = torch.randn(1, 2, 6, dtype=torch.float64)
    alpha = decoder(encode(decoder, features, torch.tensor([[True, False]])), torch.tensor([[[1]]])).attention
    assert torch.equal(alpha[0, 0, 0], torch.tensor([[1.0, 0.0]] * 3, dtype=torch.float64))


def test_fewer_branches_are_the_first_ones() -> None:
    decoder = small("distributed-attention")
    features = torch.randn(1, 4, 6, dtype=torch.float64)
    encoded = encode(decoder, features)
    words = torch.tensor([[[1, 4, 5]]])
    one, all_ = decoder(encoded, words, branches=1), decoder(encoded, words)
    torch.testing.assert_close(one.states, all_.states[..., :1, :])


def test_given_regions_take_the_place_of_attention() -> None:
    """What the decoder attended to, given back to it, leads to the same states."""
    decoder = small("branches")
    features = torch.randn(2, 4, 6, dtype=torch.float64)
    encoded = encode(decoder, features)
    words = torch.tensor([[[1, 4, 5]], [[1, 8, 2]]])
    free = decoder(encoded, words)
    attended = torch.einsum("ictkn,inh->ictkh", free.attention, encoded.regions)
    torch.testing.assert_close(decoder(encoded, words, attended=attended).states, free.states)


def test_what_a_decoder_needs_it_asks_for() -> None:
    features, mask = torch.randn(1, 3, 6, dtype=torch.float64), torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="boxes"):
        small("grounding-aware").encode(features, mask)
    with pytest.raises(ValueError, match="grid"):
        small("grid").encode(features, mask)
    with pytest.raises(ValueError, match="heads"):
        DecoderConfig(vocabulary=9, features=6, heads=2, branches=2)
