"""Frames of a clip on one picture."""

from typing import TYPE_CHECKING

from models.messages import Frames

if TYPE_CHECKING:
    from PIL.Image import Image


def contact_sheet(frames: Frames, side: int, columns: int) -> "Image":
    """Return frames in reading order, the longer side of each made as short as `side`; a single one keeps its size."""
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames.pixels]
    for image in images[1:] and images:
        image.thumbnail((side, side))
    width, height = images[0].size
    columns = min(len(images), columns)
    sheet = Image.new("RGB", (columns * width, -(-len(images) // columns) * height))
    for number, image in enumerate(images):
        sheet.paste(image, (number % columns * width, number // columns * height))
    return sheet
