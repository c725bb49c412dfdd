"""Build the demo's data set: `python -m tests.tools.demo_data.build jobs/demo/data`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tests.tools.demo_data.clips import CLIPS, write_clip
from tests.tools.demo_data.texts import read_texts

__all__ = ["build", "main", "questions_json"]


def questions_json() -> bytes:
    """The questions as distributed: UTF-8 JSON, the same bytes everywhere."""
    videos = [read_texts(clip.number).as_distributed() for clip in CLIPS]
    return json.dumps(videos, ensure_ascii=False, indent=1).encode() + b"\n"


def build(out: Path) -> None:
    """Write `dataset/data_demo.json` and `dataset/videos/N.mp4` under a folder; files of these names are replaced."""
    videos = out / "dataset" / "videos"
    videos.mkdir(parents=True, exist_ok=True)
    (out / "dataset" / "data_demo.json").write_bytes(questions_json())
    for clip in CLIPS:
        write_clip(clip, videos / f"{clip.number}.mp4")


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.demo_data.build", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder that gets dataset/")
    build(parser.parse_args(argv).out)


if __name__ == "__main__":
    main()
