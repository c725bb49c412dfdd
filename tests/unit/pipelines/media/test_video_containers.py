from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.media.video_containers import PROBE_BYTES, detect_container


@pytest.mark.parametrize("mark", [b"dash:profile", b"<CompositionPlaylist", b"<AssetMap"])
def test_playlist_mark_within_the_probed_bytes_is_refused(tmp_path: Path, mark: bytes) -> None:
    clip = tmp_path / "clip.ogg"
    clip.write_bytes(b"OggS" + b"\x00" * 1000 + mark)
    with pytest.raises(ValueError, match="a playlist of other files"):
        detect_container(clip)
    clip.write_bytes(b"OggS" + b"\x00" * PROBE_BYTES + mark)
    assert detect_container(clip) == "ogg"


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x00\x18ftypheic"])
def test_unknown_container_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clip").write_bytes(content)
    with pytest.raises(ValueError, match="not a video in a supported container"):
        detect_container(tmp_path / "clip")
