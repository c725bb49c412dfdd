"""Pictures of a form: drawn anew as small JPEGs inside the page."""

from __future__ import annotations

import base64
import io
from typing import Final

from pipelines.benchmarks.records import MediaRef
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset

_SIDE: Final = 1024  # longest side in pixels
_QUALITY: Final = 85


def data_uri(dataset: Dataset, ref: MediaRef) -> str:
    """Return a picture as a `data:` address; raise DatasetError where it is missing or cannot be decoded."""
    from PIL import Image, UnidentifiedImageError

    path = f"media/{ref.sha256}{ref.extension}"
    try:
        with Image.open(io.BytesIO(dataset.store.get(path))) as picture:
            picture.draft("RGB", (_SIDE, _SIDE))
            small = picture.convert("RGB")
    except FileNotFoundError:
        raise DatasetError(f"{dataset.store.uri}/{path}: missing; ingest again") from None
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise DatasetError(f"{dataset.store.uri}/{path}: cannot be decoded ({error}); ingest again") from error
    small.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
