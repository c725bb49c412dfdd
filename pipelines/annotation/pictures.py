"""Pictures of a form: decoded in the decoding process, encoded again as small JPEGs inside the page."""

from __future__ import annotations

import base64
import io
from typing import Final

from models.messages import Media
from pipelines.benchmarks.records import MediaRef
from pipelines.errors import DatasetError, DecodeError
from pipelines.ingest.dataset import Dataset
from pipelines.media.decoder import Decoder

_SIDE: Final = 1024  # longest side in pixels
_QUALITY: Final = 85


def data_uri(dataset: Dataset, ref: MediaRef, decoder: Decoder) -> str:
    """Return a picture as a `data:` address; raise DatasetError where it is missing or cannot be decoded."""
    from PIL import Image

    path = f"media/{ref.sha256}{ref.extension}"
    try:
        frames = decoder.decode(dataset.store, path, Media("image", ref.sha256), _SIDE * _SIDE)
    except DecodeError as error:
        raise DatasetError(f"{dataset.store.uri}/{path}: cannot be decoded ({error}); ingest again") from error
    picture = Image.fromarray(frames.pixels[0])
    picture.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
