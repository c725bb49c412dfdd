"""A small MAIA data set in the form as distributed, whose frames tell their own number."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

CATEGORIES = (
    "CausaleEsplicita", "Controfattuale", "OutofScope", "Pianificazione", "Sentiment", "Incertezza",
    "ImplicitoParziale", "ImplicitoTot", "SpazialeParziale", "SpazialeTotale", "TemporaleDurata", "TemporaleParziale",
)  # fmt: skip
WIDTH, HEIGHT, STEPS = 64, 48, 10


def frame_of(index: int, clip: int = 0) -> np.ndarray:
    """Return frame `index`: tens as the left half's brightness, ones as the right half's, robust to H.264."""
    picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture[:, : WIDTH // 2] = 20 + 20 * (index // STEPS)
    picture[:, WIDTH // 2 :] = 20 + 20 * (index % STEPS)
    picture[: HEIGHT // 4] = 60 * (clip % 4)
    return picture


FRAMES_32_OF_40 = [
    *(0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18),
    *(20, 21, 22, 23, 25, 26, 27, 28, 30, 31, 32, 33, 35, 36, 37, 39),
]
"""The 32 frames of a clip of 40, by the paper's rule floor(j * 39 / 31)."""


def index_of(picture: np.ndarray) -> int:
    """Read the number of a frame."""
    height, width = picture.shape[:2]
    low = picture[height // 2 :].astype(float).mean(axis=2)
    tens = round((low[:, : width // 2 - width // 8].mean() - 20) / 20)
    ones = round((low[:, width // 2 + width // 8 :].mean() - 20) / 20)
    return int(tens * STEPS + ones)


def write_clip(path: Path, frames: int = 40, clip: int = 0, fps: int = 10) -> None:
    """Encode a clip of numbered frames."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv444p"
        stream.options = {"crf": "10", "bf": "2"}
        for index in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame_of(index, clip), format="rgb24")))
        container.mux(stream.encode())


def question(video: int, category: str) -> dict[str, Any]:
    """Return one question with eight answers and eight pairs."""
    return {
        "category": category,
        "question": f"Che cosa succede nel video {video} ({category})?",
        "answer": [f"La risposta {i} del video {video} per {category}" for i in range(8)],
        "true_statement": [f"Il video {video} mostra la cosa {i} per {category}" for i in range(8)],
        "false_statement": [f"Il video {video} nasconde la cosa {i} per {category}" for i in range(8)],
    }


def questions(videos: int, categories: int = 12) -> list[dict[str, Any]]:
    """Return the content of the JSON file."""
    return [
        {
            "video": f"video{n}",
            "link": "",
            "question_categories_A": [question(n, f"{name}_A") for name in CATEGORIES[:categories]],
            "question_categories_B": [question(n, f"{name}_B") for name in reversed(CATEGORIES[:categories])],
        }
        for n in range(1, videos + 1)
    ]


def write_source(folder: Path, videos: int = 2, categories: int = 12, frames: int = 40) -> Path:
    """Write the data set and return its folder."""
    for n in range(1, videos + 1):
        write_clip(folder / "videos" / f"{n}.mp4", frames, clip=n)
    (folder / "data.json").write_text(json.dumps(questions(videos, categories), ensure_ascii=False), encoding="utf-8")
    return folder
