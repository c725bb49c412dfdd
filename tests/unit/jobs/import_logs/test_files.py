"""Archives and workbooks of unknown origin are read within limits."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from jobs.import_logs.fields import open_archive, text_table, workbook
from pipelines.benchmarks.foreign_files import archives
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.errors import UsageError
from tests.support.log_fuzzing import golden

SHEET = "xl/worksheets/sheet1.xml"


def zipped(members: dict[str, bytes], path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def sheet(rows: str) -> bytes:
    return f'<x:worksheet xmlns:x="m"><x:sheetData>{rows}</x:sheetData></x:worksheet>'.encode()


def test_member_by_zstd_is_that_of_another_reader() -> None:
    """`zipfile` of this Python refuses the method; the sizes and checksums in the archive prove the content."""
    with open_archive(golden("inspect")) as archive:
        infos = zipfile.ZipFile(golden("inspect")).infolist()
        assert {info.compress_type for info in infos} == {93}
        for info in infos:
            assert len(archive.read(info.filename)) == info.file_size
            assert zipfile.crc32(archive.read(info.filename)) == info.CRC  # type: ignore[attr-defined]


def test_damaged_member_costs_itself_alone(tmp_path: Path) -> None:
    content = bytearray(golden("inspect").read_bytes())
    info = zipfile.ZipFile(golden("inspect")).infolist()[3]
    content[info.header_offset + 30 + len(info.filename) + 40] ^= 0xFF
    path = tmp_path / "x.eval"
    path.write_bytes(content)
    with open_archive(path) as archive:
        with pytest.raises(UnreadableError, match="damaged"):
            archive.read(info.filename)
        assert json.loads(archive.read("header.json"))["eval"]["model"] == "mockllm/planted"
        with pytest.raises(UnreadableError, match="missing"):
            archive.read("none")


def test_member_that_grows_too_large_is_refused(tmp_path: Path) -> None:
    path = zipped({"a": b"0" * (archives.MAX_MEMBER + 1), "b": b"{}"}, tmp_path / "x.eval")
    with open_archive(path) as archive:
        with pytest.raises(UnreadableError, match="larger than 32 MiB"):
            archive.read("a")
        assert archive.read("b") == b"{}"


def test_archive_that_holds_many_times_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_FREE_BYTES", 1 << 20)
    path = zipped({str(n): b"0" * (2 << 20) for n in range(3)}, tmp_path / "x.eval")
    with pytest.raises(UsageError, match="200 times"), open_archive(path) as archive:
        [*map(archive.read, ("0", "1"))]


def test_cells_of_all_kinds(tmp_path: Path) -> None:
    strings = "<sst><si><t>index</t></si><si><r><t>pre</t></r><r><t>diction</t></r><rPh><t>no</t></rPh></si></sst>"
    rows = (
        '<x:row r="1"><x:c r="A1" t="s"><x:v>0</x:v></x:c><x:c r="C1" t="s"><x:v>1</x:v></x:c>'
        '<x:c r="D1" t="inlineStr"><x:is><x:t>hit</x:t></x:is></x:c></x:row>'
        '<x:row r="3"><x:c r="A3"><x:v>7</x:v></x:c><x:c r="C3" t="str"><x:f>A1+1</x:f><x:v>B &amp; C</x:v></x:c>'
        '<x:c r="D3" t="b"><x:v>1</x:v></x:c><x:c r="E3"><x:v>9</x:v></x:c></x:row>'
        '<x:row><x:c><x:v>8</x:v></x:c><x:c/><x:c t="s"><x:v>99</x:v></x:c></x:row>'
    )
    path = zipped({"xl/sharedStrings.xml": strings.encode(), SHEET: sheet(rows)}, tmp_path / "x.xlsx")
    assert [*workbook(path)] == [
        (3, {"index": "7", "prediction": "B & C", "hit": "True"}),
        (4, {"index": "8", "prediction": "", "hit": ""}),
    ]


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"a": b""}, "no sheet"),
        ({SHEET: b"<x"}, "sheet1.xml"),
        ({SHEET: b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "document type"),
        ({SHEET: sheet('<x:row><x:c t="s"><x:v>x</x:v></x:c></x:row>')}, "sheet1.xml"),
    ],
)
def test_workbook_that_is_none_ends_with_a_sentence(members: dict[str, bytes], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        [*workbook(zipped(members, tmp_path / "x.xlsx"))]


def test_table_with_a_huge_cell_loses_that_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("index\tprediction\n1\t" + "x" * 200_000 + "\n2\tB\n", encoding="utf-8-sig")
    rows = dict(text_table(path, "\t"))
    assert "200,000 characters" in str(rows[2])
    assert rows[3] == {"index": "2", "prediction": "B"}


def test_file_that_is_no_archive_ends_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    path.write_bytes(io.BytesIO(b"PK\x05\x06").getvalue())
    with pytest.raises(UsageError, match="cannot be read as an archive"), open_archive(path):
        pass
