"""Write the common set in the forms of VLMEvalKit's results, as its documentation describes them.

python vlmevalkit_logs.py QUESTIONS.jsonl FOLDER

Its package is not on an index. Files, columns and verdicts follow the descriptions of its three kinds of question:
`hit` of a letter or an option's text, `extracted` and `score` of yes and no, `eval_pred` and `eval_score` of others.
Needs openpyxl, by which pandas writes `.xlsx`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

LETTERS = "ABCD"


def main() -> None:
    """Write a result file a kind, with verdicts beside the plain one, as workbook, table or JSON."""
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    folder = Path(sys.argv[2]) / "planted" / "T20260101_G00000000"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, name, suffix, judged in (
        ("choice", "Pictures_MCQ", "xlsx", "exact_matching_result"),
        ("yes-no", "Pictures_YORN", "xlsx", "auxmatch"),
        ("text", "Pictures_VQA", "tsv", "results"),
        ("number", "Pictures_Number", "json", "results"),
    ):
        frame = pd.DataFrame([_row(row) for row in rows if row["kind"] == kind])
        verdicts = pd.DataFrame([_verdict(kind, row) for row in rows if row["kind"] == kind])
        _write(frame, folder / f"planted_{name}.{suffix}")
        _write(pd.concat([frame, verdicts], axis=1), folder / f"planted_{name}_{judged}.{suffix}")


def _write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    elif path.suffix == ".tsv":
        frame.to_csv(path, sep="\t", index=False)
    else:
        path.write_text(json.dumps(frame.to_dict("records"), indent=1), encoding="utf-8")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    options = dict(zip(LETTERS, row["options"] or [], strict=False))
    shared = {name: row[name] for name in ("question", "answer")}
    return {"index": row["id"], **shared, **options, "category": "pictures", "prediction": row["reply"]}


def _verdict(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    reply, answer = row["reply"], row["answer"]
    if kind == "choice":
        read = _letter(reply, row["options"])
        return {"hit": int(read == answer), "log": f"Match Log: {read}"}
    if kind == "yes-no":
        named = {"yes", "no"} & set(re.findall(r"\w+", reply.lower()))
        read = named.pop().capitalize() if len(named) == 1 else "Unknown"
        return {"extracted": read, "score": read.lower() == answer}
    is_match = reply.strip().lower() == answer
    if kind == "number" and re.fullmatch(r"\d+\.?\d*", reply.strip()):
        is_match = abs(float(reply) - float(answer)) <= 0.05 * float(answer)
    return {"eval_gt": answer, "eval_pred": reply, "eval_match": [is_match], "eval_score": float(is_match)}


def _letter(reply: str, options: list[str]) -> str:
    """Return the only letter that is a word of the reply, else the letter of the only option that it holds."""
    named = {letter for letter in LETTERS if letter in re.sub(r"[.()\[\],:;!*#{}]", " ", reply).split()}
    if len(named) != 1:
        named = {letter for letter, text in zip(LETTERS, options, strict=False) if text in reply.lower()}
    return named.pop() if len(named) == 1 else "Z"


if __name__ == "__main__":
    main()
