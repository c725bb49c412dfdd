"""References of what is read and written: models files, the catalog, Parquet columns, metrics."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel

from infra.docs.markdown import code, explanations, page, table
from models.catalog_loader import load_models
from models.spec import ModelSpec
from pipelines.schemas import COLUMNS


def columns_page() -> str:
    """Return the page of Parquet columns and of the keys of metrics.json."""
    path = "`{}/benchmark=B/model=M/*.parquet`: one row per request."
    abouts = {
        "predictions": path.format("predictions"),
        "scores": path.format("scores"),
        "metrics": "`report/metrics.json`: a list of objects with these keys.",
    }
    parts = []
    for name, about in abouts.items():
        columns = [column for column in COLUMNS if column.table == name]
        rows = [(code(each.name), code(each.type), each.unit, each.meaning) for each in columns]
        header = ("column", "type", "unit", "meaning")
        if name == "metrics":
            rows, header = [(row[0], row[3]) for row in rows], ("key", "meaning")
        parts += [f"## {'metrics.json' if name == 'metrics' else name.title()}", about, table(header, rows)]
    return page("Columns", *parts)


def metrics_page() -> str:
    """Return the page of the metrics of all benchmarks."""
    about = (
        "The names in the column `metric` of `metrics.json`. `*` stands for any text, such as a number or a setting; "
        "intervals are in `ci_low` and `ci_high`."
    )
    parts = [about]
    for name, metrics in explanations("metrics").items():
        parts += [f"## {name}", metric_table(metrics)]
    return page("Metrics", *parts)


def metric_table(metrics: Mapping[str, str]) -> str:
    """Return a table of metrics and what they measure."""
    return table(("metric", "meaning"), [(code(name), text) for name, text in metrics.items()])


def models_file_page() -> str:
    """Return the page of the keys of a models file."""
    about = (
        "A models file is YAML: a name, then these keys. The catalog has the same form. An unknown key is an error "
        "that names the nearest known one."
    )
    parts = [about, _keys(ModelSpec)]
    for record in nested(ModelSpec):
        parts += [f"## {_titles()[record]}", inspect.cleandoc(record.__doc__ or ""), _keys(record)]
    return page("Models file", *parts)


def _titles() -> dict[type[BaseModel], str]:
    """Return record -> the key that holds it."""
    return {record: name for name, field in ModelSpec.model_fields.items() for record in _records(field.annotation)}


def nested(record: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the records inside a record."""
    return [item for field in record.model_fields.values() for item in _records(field.annotation)]


def _records(annotation: Any) -> list[type[BaseModel]]:
    options = (annotation, *get_args(annotation))
    return [item for item in options if isinstance(item, type) and issubclass(item, BaseModel)]


def _keys(record: type[BaseModel]) -> str:
    texts = field_texts(record)
    rows = []
    for name, field in record.model_fields.items():
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        rows.append((code(name), texts[name], default))
    return table(("key", "meaning", "default"), rows)


def _default(value: object) -> str:
    return "" if value is None or isinstance(value, BaseModel) or value in ("", (), {}) else code(value)


def field_texts(record: type[BaseModel]) -> dict[str, str]:
    """Return field -> its explanation: of `models_file.yaml`, else the comment or text beside it in the source."""
    parents = (part for part in reversed(record.__mro__) if issubclass(part, BaseModel) and part is not BaseModel)
    beside = {name: text for part in parents for name, text in _source_texts(part).items()}
    given = explanations("models_file").get(record.__name__, {})
    return {name: given.get(name) or beside.get(name, "") for name in record.model_fields}


def _source_texts(record: type[BaseModel]) -> dict[str, str]:
    source = inspect.getsource(record)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (body,) = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    texts: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        texts[node.target.id] = str(after.value.value) if is_text else comments.get(node.end_lineno or 0, "")
    return texts


def catalog_page() -> str:
    """Return the page of the models that are known by name."""
    rows = [
        (
            code(name),
            code(entry.model),
            "local" if entry.runs_locally else "endpoint" if entry.is_endpoint else "guesses",
            entry.parameters_b or "",
            entry.license or "",
            ", ".join(entry.papers),
            "withdrawn" if entry.withdrawn else "not run as listed" if entry.unsupported else "",
        )
        for name, entry in sorted(load_models().items())
    ]
    about = (
        "Models that `--models` knows by name. `vlmsweep list models` says which of them this machine can run; keys of "
        "an entry are on the page [models file](models-file.md)."
    )
    heads = ("model", "weights or endpoint", "runs", "parameters, 10⁹", "license", "papers", "remark")
    return page("Catalog", about, table(heads, rows))
