"""Every architecture on text, one frame, 32 frames and two pictures: the engine against one prompt at a time.

`python -m tests.support.family_media --page docs/families.md` builds small random checkpoints, asks each five questions
about each kind of media in float32, and writes the table into the page. An answer that differs from that of `generate`
to the same prompt alone, with no two logits near each other, ends the command with an error.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from models.messages import Answer, Media
from tests.support.checkpoints import ARCHITECTURES, build_tiny
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    FIRST_FRAME,
    MEDIA,
    OTHER,
    PICTURE,
    ReferenceModel,
    calls_about,
    engine_of,
    near_ties,
    texts,
)

BEGIN, END = "<!-- media: begin -->", "<!-- media: end -->"
KINDS: dict[str, tuple[Media, ...]] = {
    "text": (),
    "1 frame": (FIRST_FRAME,),
    "32 frames": (CLIP,),
    "two pictures": (PICTURE, OTHER),
}


def row(architecture: str, folder: Path) -> list[str]:
    """Return an architecture's row: prompt tokens for each kind of media it takes, and whether prefixes are shared."""
    reference, engine = ReferenceModel(folder), engine_of(folder)
    cells = [architecture]
    for media in KINDS.values():
        calls = calls_about(media, limits=(1, 6))
        replies = list(engine.generate(calls, MEDIA))
        if not all(isinstance(reply.outcome, Answer) for reply in replies):
            cells.append("refused")
            continue
        near_ties(texts(replies), {call.call_id: reference.answer(call) for call in calls})
        cells.append(str(max(reply.outcome.input_tokens for reply in replies if isinstance(reply.outcome, Answer))))
    return [*cells, engine.no_sharing_reason or "shared"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows in Markdown."""
    heads = ["architecture", *KINDS, "prefixes"]
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> int:
    """Ask all architectures; write the table between the marks of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architectures", default=",".join(ARCHITECTURES), help="comma-separated")
    parser.add_argument("--page", type=Path, default=Path("docs/families.md"))
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as room:
        for architecture in args.architectures.split(","):
            rows.append(row(architecture, build_tiny(Path(room, architecture), architecture)))
            print(" | ".join(rows[-1]), flush=True)
    before, _, rest = args.page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    args.page.write_text(f"{before}{BEGIN}\n{table(rows)}{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
