"""Render each page: read the query string, query the index and the outputs, fill in a template."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request

from jobs.view.detail import CHANGES, changes_by_model, find_difference, load_detail, metric_changes, pair_of
from jobs.view.index import Index, Row, benchmark_table, benchmark_tables, category_rows
from jobs.view.listing import JUDGED, SORTS, Filter, Item, Samples
from jobs.view.loading import Loader
from pipelines.benchmarks.records import Sample
from pipelines.errors import DatasetError
from pipelines.ingest.dataset import Dataset
from pipelines.rendering.environment import environment
from pipelines.samples.media import MediaReader, ReportFile, report_file
from pipelines.samples.outputs import OUTCOMES, Output, by_label
from pipelines.samples.prompts import SampleReader

_SHOWN: Final = 8_000  # characters of one text on a page; its whole is at an address of its own
_FOLDED: Final = 900  # characters beyond which the rest is folded
_LIMITS: Final = {"page": 10_000_000, "at": 100_000_000}


class Pages:
    """Renders pages from outputs."""

    def __init__(self, outputs: Sequence[Output], index: Index, loader: Loader, media: MediaReader) -> None:
        self._outputs, self._index, self._loader, self.media = outputs, index, loader, media
        self._samples, self._reader = Samples(index, outputs), SampleReader()

    def overview(self, request: Request) -> str:
        """Return the first page: the headline of every benchmark."""
        tables = benchmark_tables(self._outputs)
        every = [row for table in tables for row in table.rows]

        def across(out: str, model: str) -> list[Row | None]:
            return [next((row for row in table.rows if (row.out, row.model) == (out, model)), None) for table in tables]

        is_guess = {
            (row.out, row.model): row.origin == "baseline" for row in every if row.origin in ("ours", "baseline")
        }
        ours = sorted(is_guess, key=is_guess.__getitem__)
        compared = dict.fromkeys((row.model, row.note) for row in every if not row.out)
        return self._render(
            request,
            "overview.html.j2",
            tables=tables,
            matrix=[(*key, across(*key)) for key in ours],
            references=[(model, note, across("", model)) for model, note in sorted(compared, reverse=True)],
        )

    def benchmark(self, request: Request) -> str:
        """Return the page of a benchmark: any of its metrics, by setting and by category."""
        query = request.query_params
        table = benchmark_table(self._outputs, query.get("name", ""), query.get("metric", ""))
        chosen = (query.get("task", ""), query.get("setting", ""))
        column = chosen if chosen in table.columns else table.main or next(iter(table.columns), None)
        categories, rows = category_rows(self._outputs, table.name, table.metric, column) if column else ([], [])
        return self._render(
            request, "benchmark.html.j2", table=table, column=column, categories=categories, category_rows=rows
        )

    def samples(self, request: Request) -> str:
        """Return a page of the list."""
        chosen = Filter.parse(request.query_params)
        self._loader.loaded.wait(1.0)
        listing = self._samples.page(chosen, _number(request, "page"))
        self._samples.add_briefs(listing.items, self._reader)
        return self._render(
            request,
            "samples.html.j2",
            chosen=chosen,
            listing=listing,
            choices=self._samples.choices(chosen),
            outcomes=OUTCOMES,
            judged=JUDGED,
            sorts=SORTS,
        )

    def sample(self, request: Request) -> str:
        """Return the page of one item."""
        query = request.query_params
        self._loader.loaded.wait(1.0)
        item = self._samples.item(query)
        if item is None:
            read_on = "" if self._loader.loaded.is_set() else " The outputs are still being read: reload soon."
            raise HTTPException(404, f"The outputs hold no answer to this sample.{read_on}")
        # The names of the filter of the list that the page came from begin with `in_`, unlike the item's own.
        within = {name.removeprefix("in_"): value for name, value in query.items() if name.startswith("in_")}
        chosen = Filter.parse(within)
        item.at = _number(request, "at")
        before, after = self._samples.neighbours(chosen, item.at) if "at" in query else (None, None)
        detail = load_detail(item, self._outputs, self._reader, self._index)
        return self._render(
            request,
            "sample.html.j2",
            chosen=chosen,
            detail=detail,
            before=before,
            after=after,
            outcomes=OUTCOMES,
            limit=_SHOWN,
            folded=_FOLDED,
        )

    def diff(self, request: Request) -> str:
        """Return what differs between two outputs."""
        query = request.query_params
        pair = pair_of(self._outputs, query.get("a", ""), query.get("b", ""))
        if pair is None:
            raise HTTPException(404, "A comparison needs two outputs: vlmsweep view OUT OUT.")
        change = query.get("change", "worse")
        change = change if change in CHANGES else "worse"
        self._loader.loaded.wait(1.0)
        difference = find_difference(self._index, *pair, change, _number(request, "page"))
        return self._render(
            request,
            "diff.html.j2",
            first=pair[0],
            second=pair[1],
            change=change,
            changes=CHANGES,
            outcomes=OUTCOMES,
            difference=difference,
            by_model=changes_by_model(difference),
            metrics=metric_changes(*pair),
        )

    def problem(self, request: Request, message: str) -> str:
        """Return a page that says why another cannot be shown."""
        return self._render(request, "problem.html.j2", message=message)

    def full_text(self, request: Request) -> str:
        """Return the whole answer of one model; a page shows its beginning alone."""
        query = request.query_params
        item = self._samples.item(query)
        for row in item.answers if item else ():
            if (self._outputs[row["out"]].label, row["model"]) == (query.get("out"), query.get("model")):
                return str(row["output"] or "")
        raise HTTPException(404, "there is no such answer")

    def report_file(self, request: Request) -> ReportFile:
        """Return a file of an output's report."""
        number, path = request.path_params["number"], request.path_params["path"]
        if number >= len(self._outputs):
            raise HTTPException(404, "there is no such output")
        root = request.scope.get("root_path", "")
        return report_file(self._outputs[number], path, lambda page, query: link(root, page, **query))

    def find_sample(self, out: str, benchmark: str, sample_id: str) -> tuple[Dataset, Sample]:
        """Return a sample with its data; DatasetError where an output knows none."""
        output = by_label(self._outputs).get(out)
        dataset = output.dataset(benchmark) if output else None
        sample = self._reader.find(dataset, sample_id) if dataset else None
        if dataset is None or sample is None:
            raise DatasetError(f"{benchmark} {sample_id}: no such sample, or its data are gone")
        return dataset, sample

    def _render(self, request: Request, template: str, **values: Any) -> str:
        root = request.scope.get("root_path", "")
        return str(
            environment("jobs.view")
            .get_template(template)
            .render(
                link=partial(link, root),
                item_query=item_query,
                outputs=self._outputs,
                reported=[output for output in self._outputs if output.has_report()],
                problems=[(output.label, problem) for output in self._outputs for problem in output.problems],
                loading=None if self._loader.loaded.is_set() else (self._loader.done, self._loader.total),
                **values,
            )
        )


def _number(request: Request, name: str) -> int:
    """Return a number of the query string; 0 where it is none."""
    text = request.query_params.get(name, "")
    return min(int(text), _LIMITS[name]) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def link(root: str, page: str, query: str = "", /, **values: Any) -> str:
    """Return an address below the key: `root` is `/` and the key."""
    more = urlencode({name: value for name, value in values.items() if value not in ("", None)})
    return f"{root}/{page}" + ("?" if query or more else "") + "&".join(part for part in (query, more) if part)


def item_query(item: Item, chosen: Filter) -> str:
    """Return the query of an item's page, with the list that it is in and its index there."""
    within = {f"in_{name}": value for name, value in chosen.values().items()}
    return urlencode({**item.identity(), "at": item.at, **within})
