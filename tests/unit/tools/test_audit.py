"""The audit of locked packages: licences from their metadata, advisories from a scripted server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.tools.audit import ROOT, Rules, allowed, bad_licences, licence, locked, main

ADVISORIES = {
    "GHSA-fixed": {"affected": [{"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9"}]}]}]},
    "GHSA-open": {"affected": [{"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}]},
}


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """The address of a scripted OSV server, and its advisories by package."""
    advisories: dict[str, list[str]] = {}

    class Osv(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            assert all(request["version"] and request["package"]["ecosystem"] == "PyPI" for request in queries)
            results = [[{"id": name} for name in advisories.get(request["package"]["name"], [])] for request in queries]
            self.answer({"results": [{"vulns": result} if result else {} for result in results]})

        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            self.answer({"id": name, "aliases": [f"CVE-{name}"], "summary": "bad", **ADVISORIES[name]})

        def answer(self, content: object) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Osv) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}", advisories
        http.shutdown()
        thread.join()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "lock").write_text("pytest==8.0 ; python_version > '3'\n    --hash=x\nmoto[s3]==5.0 \\\n")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.vlmsweep.audit]\nlicences = ["MIT", "Apache-2.0"]\npackages = {}\n'
        'advisories = {CVE-GHSA-open = "fine"}\n'
    )
    return ["--lock", str(tmp_path / "lock"), "--pyproject", str(tmp_path / "pyproject.toml")]


@pytest.mark.parametrize(
    ("advisories", "code", "message"),
    [
        ([], 0, "0 advisories to fix, 0 that"),
        (["GHSA-fixed"], 1, "pytest: GHSA-fixed bad; fixed in 9"),
        (["GHSA-open"], 0, "0 advisories to fix, 0 that"),
    ],
)
def test_advisories_with_a_fix_fail_the_audit(server, files, advisories, code, message, capsys) -> None:
    server[1]["pytest"] = advisories
    assert main([*files, "--advisories", server[0]]) == code
    assert message in "".join(capsys.readouterr())


def test_advisory_without_a_fix_is_reported(server, files, capsys) -> None:
    path = Path(files[3])
    path.write_text(path.read_text().replace("CVE-GHSA-open", "another"))
    server[1]["moto"] = ["GHSA-open"]
    assert main([*files, "--advisories", server[0]]) == 0
    assert "moto: GHSA-open bad; no version fixes it" in capsys.readouterr().out


def test_unreachable_osv_is_one_line_and_no_failure(files, capsys) -> None:
    assert main([*files, "--advisories", "http://127.0.0.1:1"]) == 0
    assert "known vulnerabilities NOT checked: http://127.0.0.1:1 is unreachable" in capsys.readouterr().out


def test_unlisted_licence_is_refused(files, capsys) -> None:
    path = Path(files[3])
    path.write_text(path.read_text().replace('"MIT", ', ""))
    assert main([*files, "--advisories", "http://127.0.0.1:1"]) == 1
    assert "pytest: licence MIT is not allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("License-Expression", "MIT OR GPL-3.0")], "MIT OR GPL-3.0"),
        ([("Classifier", "License :: OSI Approved :: BSD License"), ("License", "x")], "BSD-3-Clause"),
        ([("Classifier", "License :: OSI Approved"), ("License", "Apache 2.0\nmore")], "Apache-2.0"),
        ([("License", "UNKNOWN")], ""),
    ],
)
def test_licence_is_read_from_package_metadata(fields, expected) -> None:
    about = Message()
    for name, value in fields:
        about[name] = value
    assert licence(about) == expected


def test_expression_needs_all_sides_of_and_and_one_of_or() -> None:
    assert allowed("MIT OR GPL-3.0", {"MIT"})
    assert allowed("(MIT AND ISC) OR GPL-3.0", {"MIT", "ISC"})
    assert not allowed("MIT AND GPL-3.0", {"MIT"})


def test_locked_packages_have_allowed_licences() -> None:
    packages = locked(ROOT / "requirements.lock")
    assert {"ray", "moto", "torch"} <= packages.keys()
    observed, wrong = bad_licences(packages, Rules.read(ROOT / "pyproject.toml"))
    assert not wrong
    assert observed > 100
