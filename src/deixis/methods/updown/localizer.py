"""The localizer of cyclical training after training: for the comparison of its accuracy with the decoder's.

Captioning does not use it. A model folder keeps it in ``localizer.safetensors``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from deixis.errors import DeixisError
from deixis.fields import from_dict
from deixis.files import require_regular, write_atomic
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_ragged, pad_regions
from deixis.methods.updown.losses.cycle import CycleConfig, Localizer, localizer_input
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder
from deixis.model_folder import torch_network
from deixis.types import AttentionTrace, Candidate, Regions

FILE = "localizer.safetensors"


def save_localizer(localizer: Localizer, folder: Path) -> None:
    """Write the localizer into a model folder."""
    state = {name: part.detach().cpu().contiguous() for name, part in localizer.state_dict().items()}
    write_atomic(folder / FILE, save(state, {"config": json.dumps(asdict(localizer.config))}))


class LocalizedCaptioner:
    """A captioner whose attention to given sentences is that of its localizer."""

    def __init__(self, captioner: Captioner, decoder: Decoder, localizer: Localizer) -> None:
        self.captioner, self.decoder, self.localizer = captioner, decoder, localizer.eval()

    @classmethod
    def from_pretrained(cls, folder: Path) -> LocalizedCaptioner | None:
        """Read captioner and localizer of a model folder; None where it has no localizer."""
        if not (folder / FILE).exists():
            return None
        captioner = Captioner.from_pretrained(folder, backend="torch")
        decoder = torch_network(captioner.network)
        assert isinstance(decoder, Decoder)
        try:
            with safe_open(require_regular(folder / FILE), framework="pt") as file:
                config = from_dict(CycleConfig, json.loads(file.metadata()["config"]), {})
                localizer = Localizer(decoder, config)
                localizer.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise DeixisError(f"{folder / FILE} is damaged ({error}). Train the model again.") from None
        return cls(captioner, decoder, localizer)

    @torch.inference_mode()
    def force_decode(
        self, regions: Sequence[Regions], sentences: Sequence[Sequence[Sequence[str]]]
    ) -> list[list[Candidate]]:
        """Return given sentences as candidates with the localizer's attention to each word (Cyclical Eq. 6)."""
        decoder = self.decoder
        encoded = decoder.encode_regions(pad_regions(regions))
        words = pad_ragged([[self.captioner.vocabulary.encode(s) for s in each] for each in sentences], Vocabulary.pad)
        decoded = decoder(encoded, words[..., :-1])
        embedded = torch.relu(decoder.embed(words[..., 1:]))
        beta, _ = self.localizer(encoded, localizer_input(self.localizer, embedded, decoded.attention_states))
        found = []
        for i, one in enumerate(regions):
            each = []
            for s, sentence in enumerate(sentences[i]):
                attention = beta[i, s, : len(sentence), None, : len(one)].numpy()  # [T, 1, N]
                mask = np.ones(attention.shape[:2], dtype=bool)
                trace = AttentionTrace(attention, mask, one.boxes, one.size, one.frames)
                each.append(Candidate(tuple(sentence), 0.0, 0.0, trace))
            found.append(each)
        return found
