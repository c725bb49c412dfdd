"""Write lm-evaluation-harness's logs of the common set, by its own evaluator: run by a Python that has `lm-eval`.

python lm_eval_logs.py QUESTIONS.jsonl FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.evaluator import simple_evaluate
from lm_eval.loggers import EvaluationTracker

_LETTER = "(?:^|answer is |\\n)\\s*\\(?([A-D])\\)?(?:[.):]|\\s|$)"  # as lm-eval's own multiple-choice tasks take it
_WORDS = {"ignore_case": True, "ignore_punctuation": True, "regexes_to_ignore": ["\\b(?:the|a|an) "]}


class Planted(LM):
    """A model that gives the planted replies."""

    MULTIMODAL = True

    def __init__(self, replies: dict[str, str]) -> None:
        super().__init__()
        self._replies = replies

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return the reply to each question."""
        return [next(text for q, text in self._replies.items() if q in request.args[0]) for request in requests]

    def loglikelihood(self, requests, disable_tqdm=False):
        """Refuse: no task asks for it."""
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def main() -> None:
    """Evaluate the four kinds, each as a user of lm-eval would."""
    questions, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    folder.mkdir(parents=True, exist_ok=True)
    tracker = EvaluationTracker(output_path=str(folder))
    tasks = []
    for kind in ("choice", "yes-no", "text", "number"):
        names = ("id", "question", "options", "answer")
        data = folder / f"{kind}.jsonl"
        lines = [json.dumps({name: row[name] for name in names if row[name]}) for row in rows if row["kind"] == kind]
        data.write_text("\n".join(lines), encoding="utf-8")
        tasks.append(_task(kind, data))
    results = simple_evaluate(
        model=Planted({row["question"]: row["reply"] for row in rows}),
        tasks=tasks,
        log_samples=True,
        bootstrap_iters=0,
        confirm_run_unsafe_code=False,
    )
    samples = results.pop("samples")
    tracker.general_config_tracker.log_experiment_args(
        model_source="hf-multimodal",
        model_args="pretrained=lab/planted",
        system_instruction="",
        chat_template="",
        fewshot_as_multiturn=False,
    )
    tracker.save_results_aggregated(results=results, samples=samples)
    for name, of_task in samples.items():
        tracker.save_results_samples(task_name=name, samples=of_task)


def _task(kind: str, data: Path) -> dict:
    """Return a task as its YAML file would describe it."""
    options = "{{question}}\n{% for option in options %}{{'ABCD'[loop.index0]}}. {{option}}\n{% endfor %}"
    metric = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, **_WORDS}
    filters = {
        "choice": [{"name": "letter", "filter": [_regex(_LETTER), {"function": "take_first"}]}],
        "yes-no": [{"name": "word", "filter": [_regex("(?i)^\\W*(yes|no)\\b"), {"function": "take_first"}]}],
        "text": [{"name": "none", "filter": [{"function": "take_first"}]}],
        "number": [{"name": "flexible-extract", "filter": [_regex("(-?[0-9][0-9,]*)"), {"function": "take_first"}]}],
    }
    return {
        "task": f"pictures_{kind}",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": (options if kind == "choice" else "{{question}}\n") + "Answer:",
        "doc_to_target": "answer",
        "metric_list": [metric],
        "filter_list": filters[kind],
        "generation_kwargs": {"until": ["\n\n\n"], "max_gen_toks": 64},
        "metadata": {"version": 1},
    }


def _regex(pattern: str) -> dict:
    return {"function": "regex", "regex_pattern": pattern, "group_select": -1}


if __name__ == "__main__":
    main()
