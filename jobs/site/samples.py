"""The samples of a site: items with all models' answers, as scripts that hand JSON to the page."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipelines.clean_text import clean
from pipelines.errors import UsageError
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.samples.prompts import ShownSteps, last_paragraph, question_of, unshown
from pipelines.samples.rows import ExportRow

MAX_ROWS: Final = 200_000
CHUNK_BYTES: Final = 400_000  # of a script: the first list waits for one alone
MAX_BYTES: Final = 28_000_000  # of all scripts, where texts can be cut to keep within it
TEXT_LIMITS: Final = (4_000, 2_000, 1_000, 500, 250)  # characters of a text: the first that keeps within `MAX_BYTES`
_LINE: Final = 240  # characters of the question in a list
_TEXTS: Final = ("prompt", "output", "reasoning", "read")
_LISTS: Final = ("expected", "steps")
_KEY: Final = ("benchmark", "task", "setting", "variant", "sample_id", "prompt_set")

Text = str | tuple[str, int]  # a text, or its beginning and the number of characters that were cut


class Samples:
    """Items in the order of the plan: what several models were asked, and their answers."""

    def __init__(self) -> None:
        self.models: dict[str, int] = {}
        self.rows = 0
        self._items: dict[tuple[str, ...], dict[str, Any]] = {}

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items."""
        return list(self._items.values())

    def values(self, name: str) -> list[str]:
        """Return the values of a column of the items, each once."""
        return list(dict.fromkeys(item[name] for item in self._items.values() if item[name]))

    def add(self, row: ExportRow, entry: ManifestEntry, media: Sequence[dict[str, str]]) -> None:
        """Add one answer; UsageError when there are more than a page can hold."""
        self.rows += 1
        if self.rows > MAX_ROWS:
            raise UsageError(f"more than {MAX_ROWS:,} answers; choose some with --models and --benchmarks")
        planned, sample = row.planned, row.sample
        identity = (entry.benchmark, planned.task, planned.setting, planned.variant, sample.sample_id, row.prompt_set)
        prompt = _cut(_prompt(row.steps), TEXT_LIMITS[0])
        item = self._items.setdefault(
            (*identity, entry.prompts.dataset_fingerprint),
            {
                **{name: clean(value) for name, value in zip(_KEY, identity, strict=True)},
                "category": clean(sample.category),
                "prompt": prompt,
                "line": clean(last_paragraph(question_of(row.steps, sample))[:_LINE]),
                "expected": [_cut(text, TEXT_LIMITS[0]) for text in row.expected],
                "media": media,
                **({"unshown": text} if (text := unshown(row.steps, sample)) else {}),
                "answers": [],
            },
        )
        answer = _answer(row)
        answer["model"] = self.models.setdefault(clean(entry.model), len(self.models))
        if prompt != item["prompt"]:
            answer["prompt"] = prompt
        item["answers"].append({name: value for name, value in answer.items() if value not in ("", [])})

    def scripts(self) -> tuple[int, list[tuple[int, bytes]]]:
        """Return the limit of texts, and each script with the number of its first item."""
        for limit in TEXT_LIMITS:
            items = [_json(_with_limit(item, limit)) for item in self._items.values()]
            if sum(map(len, items)) <= MAX_BYTES:
                break
        return limit, list(_scripts(items))


def _answer(row: ExportRow) -> dict[str, Any]:
    """Return what came back. Messages of errors stay out: they may hold keys and paths."""
    prediction, scores = row.prediction, row.scores or {}
    is_ok = prediction["status"] == "ok"
    fields = {"output": prediction["output"], "reasoning": prediction.get("reasoning"), "read": scores.get("answer")}
    return {
        "outcome": outcome_of(row),
        "error": "" if is_ok else clean(prediction.get("error_type") or ""),
        **{name: _cut(text or "", TEXT_LIMITS[0]) for name, text in fields.items()},
        "steps": [_cut(text, TEXT_LIMITS[0]) for text in (prediction.get("steps") or ())[:-1]],
        "scores": [[clean(name), f"{value:.4g}"] for name, value in row.values.items() if value is not None],
    }


def outcome_of(row: ExportRow) -> str:
    """Return how an answer counts: a name of `jobs.view.filters.OUTCOMES`."""
    if row.prediction["status"] != "ok":
        return str(row.prediction["status"])
    if row.scores is None:
        return "none"
    if row.scores.get("answer") is None:
        return "unread"
    correct = row.values.get("correct", row.values.get("accepted"))
    if correct is None:
        return "none"
    return "right" if correct >= 0.5 else "wrong"


def _prompt(steps: ShownSteps) -> str:
    """Return a prompt as text; media are shown beside it, and each model has its own answers to earlier steps."""
    turns = []
    for step in steps:
        for role, parts in step:
            texts = [part.text if part.step is None else f"[answer {part.step + 1}]" for part in parts]
            named = zip(parts, texts, strict=True)
            text = "".join(f"[{part.media.kind}] " if part.media else text for part, text in named)
            turns.append(text if role == "user" else f"[{role}] {text}")
    return "\n\n".join(turns)


def _cut(text: Text, limit: int) -> Text:
    """Clean a text and cut it; the number of characters cut stays with it."""
    shown, cut = (text[: limit + 1], max(0, len(text) - limit - 1)) if isinstance(text, str) else text
    if len(shown) <= limit:
        return clean(shown) if not cut else (shown, cut)
    return clean(shown[:limit]), cut + len(shown) - limit


def _with_limit(fields: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return an item or an answer with its texts cut."""
    return {
        **fields,
        **{name: _cut(fields[name], limit) for name in _TEXTS if name in fields},
        **{name: [_cut(text, limit) for text in fields[name]] for name in _LISTS if name in fields},
        **{name: [_with_limit(each, limit) for each in fields[name]] for name in ("answers",) if name in fields},
    }


def _json(value: object) -> bytes:
    """Return JSON that ends no element and no line of a script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "replace")


def _scripts(items: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    first, size = 0, 0
    for number, item in enumerate(items):
        if size and size + len(item) > CHUNK_BYTES:
            yield first, _script(first, items[first:number])
            first, size = number, 0
        size += len(item)
    if items:
        yield first, _script(first, items[first:])


def _script(first: int, items: Sequence[bytes]) -> bytes:
    return b"siteItems(%d,[%s]);\n" % (first, b",\n".join(items))
