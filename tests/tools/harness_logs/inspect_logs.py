"""Write Inspect's logs of the common set, by its own `eval`: run by a Python that has `inspect-ai`.

python inspect_logs.py QUESTIONS.jsonl FOLDER
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice, exact, match
from inspect_ai.solver import generate, multiple_choice

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def main() -> None:
    """Evaluate the four kinds, each as a user of Inspect would."""
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    folder = Path(sys.argv[2])
    picture = f"data:image/png;base64,{base64.b64encode(_PIXEL).decode()}"
    by_question = {row["question"]: row["reply_line"] for row in rows}

    def answer(messages, tools, tool_choice, config):
        text = messages[-1].text
        reply = next(reply for question, reply in by_question.items() if question in text)
        output = ModelOutput.from_content("mockllm/planted", reply)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else a tokenizer is fetched
        return output

    tasks = []
    for kind in ("choice", "yes-no", "text", "number"):
        samples = [
            Sample(
                id=row["id"],
                input=[ChatMessageUser(content=[ContentImage(image=picture), ContentText(text=row["question"])])],
                choices=row["options"],
                target=row["answer"],
            )
            for row in rows
            if row["kind"] == kind
        ]
        solver, scorer = {
            "choice": (multiple_choice(), choice()),
            "yes-no": (generate(), match(location="begin")),
            "text": (generate(), exact()),
            "number": (generate(), match(numeric=True)),
        }[kind]
        tasks.append(Task(dataset=MemoryDataset(samples), solver=solver, scorer=scorer, name=f"pictures-{kind}"))
    model = get_model("mockllm/planted", custom_outputs=answer)
    options = {"model": model, "log_images": False, "display": "none", "log_dir": str(folder / "whole")}
    for log in inspect_ai.eval(tasks, **options):
        for sample in log.samples:
            sample.events, sample.events_data = [], None  # nine tenths of a log
        write_eval_log(log, str(folder / "eval" / f"{log.eval.task}.eval"))
    write_eval_log(log, str(folder / "json" / f"{log.eval.task}.json"))


if __name__ == "__main__":
    main()
