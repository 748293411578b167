"""Captioning and grounding where torch cannot be imported, against the same models in torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.network import AlbefNet
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder
from deixis.pipelines.caption import caption
from deixis.pipelines.ground import ground
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo
from deixis.vision.extractor import RegionExtractor
from deixis.vision.grid_extractor import describe
from small_models import VOCABULARY, assert_close, noise, save_noise

PHRASES = ["a red ball", "the dog"]

RUN = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("torch is blocked")

sys.meta_path.insert(0, Blocked())
from deixis.pipelines.caption import caption
from deixis.pipelines.ground import ground
from deixis.pipelines.models import load_models
from deixis.pipelines.photo import Photo

models = load_models(sys.argv[1], sys.argv[2], "cpu")
photo = Photo(sys.argv[3], name="photo")
captioned = caption([photo], models)[0].to_dict()
found = [one.to_json() for one in ground(photo, sys.argv[4:], models.grounder)]
assert "torch" not in sys.modules
assert (models.captioner.calls.backend, models.grounder.calls.backend) == ("numpy", "numpy")
print(json.dumps([captioned, found]))
"""


def models(folder: Path) -> tuple[Path, Path]:
    """Write an untrained captioner and an untrained fusion model that read the regions of extractor v2."""
    torch.manual_seed(0)
    extractor = RegionExtractor(describe("v2"), 4)
    regions = extractor.extract(noise())
    assert regions.grid is not None
    sizes = {"words": 8, "hidden": 12, "attention": 6, "dropout": 0.0, "branches": 2}
    decoder = Decoder(DecoderConfig(len(VOCABULARY), regions.features.shape[1], **sizes))
    generation = GenerationConfig(beam=3, max_words=6)
    Captioner(decoder, VOCABULARY, extractor.to_json(), "c", generation).save_pretrained(folder / "captioner")
    pieces = WordPieces.build(["a dog runs and the red ball"], 1)
    text = {"hidden": 8, "heads": 2, "feed": 8, "positions": 32, "text_layers": 1, "fusion_layers": 2, "map_layer": 1}
    image = {"side": 4, "image_hidden": 8, "image_heads": 2, "image_feed": 8, "image_layers": 1, "shared": 4}
    config = AlbefConfig(vocabulary=len(pieces), patch=0, features=regions.grid.shape[2], **text, **image)
    AlbefGrounder(AlbefNet(config), pieces, extractor.to_json(), "g").save_pretrained(folder / "grounder")
    return folder / "captioner", folder / "grounder"


def test_captions_and_groundings_are_those_of_torch(tmp_path: Path) -> None:
    captioner, grounder = models(tmp_path)
    picture = save_noise(tmp_path / "photo.png")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(captioner), str(grounder), str(picture), *PHRASES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = Models(
        Captioner.from_pretrained(captioner, backend="torch"), AlbefGrounder.from_pretrained(grounder, backend="torch")
    )
    photo = Photo(str(picture), name="photo")
    expected = [
        caption([photo], loaded)[0].to_dict(),
        [one.to_json() for one in ground(photo, PHRASES, loaded.grounder)],  # type: ignore[arg-type]
    ]
    assert_close(json.loads(done.stdout.splitlines()[-1]), json.loads(json.dumps(expected)))
    assert np.isfinite(expected[0]["logprob"])  # type: ignore[call-overload]
