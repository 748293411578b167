"""Self-critical training: the published loss, the probability of what is drawn, rewards by hand, and that it learns."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.layers.padding import PaddedRegions
from deixis.methods.updown.decode import BOS, EOS, FORBIDDEN, PAD, GenerationConfig
from deixis.methods.updown.losses.self_critical import (
    CriticConfig,
    Images,
    Reward,
    cider_reward,
    consistency_reward,
    match_reward,
    mean_of_others,
    policy_gradient,
    reward_converged,
    self_critical,
    sentence_logprobs,
)
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.methods.updown.sample import Sampled, greedy, sample

GOLDEN = Path(__file__).parents[3] / "golden" / "updown_training.npz"
SHORT = GenerationConfig(max_words=3)
SIZES = {"words": 6, "hidden": 8, "attention": 4}


def decoder_of(vocabulary: int, branches: int = 1, dropout: float = 0.0) -> Decoder:
    torch.manual_seed(0)
    return Decoder(DecoderConfig(vocabulary, features=5, branches=branches, dropout=dropout, **SIZES))


def images_of(count: int, dtype: torch.dtype = torch.float32) -> Images:
    """Each image has three regions, the first of which says by one of its features which image it is."""
    features = torch.zeros(count, 3, 5, dtype=dtype)
    features[torch.arange(count), 0, torch.arange(count) % 5] = 1
    boxes = torch.zeros(count, 3, 4, dtype=dtype)
    return Images([str(i) for i in range(count)], PaddedRegions(features, torch.ones(count, 3).bool(), boxes, None))


def spoken(words: list[list[list[int]]], attention: Tensor | None = None) -> Sampled:
    said = torch.tensor(words)
    attention = torch.zeros(*said.shape, 1, 3) if attention is None else attention
    return Sampled(said, torch.zeros(said.shape), attention, torch.ones(*said.shape, 1).bool())


def test_the_loss_agrees_with_the_published_code() -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        golden = {name: torch.from_numpy(file[name]) for name in file.files}
    ended = torch.nn.functional.pad((golden["greedy_seq"] == 0).cumsum(-1), (1, 0))[:, :-1] > 0  # 0 is the end there
    loss = policy_gradient(golden["greedy_logprobs"], golden["reward"], ~ended)
    torch.testing.assert_close(loss, golden["reward_loss"], atol=1e-5, rtol=0)


def test_the_loss_by_hand() -> None:
    """Three words of a sentence that was better by 2, and one of a sentence that was worse by 1."""
    logprobs = torch.tensor([[[-0.1, -0.2, -0.3], [-0.5, -9.0, -9.0]]])
    said = torch.tensor([[[True, True, True], [True, False, False]]])
    loss = policy_gradient(logprobs, torch.tensor([[[2.0], [-1.0]]]), said)
    assert loss.item() == pytest.approx(-(2 * -0.6 - 1 * -0.5) / 4)


def test_the_others() -> None:
    assert mean_of_others(torch.tensor([[1.0, 2.0, 6.0]])).tolist() == [[4.0, 3.5, 1.5]]


def all_sentences(vocabulary: int, generation: GenerationConfig) -> Tensor:
    """Every sentence that the rules allow ``[1, S, T]``."""
    words = [w for w in range(vocabulary) if w not in (*FORBIDDEN, EOS)]
    found = []
    for length in range(generation.max_words + 1):
        for body in itertools.product(words, repeat=length):
            if any(a == b for a, b in itertools.pairwise(body)):
                continue
            ended = length < generation.max_words
            if not ended or length >= generation.min_words:
                found.append([*body, *[EOS] * ended, *[PAD] * (generation.max_words - length - 1)])
    return torch.tensor(found).unsqueeze(0)


@pytest.mark.parametrize("branches", [1, 2])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("least", [0, 2])
def test_probabilities_of_all_sentences_add_up(branches: int, temperature: float, least: int) -> None:
    generation = GenerationConfig(max_words=3, min_words=least)
    decoder = decoder_of(7, branches)
    encoded = decoder.encode_regions(images_of(1).regions)
    words = all_sentences(7, generation)
    logprobs = sentence_logprobs(decoder, encoded, words, generation, temperature)
    assert logprobs.sum(-1).exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert torch.equal(logprobs == 0, words == PAD)


def test_sentences_are_drawn_as_often_as_their_probability_says() -> None:
    decoder = decoder_of(6, branches=2)
    encoded = decoder.encode_regions(images_of(1).regions)
    words = all_sentences(6, SHORT)
    expected = sentence_logprobs(decoder, encoded, words, SHORT, 0.7).sum(-1).exp()[0]
    torch.manual_seed(0)
    drawn = sample(decoder, encoded, SHORT, samples=20_000, temperature=0.7).words
    often = (drawn.unsqueeze(2) == words.unsqueeze(1)).all(-1).float().mean(1)[0]
    assert often.sum().item() == pytest.approx(1)
    # four standard deviations of a share of 20,000
    assert ((often - expected).abs() < 4 * (expected * (1 - expected) / 20_000).sqrt() + 1e-6).all()


def test_the_greedy_sentence_comes_first_in_the_same_pass() -> None:
    decoder = decoder_of(8, branches=2).eval()
    encoded = decoder.encode_regions(images_of(3).regions)
    both = sample(decoder, encoded, SHORT, samples=4, with_greedy=True)
    alone = greedy(decoder, encoded, SHORT)
    assert both.words.shape[1] == 5
    steps = alone.words.shape[2]
    assert torch.equal(both.words[:, :1, :steps], alone.words)
    torch.testing.assert_close(both.attention[:, :1, :steps], alone.attention)


@pytest.mark.parametrize("branches", [1, 2])
def test_gradients_are_right(branches: int) -> None:
    decoder = decoder_of(7, branches).double()
    images = images_of(2, torch.float64)
    words = torch.tensor([[[4, 5, EOS], [EOS, PAD, PAD]], [[6, 4, 6], [5, EOS, PAD]]])
    advantage = torch.tensor([[[1.0], [-2.0]], [[0.5], [0.25]]], dtype=torch.float64)

    def run(*parameters: Tensor) -> Tensor:
        encoded = decoder.encode_regions(images.regions)
        return policy_gradient(sentence_logprobs(decoder, encoded, words, SHORT, 0.8), advantage, words != PAD)

    assert torch.autograd.gradcheck(run, tuple(decoder.parameters()), fast_mode=True)


def long_sentences(images: Images, sentences: Sampled) -> Tensor:
    return (sentences.words != PAD).sum(-1).float()


def first_word(images: Images, sentences: Sampled) -> Tensor:
    """One where the first word is the image's own."""
    own = torch.tensor([4 + int(i) for i in images.ids]).unsqueeze(1)
    return (sentences.words[..., 0] == own).float()


@pytest.mark.parametrize("baseline", ["greedy", "others"])
def test_terms_are_what_they_say(baseline: str) -> None:
    decoder, images = decoder_of(7, dropout=0.5).train(), images_of(3)
    rewards: dict[str, tuple[float, Reward]] = {"length": (2.0, long_sentences), "first": (-1.0, first_word)}
    config = CriticConfig(samples=4, baseline=baseline)
    torch.manual_seed(3)
    terms = self_critical(decoder, images, rewards, SHORT, config)
    assert decoder.training
    decoder.eval()
    encoded = decoder.encode_regions(images.regions)
    torch.manual_seed(3)
    made = sample(decoder, encoded, SHORT, 4, with_greedy=baseline == "greedy")
    total = 2 * long_sentences(images, made) - first_word(images, made)
    gained = total[:, -4:]
    against = total[:, :1] if baseline == "greedy" else mean_of_others(total)
    torch.testing.assert_close(terms["reward"], gained.mean())
    torch.testing.assert_close(terms["baseline"], against.mean())
    torch.testing.assert_close(terms["gap"], (gained - against).abs().mean())
    torch.testing.assert_close(terms["reward-first"], first_word(images, made)[:, -4:].mean())
    words = made.words[:, -4:]
    logprobs = made.logprobs[:, -4:]  # of the distribution before the rules took words out of it
    exact = sentence_logprobs(decoder, encoded, words, SHORT)
    assert (exact.detach() >= logprobs - 1e-5).all()
    loss = policy_gradient(exact, (gained - against).unsqueeze(-1), words != PAD)
    torch.testing.assert_close(terms["policy"], loss)
    assert [name for name, term in terms.items() if term.requires_grad] == ["policy"]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        CriticConfig(samples=1, baseline="others")
    with pytest.raises(ValueError, match="reward_model"):
        CriticConfig(match=1.0)


def test_cider_counts_the_end() -> None:
    """A sentence that stops is worth more than one that is cut, and one about another image is worth less."""
    references = {"0": [[3, 4, 5, EOS]], "1": [[6, 7, 8, EOS]]}
    reward = cider_reward(references, EOS)
    said = spoken(
        [[[3, 4, 5, EOS], [3, 4, 5, 5], [6, 7, 8, EOS]], [[6, 7, 8, EOS], [3, EOS, PAD, PAD], [EOS, 0, 0, 0]]]
    )
    scores = reward(images_of(2), said)
    assert scores[0, 0].item() == pytest.approx(10)
    assert 0 < scores[0, 1] < scores[0, 0]
    assert scores[0, 2] == scores[1, 1] == scores[1, 2] == 0  # the end stands in every image: its weight is log 1
    assert scores[1, 0].item() == pytest.approx(10)


def test_the_matcher_hears_whole_captions() -> None:
    """Also of a sentence that was cut."""
    asked: list[Tensor] = []

    def match(regions: PaddedRegions, words: Tensor) -> Tensor:
        asked.append(words)
        return words.sum(-1) / 10

    said = spoken([[[3, 4, 5], [4, EOS, PAD]]])
    torch.testing.assert_close(match_reward(match)(images_of(1), said), torch.tensor([[1.5, 0.7]]))
    assert asked[0].tolist() == [[[BOS, 3, 4, 5, EOS], [BOS, 4, EOS, PAD, PAD]]]


def test_consistency_by_hand() -> None:
    """Nouns at the first and third word: half shared, and all shared; the second word would be a miss."""
    captioner = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.2, 0.6]])
    matcher = torch.tensor([[0.0, 0.5, 0.5], [0.0, 0.0, 1.0], [0.2, 0.2, 0.6], [0.0, 0.0, 0.0]])  # the last: the end
    nouns = torch.tensor([False, False, False, True, False, True])
    said = spoken([[[3, 4, 5], [4, EOS, PAD]]], captioner.view(1, 1, 3, 1, 3).expand(1, 2, 3, 1, 3))
    reward = consistency_reward(lambda regions, words: matcher.expand(1, 2, 4, 3), nouns)
    torch.testing.assert_close(reward(images_of(1), said), torch.tensor([[0.75, 0.0]]))


def test_it_stops_when_the_gap_stays_at_nothing() -> None:
    config = CriticConfig(min_gap=0.1, patience=2)

    def stops(*gaps: float) -> bool:
        return reward_converged([{"losses": {"gap": gap}} for gap in gaps], config)

    assert not stops()
    assert not stops(0.0)
    assert not stops(0.05, 0.2)
    assert not stops(0.05, 0.2, 0.05)
    assert stops(0.5, 0.05, 0.05)
    assert not reward_converged([{"losses": {"gap": 0.0}}] * 9, CriticConfig(patience=0))
    assert not reward_converged([{"losses": {"words": 0.0}}] * 9, config)  # a phase of another objective


def test_only_the_branches_in_use_are_sampled_and_trained() -> None:
    decoder, images = decoder_of(7, branches=3), images_of(2)
    terms = self_critical(
        decoder, images, {"length": (1.0, long_sentences)}, GenerationConfig(max_words=3, branches=1), CriticConfig()
    )
    terms["policy"].backward()
    assert decoder.energy.grad is not None
    assert decoder.energy.grad[0].any()
    assert not decoder.energy.grad[1:].any()


@pytest.mark.parametrize(("baseline", "branches"), [("greedy", 1), ("others", 1), ("others", 2)])
def test_it_raises_the_reward(baseline: str, branches: int) -> None:
    """Each image has a sentence of its own that no other has, and nothing but the reward tells which."""
    reward = cider_reward({str(i): [[4 + i, 4 + (i + 1) % 4, EOS]] for i in range(4)}, EOS)
    config = CriticConfig(samples=24, baseline=baseline)
    images = images_of(4)
    torch.manual_seed(1)
    decoder = Decoder(DecoderConfig(9, features=5, words=8, hidden=16, attention=8, dropout=0.0, branches=branches))
    optimiser = torch.optim.Adam(decoder.parameters(), 0.02)

    def present() -> float:
        return reward(images, greedy(decoder, decoder.encode_regions(images.regions), SHORT)).mean().item()

    before = present()
    for _ in range(50):
        optimiser.zero_grad()
        self_critical(decoder, images, {"cider": (1.0, reward)}, SHORT, config)["policy"].backward()
        optimiser.step()
    # a sentence of chance has 1, the image's own has 7.5: it is too short for n-grams of four
    assert present() > before + 2
