"""Frames a second of the video decoders on the published clips: decord, PyAV and, where it is installed, torchcodec.

    python -m tests.bench.decode --runs 5

Each clip is sampled at 32 frames and shrunk to the limit by the product's own code, on one thread. The decoders take
turns on each clip, and ratios are medians over the same clip and turn, in processor time, so that the machine's other
work cancels out. `child` is decord through the decoding process, file hash and pipe included, by the clock.

torchcodec is no dependency: install it elsewhere (`pip install --target DIR --no-deps torchcodec`), add that folder to
PYTHONPATH and one with FFmpeg's shared libraries to LD_LIBRARY_PATH.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from models.media_sampling import uniform_indices
from models.messages import Media
from pipelines.media.decode_worker import Pick, Shrink, _shrinker, _with_decord, _with_pyav
from pipelines.media.decoder import Decoder
from pipelines.media.video_containers import detect_container
from pipelines.storage.store import Store
from tests.bench.results import record, show, spread
from tests.conftest import REAL_MAIA

FRAMES = 32
LIMITS = (1_003_520, 120_000)
"""Pixels of a frame: the catalog's largest limit, which leaves these clips as they are, and one that shrinks them."""
LEAST_SHARE = 0.8
"""Of the fastest decoder's speed that decord must reach to be tried first."""
Decode = Callable[[str, str, int, Shrink], tuple[list[np.ndarray], list[float], float, int]]


def torchcodec_decoder() -> Decode | None:
    """Return a decoder that uses torchcodec on one thread; None where it is not installed."""
    try:
        import torch
        from torchcodec.decoders import VideoDecoder
    except (ImportError, RuntimeError):  # RuntimeError: it found no FFmpeg
        return None
    torch.set_num_threads(1)

    def decode(
        path: str, container: str, pick: Pick, shrink: Shrink
    ) -> tuple[list[np.ndarray], list[float], float, int]:
        del container
        decoder = VideoDecoder(path, num_ffmpeg_threads=1, dimension_order="NHWC")
        batch = decoder.get_frames_at(pick(len(decoder)))
        rate = float(decoder.metadata.average_fps or 0)
        return [shrink(frame.numpy()) for frame in batch.data], batch.pts_seconds.tolist(), rate, len(decoder)

    return decode


def measure(clips: Sequence[Path], decoders: Mapping[str, Decode], pixels: int, runs: int) -> dict[str, Any]:
    """Decode every clip with every decoder, `runs` times; return speeds, ratios to decord and the decoder to try first.

    Raises:
        ValueError: a decoder gives other frames than decord.
    """
    pick = partial(uniform_indices, count=FRAMES)
    names, shrink = list(decoders), _shrinker(pixels, {})
    seconds: dict[str, list[float]] = defaultdict(list)
    child_seconds: list[float] = []
    digests = {clip: hashlib.sha256(clip.read_bytes()).hexdigest() for clip in clips}
    with Decoder() as child:
        for run in range(runs):
            for clip in clips:
                frames = {}
                for name in names[run % len(names) :] + names[: run % len(names)]:
                    start = time.process_time()
                    frames[name] = decoders[name](str(clip), detect_container(clip), pick, shrink)[0]
                    seconds[name].append(time.process_time() - start)
                _check_equal(clip, frames)
                start = time.perf_counter()
                child.decode(Store(str(clip.parent)), clip.name, Media("video", digests[clip], FRAMES), pixels)
                child_seconds.append(time.perf_counter() - start)
    speeds = {
        name: statistics.median(a / b for a, b in zip(seconds["decord"], values, strict=True))
        for name, values in seconds.items()
    }
    decord_share = 1 / max(speeds.values())
    return {
        "frames_per_processor_second": {name: spread([FRAMES / s for s in values]) for name, values in seconds.items()},
        "child_frames_per_second": spread([FRAMES / s for s in child_seconds]),
        "speed_over_decord": speeds,
        "decord_over_fastest": decord_share,
        "first": "decord" if decord_share >= LEAST_SHARE else max(speeds, key=lambda name: speeds[name]),
    }


def _check_equal(clip: Path, frames: Mapping[str, Sequence[np.ndarray]]) -> None:
    for name, values in frames.items():
        difference = np.abs(np.stack(values).astype(int) - np.stack(frames["decord"])).max()
        if difference > 2:  # conversions to RGB may round differently
            raise ValueError(f"{name} gives other frames of {clip.name} than decord, by up to {difference} of 255")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pixels", type=int, nargs="+", default=LIMITS, help="limits of a frame")
    parser.add_argument("--clips", type=Path, default=REAL_MAIA / "dataset" / "videos", help="folder of MP4 files")
    args = parser.parse_args(arguments)
    clips = sorted(args.clips.glob("*.mp4"))
    if not clips:
        parser.exit(0, f"skipped: no MP4 file in {args.clips}\n")
    torchcodec = torchcodec_decoder()
    decoders = {"decord": _with_decord, "pyav": _with_pyav, **({"torchcodec": torchcodec} if torchcodec else {})}
    if not torchcodec:
        print("torchcodec is not installed; see --help")
    results = {str(pixels): measure(clips, decoders, pixels, args.runs) for pixels in args.pixels}
    record("decode", {"clips": len(clips), "frames": FRAMES, "limits": results})
    for pixels, result in results.items():
        rows = [
            [name, rate["median"], f"{rate['low']:.3g}-{rate['high']:.3g}", result["speed_over_decord"][name]]
            for name, rate in result["frames_per_processor_second"].items()
        ]
        child = result["child_frames_per_second"]
        rows.append(["child", child["median"], f"{child['low']:.3g}-{child['high']:.3g}", None])
        show(f"at most {pixels} pixels", ["decoder", "frames/s", "spread", "over decord"], rows)
        print(f"decord: {result['decord_over_fastest']:.2f} of the fastest; first: {result['first']}", flush=True)


if __name__ == "__main__":
    main()
