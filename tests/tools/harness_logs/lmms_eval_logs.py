"""Write lmms-eval's logs of the common set, by its own evaluator: run by a Python that has `lmms-eval`.

python lmms_eval_logs.py QUESTIONS.jsonl FOLDER

The readers are those of four of its own tasks: MMStar, MME, VQAv2 and ChartQA.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.loggers import EvaluationTracker
from lmms_eval.tasks import TaskManager

_READERS = {
    "choice": ("mmstar", "mmstar_process_results", "average"),
    "yes-no": ("mme", "mme_process_results", "mme_perception_score"),
    "text": ("vqav2", "vqav2_process_results", "exact_match"),
    "number": ("chartqa", "chartqa_process_results", "relaxed_overall"),
}
_UTILS = """
from PIL import Image
from lmms_eval.tasks.{module}.utils import {function} as process
def doc_to_visual(doc):
    return [Image.new("RGB", (8, 8), "white")]
def doc_to_text(doc, lmms_eval_specific_kwargs=None):
    options = doc.get("options") or []
    lines = [doc["question"], *("ABCD"[n] + ". " + option for n, option in enumerate(options))]
    return "\\n".join([*lines, {asked!r}])
def process_results(doc, results):
    return process(dict(doc), results)
def average(results):
    return sum(result["score"] if isinstance(result, dict) else result for result in results) / len(results)
"""
_TASK = """
task: pictures_{kind}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: answer
process_results: !function utils.process_results
generation_kwargs: {{max_new_tokens: 64, temperature: 0, do_sample: false}}
metric_list:
  - metric: {metric}
    aggregation: !function utils.average
    higher_is_better: true
metadata:
  - version: 0.0
"""


class Planted(lmms):
    """A model that gives the planted replies."""

    def __init__(self, replies: dict[str, str]) -> None:
        super().__init__()
        self._replies = replies

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Return the reply to each question."""
        return [next(text for q, text in self._replies.items() if q in request.args[0]) for request in requests]

    def loglikelihood(self, requests):
        """Refuse: no task asks for it."""
        raise NotImplementedError

    generate_until_multi_round = loglikelihood


def main() -> None:
    """Evaluate the four kinds, each as a user of lmms-eval would."""
    questions, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    for kind, (module, function, metric) in _READERS.items():
        place = folder / "tasks" / kind
        place.mkdir(parents=True, exist_ok=True)
        instruction = "Answer with the letter of the option." if kind == "choice" else "Answer in a word or two."
        (place / "utils.py").write_text(_UTILS.format(module=module, function=function, asked=instruction))
        data = place / "data.jsonl"
        data.write_text("\n".join(json.dumps(_document(row)) for row in rows if row["kind"] == kind))
        (place / f"pictures_{kind}.yaml").write_text(_TASK.format(kind=kind, data=data, metric=metric))
    tracker = EvaluationTracker(output_path=str(folder))
    results = simple_evaluate(
        model=Planted({row["question"]: row["reply"] for row in rows}),
        tasks=[f"pictures_{kind}" for kind in _READERS],
        task_manager=TaskManager("ERROR", include_path=str(folder / "tasks")),
        evaluation_tracker=tracker,
        log_samples=True,
        bootstrap_iters=0,
    )
    samples = results.pop("samples")
    tracker.general_config_tracker.log_experiment_args(
        model_source="qwen2_5_vl",
        model_args="pretrained=lab/planted",
        system_instruction="",
        chat_template="",
        fewshot_as_multiturn=False,
    )
    tracker.save_results_aggregated(results=results, samples=samples, datetime_str="20260101_000000")
    for name, of_task in samples.items():
        tracker.save_results_samples(task_name=name, samples=of_task)


def _document(row: dict) -> dict:
    """Return a question with the columns that the readers take."""
    common = {"question_id": row["id"], "question": row["question"], "answer": row["answer"]}
    return {
        **common,
        **({"options": row["options"]} if row["options"] else {}),
        "index": row["id"],
        "category": "color",
        "l2_category": "colour",
        "type": "human_test",
        "answers": [{"answer": row["answer"], "answer_id": n} for n in range(10)],
    }


if __name__ == "__main__":
    main()
