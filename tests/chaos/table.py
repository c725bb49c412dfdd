"""The results of `make chaos`: one JSON file, and the guarantee table of docs/operations.md that is written from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "operations.md"
RESULTS = ROOT / "docs" / "chaos-results.json"

Results = dict[str, dict[str, Any]]
"""`kills`: by what was killed, by seed; `rows`: by benchmark; `cuts`: by storage; `soak` and `media`: one run."""
START, END = "<!-- guarantees: written by tests.chaos.table -->", "<!-- end of guarantees -->"
COUNTED = ("kills", "planned", "lost", "doubled", "changed", "redone", "in_flight")


def read_results(path: Path = RESULTS) -> Results:
    """Read the results so far; a missing file is empty."""
    recorded = json.loads(path.read_text()) if path.exists() else {}
    return {name: recorded.get(name, {}) for name in ("kills", "rows", "soak", "cuts", "media")}


def write_results(results: Results, path: Path = RESULTS) -> None:
    """Write the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def table(results: Results) -> str:
    """Return the table of kills, and a line each on rows, cut commits, media and the soak."""
    texts = [_kills(results["kills"])]
    if results["rows"]:
        texts.append(_rows(results["rows"]))
    if results["cuts"]:
        texts.append(_cuts(results["cuts"]))
    if results["media"]:
        texts.append(_media(results["media"]))
    if results["soak"]:
        texts.append(_soak(results["soak"]))
    return "\n\n".join(texts)


def _kills(kills: Mapping[str, Any]) -> str:
    lines = [
        "| killed | sweeps | kills | rows planned | lost | doubled | changed | calls made again | were in flight |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, by_seed in sorted(kills.items()):
        total = {key: sum(int(item[key]) for item in by_seed.values()) for key in COUNTED}
        counts = " | ".join(f"{total[key]:,}" for key in ("kills", "planned", "lost", "doubled", "changed"))
        shares = [f"{total[key] / max(1, total['planned']):.1%}" for key in ("redone", "in_flight")]
        at_most = "" if all(item["counted"] for item in by_seed.values()) else "at most "
        lines.append(f"| {name} | {len(by_seed)} | {counts} | {at_most}{shares[0]} | {shares[1]} |")
    return "\n".join(lines)


def _rows(rows: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{name} {entry['rejected']:,} of {entry['rows']:,}" for name, entry in sorted(rows.items()))
    return f"Damaged rows that ingest listed with a reason, the others being usable: {counts}."


def _cuts(cuts: Mapping[str, Any]) -> str:
    parts = []
    for storage, counts in (("on a disk", cuts["disk"]), ("in a store that fails 5% of its answers", cuts["store"])):
        old, new, neither = (counts.get(name, 0) for name in ("old", "new", "neither"))
        parts.append(
            f"{storage} {old + new + neither}: readers saw the old part {old} times, the new one {new}, else {neither}"
        )
    return f"Commits cut before and after each step, {'; '.join(parts)}."


def _media(media: Mapping[str, Any]) -> str:
    return (
        f"Damaged and odd media: {media['files']} files, of which {media['refused']} were refused with a reason and "
        f"{media['decodes']} decoded, {media['wrong']} otherwise than they must; {media['longest_s']:g} s the longest, "
        f"{media['most_mb']:,} MB at most."
    )


def _soak(soak: Mapping[str, Any]) -> str:
    driver, store = soak["driver_mb"], soak["store_mb"]
    return (
        f"Soak: {soak['requests']:,} requests, {soak['kills']} kills, one each {soak['kill_every_s']:g} s: "
        f"{soak['lost']} lost, {soak['doubled']} doubled. Driver {driver['first']:.0f} MB at first, "
        f"{driver['median']:.0f} in the middle, {driver['last']:.0f} at the end, {driver['most']:.0f} at most; "
        f"object store {store['first']:.0f}, {store['median']:.0f}, {store['last']:.0f} and {store['most']:.0f} MB."
    )


def with_table(page: str, results: Results) -> str:
    """Return a page's text with the table between its marks."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"the page has no marks {START} and {END}")
    return f"{before}{START}\n{table(results)}\n{END}{after}"


def main() -> None:
    """Write the table."""
    PAGE.write_text(with_table(PAGE.read_text(), read_results()))


if __name__ == "__main__":
    main()
