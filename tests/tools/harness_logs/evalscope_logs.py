"""Write EvalScope's predictions and reviews of the common set by its own `run_task`, where `evalscope` is installed.

python evalscope_logs.py QUESTIONS.jsonl FOLDER

The readers are those of its General-VMCQ, POPE, VQAv2 and ChartQA.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from datasets import Dataset
from evalscope import TaskConfig, run_task
from evalscope.api.model import GenerateConfig, ModelAPI, ModelOutput

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
_TASKS = {  # kind -> benchmark of EvalScope, its subset, its split
    "choice": ("general_vmcq", "pictures", "val"),
    "yes-no": ("pope", "Full", "popular"),
    "text": ("vqav2", "default", "validation"),
    "number": ("chartqa", "default", "test"),
}


class Planted(ModelAPI):
    """A model that gives the planted replies."""

    def __init__(self, rows: list[dict]) -> None:
        super().__init__("planted", config=GenerateConfig())
        self._rows = rows

    def generate(self, input, tools, tool_choice, config):  # noqa: A002
        """Return the reply to a question, on a line `ANSWER:` where the prompt asks for it."""
        text = input[-1].text
        row = next(row for row in self._rows if row["question"] in text)
        is_asked = row["kind"] != "choice" and "ANSWER:" in text and row["reply"] != "I cannot see the picture."
        return ModelOutput.from_content("planted", f"ANSWER: {row['reply']}" if is_asked else row["reply_line"])


def main() -> None:
    """Evaluate the four kinds, each as a user of EvalScope would."""
    questions, folder = Path(sys.argv[1]), Path(sys.argv[2]).absolute()
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    for kind, (name, subset, split) in _TASKS.items():
        place = folder / "data" / kind
        place.mkdir(parents=True, exist_ok=True)
        of_kind = [row for row in rows if row["kind"] == kind]
        if kind == "choice":
            lines = [{n: row[n] for n in ("question", "options", "answer")} for row in of_kind]
            (place / f"{subset}.jsonl").write_text("\n".join(map(json.dumps, lines)))
        else:
            Dataset.from_list([_record(row) for row in of_kind]).to_parquet(place / f"{split}.parquet")
            files = {"split": split, "path": f"{split}.parquet"}
            card = {"configs": [{"config_name": subset, "data_files": [files]}]}
            (place / "README.md").write_text(f"---\n{json.dumps(card)}\n---\n")
        arguments = {"local_path": str(place), "subset_list": [subset if kind != "yes-no" else split]}
        if kind == "number":
            arguments["subset_list"] = ["human_test"]
        run_task(
            TaskConfig(
                model=Planted(rows),
                model_id="planted",
                datasets=[name],
                dataset_args={name: arguments},
                work_dir=str(folder),
                no_timestamp=True,
                eval_batch_size=1,
            )
        )


def _record(row: dict) -> dict:
    """Return a question with the columns that the adapters take."""
    return {
        "id": row["id"],
        "question_id": row["id"],
        "question": row["question"],
        "answer": row["answer"],
        "category": "pictures",
        "type": "human_test",
        "multiple_choice_answer": row["answer"],
        "answers": [{"answer": row["answer"], "answer_id": n} for n in range(10)],
        "image": {"bytes": _PIXEL, "path": None},
    }


if __name__ == "__main__":
    main()
