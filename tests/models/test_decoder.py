"""The decoder against the published Up-Down captioner and against itself."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.models.decoder import Decoder, DecoderConfig

GOLDEN = Path(__file__).parents[1] / "golden" / "updown.npz"

NAMES = {  # the published captioner's parameter -> ours
    "embed.0.weight": "embed.weight",
    "fc_embed.0": "embed_image",
    "att_embed.0": "embed_regions",
    "logit": "output",
    "ctx2att": "key",
    "core.att_lstm": "attention_lstm",
    "core.lang_lstm": "language_lstm",
    "core.attention.h2att": "query",
    "core.attention.alpha_net": "energy",
}


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(scope="module")
def published(golden: dict[str, Tensor]) -> Decoder:
    weights = {}
    for name, value in golden.items():
        if name.startswith("w/"):
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
    out = published(encoded, torch.arange(5), golden["seq"][:, :-1])
    end = "_masked" if masked else ""
    # the published loop stops when every caption has ended and leaves zeros behind
    steps = golden["logprobs" + end].abs().sum(-1) > 0
    torch.testing.assert_close(out.logprobs[steps], golden["logprobs" + end][steps], atol=1e-5, rtol=0)
    torch.testing.assert_close(out.attention[steps], golden["att_weights" + end][steps], atol=1e-5, rtol=0)


def test_greedy_agrees_with_the_published_captioner(published: Decoder, golden: dict[str, Tensor]) -> None:
    encoded = published.encode(golden["att"], everything(golden["att"]), golden["fc"])
    sentences = published.greedy(encoded, bos=0, eos=0, max_words=9)
    assert torch.equal(sentences.words, golden["greedy_seq"])
    torch.testing.assert_close(sentences.logprob, golden["greedy_logprobs"].sum(1), atol=1e-4, rtol=0)
    torch.testing.assert_close(sentences.attention, golden["greedy_att"], atol=1e-5, rtol=0)


def small(seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    return Decoder(DecoderConfig(vocabulary=11, features=6, words=4, hidden=5, attention=3, dropout=0.0)).double()


def test_gradients_are_right() -> None:
    decoder = small()
    features = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    words = torch.tensor([[1, 4, 5], [1, 6, 7], [1, 8, 2]])
    images = torch.tensor([0, 0, 1])

    def run(features: Tensor) -> tuple[Tensor, Tensor]:
        out = decoder(decoder.encode(features, mask), images, words)
        return out.logprobs, out.attention

    assert torch.autograd.gradcheck(run, (features,))


def test_a_region_that_is_not_there_changes_nothing() -> None:
    decoder = small()
    features = torch.randn(1, 4, 6, dtype=torch.float64)
    words, image = torch.tensor([[1, 4, 5]]), torch.tensor([0])
    short = decoder(decoder.encode(features[:, :3], everything(features[:, :3])), image, words)
    mask = torch.tensor([[True, True, True, False]])
    long = decoder(decoder.encode(features, mask), image, words)
    torch.testing.assert_close(long.logprobs, short.logprobs)
    assert torch.equal(long.attention[..., 3], torch.zeros(1, 3, dtype=torch.float64))
    torch.testing.assert_close(long.attention[..., :3], short.attention)


def test_greedy_is_the_argmax_of_teacher_forcing_on_its_own_words() -> None:
    decoder = small(3)
    features = torch.randn(4, 5, 6, dtype=torch.float64)
    encoded = decoder.encode(features, everything(features))
    sentences = decoder.greedy(encoded, bos=1, eos=2, max_words=7, ban=(0, 1))
    fed = torch.cat([torch.ones(4, 1, dtype=torch.long), sentences.words[:, :-1]], 1)
    out = decoder(encoded, torch.arange(4), fed)
    for row in range(4):
        ended = (sentences.words[row] == 2).nonzero()
        length = int(ended[0]) + 1 if len(ended) else sentences.words.shape[1]
        allowed = out.logprobs[row, :length].clone()
        allowed[:, [0, 1]] = -torch.inf
        best, word = allowed.max(-1)
        assert torch.equal(word, sentences.words[row, :length])
        torch.testing.assert_close(best.sum(), sentences.logprob[row])
        assert torch.all(sentences.words[row, length:] == 0)
