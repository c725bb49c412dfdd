"""Audit requirements.lock: licences, from the metadata of installed packages, and known vulnerabilities.

    python -m tests.tools.audit [--lock FILE] [--pyproject FILE] [--advisories URL]

pyproject.toml lists what is allowed under `tool.vlmsweep.audit`. Licences need no network. Advisories come from OSV in
one request; where it is unreachable, one line says so and nothing fails. An advisory that a newer version fixes is an
error until the lock is updated or the advisory is listed with a reason; one without a fix is only reported.

Exit codes: 0 nothing to fix, 1 something to fix, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).parents[2]
OSV = "https://api.osv.dev"
TIMEOUT_S = 5.0
LOOSE = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "FreeBSD": "BSD-2-Clause",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL-2.1-or-later",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "NVIDIA Proprietary Software": "LicenseRef-NVIDIA-Proprietary",
    "Python Software Foundation License": "PSF-2.0",
}
"""Licence names from before SPDX -> SPDX name."""


class UnreachableError(RuntimeError):
    """The advisory server is unreachable."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed."""

    licences: frozenset[str]
    packages: Mapping[str, str]
    """Package -> reason: its metadata has no licence, or it is allowed by name."""
    advisories: Mapping[str, str]
    """Advisory id -> reason why it does not concern us."""

    @classmethod
    def read(cls, pyproject: Path) -> Rules:
        """Read the rules from pyproject.toml."""
        audit = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["vlmsweep"]["audit"]
        return cls(frozenset(audit["licences"]), audit["packages"], audit["advisories"])


def locked(lock: Path) -> dict[str, str]:
    """Return name -> version of all locked packages."""
    entry = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)", re.MULTILINE)
    matches = entry.findall(lock.read_text(encoding="utf-8"))
    return {name.lower(): version for name, version in matches}


def licence(about: metadata.PackageMetadata) -> str:
    """Return the SPDX expression of a package's metadata; '' when it has none."""
    if expression := about.get("License-Expression"):
        return str(expression)
    kinds = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if line.startswith("License :: ")]
    kinds = [kind for kind in kinds if kind not in ("OSI Approved", "DFSG approved")]
    words = str(about.get("License") or "").strip().splitlines()
    messages = kinds or [word for word in words[:1] if word != "UNKNOWN"]
    return " AND ".join(LOOSE.get(kind, kind) for kind in messages)


def allowed(expression: str, licences: Iterable[str]) -> bool:
    """Return whether an expression needs only allowed licences: all sides of an AND, one side of an OR."""
    known_names = set(licences)
    sides = [side.strip(" ()") for side in expression.split(" OR ")]
    return any(all(part.strip(" ()") in known_names for part in side.split(" AND ")) for side in sides)


def bad_licences(names: Iterable[str], rules: Rules) -> tuple[int, list[str]]:
    """Return how many packages are installed, and the problems with their licences."""
    observed, wrong = 0, []
    for name in sorted(names):
        try:
            about = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            continue  # for another system or Python
        observed += 1
        messages = licence(about)
        if name in rules.packages or (messages and allowed(messages, rules.licences)):
            continue
        wrong.append(
            f"{name}: licence {messages or 'unknown'} is not allowed; see tool.vlmsweep.audit in pyproject.toml"
        )
    return observed, wrong


def advisories(packages: Mapping[str, str], url: str) -> list[dict[str, Any]]:
    """Return all advisories on these versions, each with its `package`.

    Raises:
        UnreachableError: there is no valid reply.
    """
    names = sorted(packages)
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": packages[name]} for name in names]
    results: list[dict[str, Any]] = []
    try:
        answer = _request("POST", f"{url}/v1/querybatch", {"queries": queries})
        for name, result in zip(names, answer["results"], strict=True):
            ids = [item["id"] for item in result.get("vulns", ())]
            results += [{**_request("GET", f"{url}/v1/vulns/{item}"), "package": name} for item in ids]
    except (requests.RequestException, KeyError, TypeError, ValueError) as error:
        raise UnreachableError(type(error).__name__) from error
    return results


def _request(method: str, url: str, body: Mapping[str, Any] | None = None) -> Any:
    answer = requests.request(method, url, json=body, timeout=TIMEOUT_S)
    answer.raise_for_status()
    return answer.json()


def fixed_in(advisory: Mapping[str, Any]) -> list[str]:
    """Return the versions that fix an advisory."""
    ranges = [span for item in advisory.get("affected", ()) for span in item.get("ranges", ())]
    kinds = [span["events"] for span in ranges if span.get("type") == "ECOSYSTEM"]
    return [event["fixed"] for events in kinds for event in events if "fixed" in event]


def classify(results: Iterable[Mapping[str, Any]], rules: Rules) -> tuple[list[str], list[str]]:
    """Return what must be fixed, and what is only reported; advisories listed with a reason are neither."""
    wrong, messages = [], []
    for result in results:
        if {result["id"], *result.get("aliases", ())} & rules.advisories.keys():
            continue
        fixes = fixed_in(result)
        text = f"{result['package']}: {result['id']} {str(result.get('summary', ''))[:100]}"
        if fixes:
            wrong.append(f"{text}; fixed in {', '.join(fixes)}: `make lock`")
        else:
            messages.append(f"{text}; no version fixes it")
    return wrong, messages


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit licences and advisories."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", type=Path, default=ROOT / "requirements.lock")
    parser.add_argument("--pyproject", type=Path, default=ROOT / "pyproject.toml")
    parser.add_argument("--advisories", default=OSV, help="an OSV server")
    options = parser.parse_args(arguments)
    rules, packages = Rules.read(options.pyproject), locked(options.lock)
    observed, wrong = bad_licences(packages, rules)
    print(f"audit: licences of {observed} of {len(packages)} locked packages checked, {len(wrong)} refused")
    try:
        weak, messages = classify(advisories(packages, options.advisories), rules)
        print(f"audit: {len(weak)} advisories to fix, {len(messages)} that no version fixes")
        print("".join(f"  {line}\n" for line in messages), end="")
        wrong += weak
    except UnreachableError as error:
        print(f"audit: known vulnerabilities NOT checked: {options.advisories} is unreachable ({error})")
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
