"""TODO doc."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def folder_fingerprint(folder: Path) -> str:
    """Hash of a checkpoint folder: small files whole, large ones by name, size, first and last MiB.

    A 145 GB checkpoint is named in a second; an edited tokenizer or weight header changes the name.
    """
    whole = 4 << 20
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        size = path.stat().st_size
        total.update(json.dumps([path.relative_to(folder).as_posix(), size]).encode())
        with path.open("rb") as file:
            if size <= whole:
                total.update(file.read())
            else:
                total.update(file.read(1 << 20))
                file.seek(-(1 << 20), 2)
                total.update(file.read())
    return "local-" + total.hexdigest()[:16]
