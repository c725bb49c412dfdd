"""The pages of a site: complete, without requests, secrets and locations, and inert whatever a model wrote."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest

from jobs.cli.main import run
from jobs.site import build
from jobs.site.build import CHUNK_BYTES, MARKER, Samples, SiteFolder
from pipelines.clean_text import clean
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import load_run, save_run
from pipelines.storage.store import Store
from tests.support.browser import CHROMIUM, browser
from tests.support.viewer_output import write_output, write_report
from tests.unit.jobs.site.conftest import LONG, MODEL, SECRET


def items(site: Path) -> list[dict[str, Any]]:
    """Return the items of all data files."""
    result = []
    for path in sorted((site / "data").glob("*.js"), key=lambda path: int(path.stem)):
        match = re.fullmatch(r"siteItems\((\d+),(.*)\);\n", path.read_text(encoding="utf-8"), re.DOTALL)
        assert match
        assert int(match[1]) == len(result)
        result += json.loads(match[2])
    return result


def test_every_answer_is_there_and_a_long_one_is_cut(site: Path) -> None:
    shown = items(site)
    answers = [answer for item in shown for answer in item["answers"]]
    assert {len(item["answers"]) for item in shown} == {2}
    assert {"right", "wrong", "error"} == {answer["outcome"] for answer in answers}
    assert {item["benchmark"] for item in shown} == {"maia"}
    assert all(item["prompt"] and item["category"] and item["media"] for item in shown)
    assert f"{len(answers)} answers" in (site / "samples.html").read_text(encoding="utf-8")
    text, cut = next(answer["output"] for item in items(site) for answer in item["answers"]
                     if isinstance(answer.get("output"), list))  # fmt: skip
    assert len(text) == 4_000
    assert cut == len(LONG) - 4_000
    assert max(path.stat().st_size for path in site.rglob("*.*")) < 1_000_000


def test_foreign_text_ends_no_script_and_reorders_nothing(site: Path) -> None:
    for path in site.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not set("<>&\u2028\u2029\u202e") & set(text)
    page = (site / "samples.html").read_text(encoding="utf-8")
    assert page.count("<script>") == 1
    assert MODEL not in page
    assert "\u05e9\u05dc\u05d5\u05dd" in (site / "data" / "0.js").read_text(encoding="utf-8")


def test_pages_request_nothing_and_allow_their_own_script_alone(site: Path) -> None:
    pages = [*site.glob("*.html")]
    assert {"index.html", "samples.html", "benchmark-maia.html"} <= {path.name for path in pages}
    for path in pages:
        text = path.read_text(encoding="utf-8")
        (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html.unescape(text))
        assert policy.startswith("default-src 'none'; ")
        assert "img-src 'self'; " in policy or path.name == "leaderboard.html"
        assert "unsafe" not in policy
        for tag, name in (("style", "style-src"), ("script", "script-src")):
            for content in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL):
                digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
                assert f"sha256-{digest}" in policy.partition(name)[2].partition(";")[0]
        for _, address in re.findall(r'\s(src|href)="([^"]*)"', text):
            assert not re.match(r"[a-z]+:|//|/", address), address
    assert not any(b"http://" in path.read_bytes() or b"https://" in path.read_bytes() for path in site.glob("data/*"))


def test_secrets_and_locations_are_left_out(site: Path, out: str, maia_data: str) -> None:
    for path in site.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(text.encode() in content for text in (SECRET, out, maia_data, str(Path.home()) + "/"))


def test_media_are_small_copies_or_left_out(site: Path, out: str, tmp_path: Path) -> None:
    sources = {medium["src"] for item in items(site) for medium in item["media"] if "src" in medium}
    assert sources
    assert {path.relative_to(site).as_posix() for path in site.glob("media/*")} == sources
    assert run(["site", out, "--to", str(tmp_path / "site"), "--no-media"]) == 0
    assert not (tmp_path / "site" / "media").exists()
    assert "left_out" in str(items(tmp_path / "site")[0]["media"])


def test_report_and_leaderboard_are_linked_with_the_samples(site: Path) -> None:
    page = (site / "benchmark-maia.html").read_text(encoding="utf-8")
    assert re.search(r'href="samples\.html#benchmark=maia&amp;[^"]*sample_id=video1%2FSentiment_A', page)
    (address,) = re.findall(r'href="samples\.html#([^"]*model=[^"]*)"', page)
    facts = re.search(r'data-facts="([^"]*)"', (site / "samples.html").read_text(encoding="utf-8"))
    assert facts
    assert parse_qs(html.unescape(address))["model"][0] in json.loads(html.unescape(facts[1]))["models"]
    assert "origin" in (site / "leaderboard.csv").read_text(encoding="utf-8").partition("\n")[0].split(",")
    assert 'href="leaderboard.html"' in (site / "samples.html").read_text(encoding="utf-8")


def test_outputs_have_a_folder_each_and_one_leaderboard(out: str, maia_data: str, tmp_path: Path) -> None:
    other = write_output(str(tmp_path / "other"), maia_data, ["third"])
    folder = tmp_path / "site"
    assert run(["site", out, other, f"{out}/", "--to", str(folder), "--no-media"]) == 0
    page = (folder / "index.html").read_text(encoding="utf-8")
    for name in (Path(out).name, "other"):
        assert f'href="{name}/index.html"' in page
        assert f'href="{name}/samples.html"' in page
        assert 'href="../leaderboard.html"' in (folder / name / "samples.html").read_text(encoding="utf-8")
        assert items(folder / name)
    assert 'href="leaderboard.html"' in page
    assert (folder / "leaderboard.html").exists()
    test_pages_request_nothing_and_allow_their_own_script_alone(folder / Path(out).name)
    test_secrets_and_locations_are_left_out(folder, out, maia_data)


def test_a_model_of_one_output_is_enough(
    out: str, maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    others = [write_output(str(tmp_path / name), maia_data, [name]) for name in ("third", "fourth")]
    folder = tmp_path / "site"
    flags = ["--to", str(folder), "--no-media"]
    assert run(["site", out, *others, "--models", "third,fourth", *flags]) == 0
    assert items(folder / "third")
    assert items(folder / "fourth")
    assert not (folder / Path(out).name).exists()
    assert f"{out}: skipped, as it has no results" in caplog.text
    assert run(["site", out, *others, "--models", "fourth", *flags]) == 0
    assert items(folder)
    assert run(["site", out, *others, "--models", "fifth", *flags]) == 2
    assert "unknown model 'fifth'" in capsys.readouterr().err


def test_outputs_whose_names_become_one_have_a_folder_each(out: str, maia_data: str, tmp_path: Path) -> None:
    other, folder = write_output(str(tmp_path / "a b"), maia_data, ["third"]), tmp_path / "site"
    same = shutil.copytree(out, tmp_path / "a_b")
    assert run(["site", str(same), other, "--to", str(folder), "--no-media"]) == 0
    assert [len(items(folder / name)) > 0 for name in ("1-a_b", "2-a_b")] == [True, True]
    assert 'href="2-a_b/index.html"' in (folder / "index.html").read_text(encoding="utf-8")


def test_output_without_report_that_is_being_written_is_shown_with_notes(out: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(out, tmp_path / "copy"))
    shutil.rmtree(copy / "report")
    (copy / "lock.json").write_text('{"run": "1"}')
    next(copy.glob("predictions/benchmark=maia/model=long/*")).unlink()
    assert run(["site", str(copy), "--to", str(tmp_path / "site"), "--no-media"]) == 0
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "A run was writing this output" in page
    assert "The output has no report yet" in page
    assert "planned requests have no answer" in page


def test_answers_about_lost_data_are_left_out(
    maia_data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Store(write_output(str(tmp_path / "mixed"), maia_data, ["a", "b"]))
    current = load_run(out)
    a, b = current.entries
    gone = str(tmp_path / "gone")
    save_run(out, current, replace(current, entries=(a, replace(b, data=gone))))
    assert run(["site", out.uri, "--to", str(tmp_path / "site"), "--no-media"]) == 0
    page = (tmp_path / "site" / "samples.html").read_text(encoding="utf-8")
    assert "maia b: its samples are left out" in page
    assert gone not in page
    assert {len(item["answers"]) for item in items(tmp_path / "site")} == {1}
    assert run(["site", out.uri, "--to", str(tmp_path / "none"), "--models", "b"]) == 2
    assert gone in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_site_works_from_a_file_in_a_browser(site: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "browser") as page:

        def wait_for(text: str, address: str) -> str:
            page.open_address("about:blank")
            page.open_address((site / "samples.html").as_uri() + address)
            for _ in range(200):
                shown: str = page.evaluate("document.body.innerText")
                if text in shown and "reading on" not in shown:
                    return shown
            raise AssertionError(shown)

        for width in (1400, 400):
            page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
            wait_for(" of ", "")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            wait_for("Back to the list", "#item=0")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(
                "Promise.all([...document.images].map(image => image.decode())).then(all => all.length)"
            )
        assert clean(MODEL) in wait_for("Back to the list", "#item=1")
        assert page.evaluate("document.querySelectorAll('.sample .asked > dl > dt').length") == 2
        assert "No sample." in wait_for("No sample", "#q=nowhere-to-be-seen")
        assert "1 to " in wait_for(" of ", "#outcome=error&model=long")
        assert page.evaluate("typeof window.hacked") == "undefined"
        loaded = page.evaluate("JSON.stringify(performance.getEntriesByType('resource').map(entry => entry.name))")
        assert all(name.startswith("file://") for name in json.loads(loaded))


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_keys_lead_through_the_samples_and_show_help(site: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "browser") as page:

        def wait_for(condition: str) -> None:
            if not any(page.evaluate(condition) for _ in range(500)):
                raise AssertionError(condition)

        def press(key: str, condition: str) -> None:
            page.evaluate(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
            wait_for(condition)

        page.open_address((site / "samples.html").as_uri())
        wait_for("document.querySelectorAll('.samples a').length > 1")
        press("j", "document.activeElement.hash === '#item=0'")
        press("j", "document.activeElement.hash === '#item=1'")
        page.evaluate("document.activeElement.click()")
        wait_for("location.hash === '#item=1' && document.querySelector('.sample') !== null")
        press("k", "location.hash === '#item=0'")
        press("?", "document.getElementById('keys').open")
        press("j", "location.hash === '#item=0'")  # no command while the help is open
        press("?", "!document.getElementById('keys').open")
        press("u", "location.hash === '' && document.querySelector('.samples') !== null")
        press("/", "document.activeElement.name === 'q'")
        assert not page.evaluate("document.querySelector('header [data-keys]').hidden")


def test_short_locations_break_no_page(maia_data: str, tmp_path: Path) -> None:
    out = Store(write_output(str(tmp_path / "short"), maia_data, ["a"]))
    write_report(out.uri, "a", f"see {out.uri}/x and {maia_data}")
    current = load_run(out)
    save_run(out, current, replace(current, sweep=replace(current.sweep, data="/d")))
    assert run(["site", out.uri, "--to", str(tmp_path / "site"), "--no-media"]) == 0
    page = (tmp_path / "site" / "benchmark-maia.html").read_text(encoding="utf-8")
    assert "see \N{HORIZONTAL ELLIPSIS}/x and \N{HORIZONTAL ELLIPSIS}" in page
    assert page.count("<details") == page.count("</details>") > 0


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """The site of imported answers of 14 models to four of six questions."""
    (tmp_path / "rows.csv").write_text("\n".join(["id,question,answer", *(f"{n},Is it {n}?,yes" for n in range(6))]))
    data, out = str(tmp_path / "data"), str(tmp_path / "out")
    assert run(["ingest", "table", str(tmp_path / "rows.csv"), "--as", "mine", "--data", data]) == 0
    others = ["no", "!?", None, "yes"]  # of all models but the first, which says yes
    names = {"benchmark": "mine", "task": "yes-no", "setting": "default"}
    rows = [
        {**names, "model": f"m{model}", "sample_id": str(sample), "output": others[sample] if model else "yes"}
        for sample in range(4)
        for model in range(14)
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--data", data, "--out", out, "--fail-on-error", "false"]
    assert run(["score", "--predictions", str(tmp_path / "answers.jsonl"), *flags]) == 0
    assert run(["site", out, "--to", str(tmp_path / "site")]) == 0
    return tmp_path / "site"


def test_answers_made_elsewhere_lack_none_that_a_run_would_send(logged: Path) -> None:
    assert "Read with care" not in (logged / "samples.html").read_text(encoding="utf-8")


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_list_shows_a_dozen_answers_and_where_right_and_wrong_disagree(logged: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "browser") as page:
        page.open(logged / "samples.html")
        items = "[...document.querySelectorAll('.samples > li')]"
        assert page.evaluate(f"{items}.map((item) => item.querySelectorAll('.given > li').length)") == [13] * 4
        assert page.evaluate(f"{items}[0].querySelector('.given').lastChild.textContent") == "and 2 more answers"
        page.open_address(f"{(logged / 'samples.html').as_uri()}#model=m13")
        page.evaluate("new Promise((done) => setTimeout(done, 300))")
        assert "m13: " in page.evaluate(f"{items}[0].querySelector('.given').firstChild.textContent")
        page.open_address(f"{(logged / 'samples.html').as_uri()}#disagree=1")
        page.evaluate("new Promise((done) => setTimeout(done, 300))")
        assert page.evaluate(f"{items}.map((item) => item.querySelector('a').textContent)") == ["Is it 0?", "Is it 1?"]


def test_many_notes_are_folded(maia_data: str, tmp_path: Path) -> None:
    out = Path(write_output(str(tmp_path / "out"), maia_data, [f"m{number}" for number in range(6)]))
    for part in out.glob("predictions/*/model=m[1-5]/*"):
        part.unlink()
    assert run(["site", str(out), "--to", str(tmp_path / "site"), "--no-media"]) == 0
    notes = (tmp_path / "site/samples.html").read_text(encoding="utf-8").partition("Read with care")[2]
    shown, _, folded = notes.partition("</main>")[0].partition("<details>")
    assert shown.count("<li>") == 5
    assert folded.count("<li>") == int(re.findall(r"<summary>(\d+) more", folded)[0])


ROWS = 20_000


def add(to: Samples, number: int, output: str, category: str = "c") -> None:
    """Add an answer."""
    planned: Any = SimpleNamespace(sample_id=f"s{number}", task="t", setting="s", variant="")
    row: Any = SimpleNamespace(
        planned=planned, sample=SimpleNamespace(sample_id=planned.sample_id, category=category, data={}),
        prediction={"status": "ok", "output": output}, scores={"answer": "A"}, values={"correct": 1.0}, steps=(),
        expected=("yes",), prompt_set="",
    )  # fmt: skip
    entry: Any = SimpleNamespace(benchmark="b", model="m", prompts=SimpleNamespace(dataset_fingerprint="f"))
    to.add(row, entry, [])


@pytest.mark.parametrize(("length", "limit"), [(100, 4_000), (3_000, 1_000)])
def test_20_000_answers_are_below_30_mb_in_small_files(length: int, limit: int) -> None:
    collected = Samples()
    for number in range(ROWS):
        add(collected, number, "x" * length)
    shown, scripts = collected.scripts()
    assert shown == limit
    assert sum(len(script) for _, script in scripts) < 30_000_000
    assert max(len(script) for _, script in scripts) < 1.1 * CHUNK_BYTES
    assert scripts[0][0] == 0
    assert [first for first, _ in scripts] == sorted({first for first, _ in scripts})


def test_names_that_look_like_paths_are_values_alone() -> None:
    collected = Samples()
    add(collected, 1, "x", category="../..")
    _, [(_, script)] = collected.scripts()
    assert b'"category":"../.."' in script


def test_more_answers_than_a_page_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MAX_ROWS", 2)
    collected = Samples()
    add(collected, 0, "x")
    add(collected, 1, "x")
    with pytest.raises(UsageError, match="--models"):
        add(collected, 2, "x")


def stage(folder: Path, **files: str) -> Path:
    """Write files of a new site."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Return the files of a folder, without the marker."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MARKER}


def test_second_site_replaces_and_deletes_files_of_the_first_alone(tmp_path: Path) -> None:
    to = tmp_path / "to"
    SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1", b="1", c="1"))
    (to / "mine").write_text("mine")
    (to / "c").write_text("changed")
    SiteFolder(str(to)).publish(stage(tmp_path / "2", a="2"))
    assert contents(to) == {"a": "2", "mine": "mine", "c": "changed"}
    SiteFolder(str(to)).publish(stage(tmp_path / "3", a="3"))
    assert contents(to)["a"] == "3"


@pytest.mark.parametrize("problem", ["foreign", "changed", "link"])
def test_file_in_the_way_is_refused_before_anything_is_written(tmp_path: Path, problem: str) -> None:
    to = tmp_path / "to"
    SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1", b="1"))
    name = {"foreign": "c", "changed": "b", "link": "b"}[problem]
    (to / name).unlink(missing_ok=True)
    (tmp_path / "target").write_text("mine")
    if problem == "link":
        (to / name).symlink_to(tmp_path / "target")
    else:
        (to / name).write_text("mine")
    with pytest.raises(UsageError, match=f"to/{name}: .*move it away"):
        SiteFolder(str(to)).publish(stage(tmp_path / "2", a="2", b="2", c="2"))
    assert contents(to)["a"] == "1"
    assert (to / name).read_text() == "mine"
    assert (tmp_path / "target").read_text() == "mine"


@pytest.mark.parametrize("path", ["../outside", "{tmp}/outside"])
def test_marker_that_names_files_elsewhere_deletes_nothing(tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").write_text("x")
    to = tmp_path / "to"
    to.mkdir()
    sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    (to / MARKER).write_text(f"{sha256}  {path.format(tmp=tmp_path)}\n")
    with pytest.raises(UsageError, match="leads out of the folder"):
        SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1"))
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("s3://bucket/x", "only local folders"),
        ("{tmp}/full", "holds files that `site` did not write"),
        ("{tmp}/full/file", "is a file"),
    ],
)
def test_unusable_folders_are_refused(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    assert run(["site", out, "--to", folder.format(tmp=tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert contents(tmp_path / "full") == {"file": "kept"}


def test_interrupted_site_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.storage.store import Store

    to, put = tmp_path / "to", Store.put
    SiteFolder(str(to)).publish(stage(tmp_path / "1", a="1", b="1"))

    def stop(store: Store, path: str, content: bytes, *, hold: bool = False) -> None:
        if path == "b":
            raise KeyboardInterrupt
        put(store, path, content, hold=hold)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", stop)
        with pytest.raises(KeyboardInterrupt):
            SiteFolder(str(to)).publish(stage(tmp_path / "2", a="2", b="2"))
    assert contents(to) == {"a": "2", "b": "1"}
    SiteFolder(str(to)).publish(stage(tmp_path / "3", a="3", b="3"))
    assert contents(to) == {"a": "3", "b": "3"}
