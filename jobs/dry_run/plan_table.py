"""Tables of `--dry-run`: requests, hardware, times and price."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cluster.connection import connect
from cluster.hardware import local_gpus
from cluster.placement import gpus_of_nodes
from cluster.scheduling.gpu_scheduler import Fleet, ModelWorkload, lower_bound, run_schedule
from cluster.scheduling.simulator import simulate
from jobs.dry_run.helper_models import Helper, captioners, format_hours, judges, placement_for, placement_summary
from jobs.shared.output import print_json, print_line, print_result, results_only_on_stdout, table
from models.availability import unavailable_reason
from models.engine_choice import repeated_prefix_reason
from models.spec import ModelSpec
from pipelines.plan.context import SweepContext, plans_of_all_sets
from pipelines.plan.cost_model import model_workload, model_workloads, planned_dollars, prompt_tokens, saved_tokens
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import placeholder_captions, plan_sweep
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.storage.store import Store
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.predictions_file import read_answers
from pipelines.sweep.record import sweep_entries
from pipelines.sweep.revisions import keep_revisions
from pipelines.sweep.status import count_entry, has_same_data


def show_plan(
    spec: RunSpec, plans: Mapping[str, Sequence[ModelPlan]], helpers: Sequence[Helper] = (), *, as_json: bool
) -> None:
    """Print what a run would do: requests, groups, tokens, GPUs and price; of models, captioners and the judge."""
    rows = [
        {**_plan_row(spec.models[model], model, plan), **_prompt_set(spec, plan)}
        for model, model_plans in plans.items()
        for plan in model_plans
    ]
    helper_plan_rows = helper_rows(helpers)
    times = schedule_summary(spec, plans)
    if as_json:
        until = {"until": str(spec.until)} if spec.until else {}
        print_json({"plan": rows, "helpers": helper_plan_rows, "schedule": times, **until})
        return
    for row in rows:
        names = [row["prompts"]] if "prompts" in row else []
        names += [f"captions of {row['captioner']}"] if "captioner" in row else []
        row["benchmark"] += f" ({', '.join(names)})" if names else ""
    heads = (
        *("model", "benchmark", "requests", "to do", "calls", "media groups", "prompt tokens", "computed at least"),
        *("GPUs", "GPU GB", "price"),
    )
    print_line(table(heads, [[_format(row[key]) for key in _PLAN_KEYS] for row in (*rows, *helper_plan_rows)]))
    groups = [[row["model"], row["benchmark"], *group] for row in rows for group in row["cells"]]
    print_line("")
    print_line(table(("model", "benchmark", "task", "setting", "requests", "to do"), groups))
    print_line("")
    for model, model_spec in {**spec.models, **{helper.name: helper.spec for helper in helpers}}.items():
        print_line(f"{model}: {engine_summary(model_spec)}")
    for model, model_plans in plans.items():
        for plan in model_plans[:1]:
            placement = placement_summary(spec.models[model], plan)
            if placement:
                print_line(f"{model}: {placement['words']}")
    if times:
        print_line("")
        _print_times(times)
    for model, hours in _offload_hours(rows).items():
        time = format_hours(hours)
        print_line(f"{model}: moving offloaded weights takes {time} or more in all, which no time above includes.")
    _print_dollars([*rows, *helper_plan_rows])
    if spec.until:
        print_line(
            f"--until {spec.until}: this is the whole plan, the most that is asked; the run stops earlier where "
            "its answers suffice."
        )
    print_line(
        "Nothing was run. Tokens are estimates: 3.5 characters a token; 28 x 28 pixels a token, two frames deep, or "
        "the `tokens_per_picture` of an entry."
    )


def _print_dollars(rows: Sequence[Mapping[str, Any]]) -> None:
    priced = [row for row in rows if row["price_usd"] is not None]
    if not priced:
        return
    least = [row["price_usd"] if row["price_cached_usd"] is None else row["price_cached_usd"] for row in priced]
    most = sum(row["price_usd"] for row in priced)
    cached = f" (${sum(least):,.2f} with providers' caches)" if sum(least) < most else ""
    unpriced = ", ".join(dict.fromkeys(row["model"] for row in rows if row["price"] == "no price given"))
    without = f", without {unpriced} (no price given)" if unpriced else ""
    print_line(
        f"Endpoints: about ${most:,.2f} together{cached}{without}; providers count pictures in ways of their own."
    )


def engine_summary(spec: ModelSpec) -> str:
    """Describe the engine that would run a model, and why it was chosen or is not available here."""
    mode = f"in batches, within {spec.batch_window}" if spec.batch else ""
    repeated = repeated_prefix_reason(spec) if spec.runs_locally else ""
    again = f"clips and pictures are paid for with every question: {repeated}" if repeated else ""
    unavailable = unavailable_reason(spec)
    reasons = [mode, spec.engine_reason, again, f"cannot run here: {unavailable}" if unavailable else ""]
    return "; ".join([f"engine {spec.engine}", *(reason for reason in reasons if reason)])


def _prompt_set(spec: RunSpec, plan: ModelPlan) -> dict[str, str]:
    """Return the set of prompts of a plan where a benchmark is asked in named sets, and of several captioners whose."""
    name = plan.prompts.benchmark_name
    sets = spec.versions_by_set(name) if name in spec.prompt_sets else {}
    matching_sets = (chosen for chosen, versions in sets.items() if versions == plan.prompts.prompt_versions)
    prompts = plan.prompts.stress or next(matching_sets, "")
    captioner = plan.prompts.captioner_name if len(spec.captioners) > 1 and plan.prompts.has_captions else ""
    return {**({"prompts": prompts} if prompts else {}), **({"captioner": captioner} if captioner else {})}


def helper_rows(helpers: Sequence[Helper]) -> list[dict[str, Any]]:
    """Return rows of captioners and the judge, like those of models."""
    return [
        {
            **_plan_row(helper.spec, f"{helper.name} ({helper.description})", helper.plan),
            "role": helper.role,
            "name": helper.name,
        }
        for helper in helpers
    ]


def _offload_hours(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the hours for which weights of offloaded models are moved, by model."""
    hours: dict[str, float] = {}
    for row in rows:
        if row["placement"] and (offload := row["placement"]["offload"]):
            hours[row["model"]] = hours.get(row["model"], 0.0) + offload["hours"]
    return hours


def _print_times(times: Mapping[str, Any]) -> None:
    if not times["gpus"]:
        print_line(f"No GPU: {times['on']}. Models that can run on CPUs do; their time is unknown.")
        return
    gpus = "one GPU" if times["gpus"] == 1 else f"{times['gpus']} GPUs"
    if times["on"] == ASSUMED:
        print_line(
            f"Here: no GPU. Models that fit run on the CPU, in an unknown time. Estimate for {gpus} (assumed H100):"
        )
    heads = ("model", "GPUs per replica", "starts (min)", "ends (min)", "loads", "GPU hours")
    rows = [
        [
            *(m["model"], m["gpus_a_replica"], f"{m['begins_s'] / 60:.0f}", f"{m['ends_s'] / 60:.0f}"),
            *(m["loads"], m["gpu_hours"]),
        ]
        for m in times["models"]
    ]
    print_line(table(heads, rows))
    for name in times["unplaced"]:
        print_line(f"{name}: no node can hold a replica.")
    print_line(
        f"On {gpus} ({times['on']}), as a run schedules it: {times['hours']:.2f} h (no schedule beats "
        f"{times['bound_hours']:.2f}), {times['gpu_hours']:.1f} GPU hours, ${times['price_usd']:,.2f} at "
        f"${times['gpu_hour_usd']} an hour. Speeds of an H100 are assumed; captioners and judges are not included."
    )


_PLAN_KEYS = (
    *("model", "benchmark", "requests", "to_do", "calls", "media_groups"),
    *("prompt_tokens", "least_tokens", "gpus", "gpu_gb", "price"),
)


def _format(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plan_row(spec: ModelSpec, model: str, plan: ModelPlan) -> dict[str, Any]:
    local, uses_gpu = spec.runs_locally, spec.can_use_gpu
    placed = placement_for(spec, plan) if uses_gpu else None
    price = dollars = cached_dollars = None
    if billed := spec.billed_price:
        dollars = planned_dollars(plan, spec, billed)
        price = f"about ${dollars:,.2f}"
        if spec.reads_cache:
            cached_dollars = planned_dollars(plan, spec, billed, is_cached=True)
            price += f" (${cached_dollars:,.2f} where the provider's cache holds what requests share)"
        price += f" at prices of {billed.as_of}" if billed.as_of else ""
        price += f", {spec.batch_price_factor:g} of the list price" if spec.batch else ""
    return {
        "model": model,
        "benchmark": plan.prompts.benchmark_name,
        "engine": spec.engine,
        "engine_reason": spec.engine_reason or None,
        "cannot_run_here": unavailable_reason(spec) or None,
        "batch": spec.batch,
        "requests": plan.total,
        "to_do": plan.to_do,
        "calls": plan.calls,
        "media_groups": plan.groups,
        "prompt_tokens": prompt_tokens(plan, spec),
        "least_tokens": prompt_tokens(plan, spec) - saved_tokens(plan, spec),
        "gpus": spec.max_gpus,
        "gpu_gb": (float(f"{placed.bytes_per_gpu / 1e9:.3g}") if placed else "unknown") if uses_gpu else 0,
        "placement": placement_summary(spec, plan) if local else None,
        "price": price if price or local or spec.is_random else "no price given",
        "price_usd": dollars,
        "price_cached_usd": cached_dollars,
        "cells": [[task, setting, n, plan.pending[task, setting]] for (task, setting), n in plan.requests.items()],
    }


ASSUMED: Final = "assumed: no --address is given and no GPU is found here"
"""What the nodes are where there are none."""


def schedule(workloads: Sequence[ModelWorkload], fleet: Fleet, cost_limit: float | None = None) -> dict[str, Any]:
    """Simulate a sweep on a fleet as a run schedules it; with a cost limit models run one after the other.

    Of `unplaced` models no node can hold a replica: a run reports them and continues without them. `gpu_hours` are paid
    ones of the whole, and of computing of a model.
    """
    result = simulate(run_schedule(workloads, fleet.nodes, cost_limit), fleet)
    placed = sorted((work for work in workloads if work.name in result.ends), key=lambda work: result.starts[work.name])
    return {
        "hours": round(result.makespan_s / 3600, 3),
        "bound_hours": round(lower_bound(placed, fleet) / 3600, 3),
        "gpu_hours": round(result.paid_gpu_s / 3600, 2),
        "price_usd": round(result.price_usd, 2),
        "gpu_hour_usd": fleet.gpu_hour_usd,
        "unplaced": [work.name for work in workloads if work.gpus and work.units and work not in placed],
        "models": [
            {
                "model": work.name,
                "gpus_a_replica": work.gpus,
                "begins_s": round(result.starts[work.name], 2),
                "ends_s": round(result.ends[work.name], 2),
                "loads": result.loads[work.name],
                "gpu_hours": round(work.gpus * work.seconds / 3600, 2),
            }
            for work in placed
        ],
    }


def describe_fleet(
    address: str | None, workloads: Sequence[ModelWorkload], specs: Mapping[str, ModelSpec]
) -> tuple[Fleet, str]:
    """Return the nodes of a run, and what they are: the cluster's, at full scale if it autoscales, or this machine.

    Without a cluster or a local GPU, nodes are assumed: as few as fit all replicas of the model with the most GPUs, of
    eight GPUs each for several models.
    """
    if address:
        with results_only_on_stdout(), connect(address) as cluster:
            if nodes := cluster.max_gpu_nodes:
                return Fleet(gpus=sum(nodes), gpus_by_node=nodes), f"the cluster at {address} at full scale"
            return _running(gpus_of_nodes()), f"the cluster at {address} as it is"
    if gpus := len(local_gpus()):
        return _running([gpus]), "this machine"
    max_gpus = max(specs[work.name].max_gpus for work in workloads)
    node = max(8 if len(workloads) > 1 else 1, *(work.gpus for work in workloads))
    count = -(-max_gpus // node)
    fleet = Fleet(gpus=count * node, gpus_by_node=(node,) * count)
    return fleet, ASSUMED


def _running(nodes: Sequence[int]) -> Fleet:
    return Fleet(gpus=sum(nodes), gpus_by_node=tuple(nodes), node_start_s=0.0)


def schedule_summary(spec: RunSpec, plans: Mapping[str, Sequence[ModelPlan]]) -> dict[str, object] | None:
    """Return the schedule of the pending work, for a dry run; None if no model runs on local GPUs."""
    on_gpus = model_workloads(plans, spec.models)
    if not on_gpus:
        return None
    fleet, description = describe_fleet(spec.address, on_gpus, spec.models)
    if not fleet.nodes:
        return {"gpus": 0, "on": description, "models": []}
    workloads = [
        model_workload(name, model_plans, spec.models[name])
        for name, model_plans in plans.items()
        if any(plan.units for plan in model_plans)
    ]
    result = schedule(workloads, fleet, spec.cost_limit)
    rows = [_replica_row(row, spec.models[row["model"]]) for row in result["models"]]
    return {"gpus": fleet.gpus, "on": description, **result, "models": rows}


def _replica_row(row: dict[str, Any], spec: ModelSpec) -> dict[str, Any]:
    """Return a model's row for its replicas: a schedule counts those that share a GPU as one."""
    per_gpu = spec.replicas_per_gpu
    return row if per_gpu == 1 else {**row, "gpus_a_replica": spec.replica_gpus, "loads": row["loads"] * per_gpu}


def show_stages(spec: RunSpec, stages: Collection[Stage], *, as_json: bool) -> None:
    """Print what these stages would do; plans that the output lacks are written to a temporary folder."""
    out = Store(spec.out)
    earlier = load_run(out)
    spec = keep_revisions(spec, earlier)
    with PlanStore.reading(out) as plans:
        context = SweepContext(spec=spec, out=out, plans=plans)
        new_entries = sweep_entries(spec, [b for model in spec.models for b, _ in context.model_targets(model)])
        merged = merge_entries(earlier.entries, new_entries)
        entries = [entry for entry in merged if has_same_data(entry, context.datasets)]
        if Stage.PREDICT in stages:
            helpers = captioners(context)
            helpers += judges(context, entries, pending=new_entries) if Stage.SCORE in stages else []
            show_plan(spec, plan_sweep(context, placeholder_captions), helpers, as_json=as_json)
        else:
            helpers = judges(context, entries) if Stage.SCORE in stages else []
            _show_counts(context, entries, helpers, stages, as_json=as_json)
    if not as_json:
        for sentence in dropped_from_report(earlier.entries, new_entries):
            print_line(sentence)


def _show_counts(
    context: SweepContext,
    entries: Sequence[ManifestEntry],
    helpers: Sequence[Helper],
    stages: Collection[Stage],
    *,
    as_json: bool,
) -> None:
    groups = [
        group
        for entry in entries
        for group in count_entry(
            context.out, entry, plans_of_all_sets(entry, context.out, context.plans, context.datasets)
        )
    ]
    if as_json:
        print_json({"cells": groups, "helpers": helper_rows(helpers)})
        return
    heads = ("model", "benchmark", "task", "setting", "requests", "done", "failed", "pending")
    print_line(table(heads, [[group[head] for head in heads] for group in groups]))
    for row in helper_rows(helpers):
        print_line(f"{row['model']}, {row['benchmark']}: {row['calls']:,} calls, {row['price'] or 'no price'}")
    if Stage.SCORE not in stages:
        print_line("Nothing was run. What is done or failed would be reported.")
        return
    for name in sorted({entry.benchmark for entry in entries}):
        scorers = ", ".join(f"{scorer.kind}={scorer.model}" for scorer in context.spec.scorers_for(name))
        print_line(f"{name}: scored by rules" + (f" and {scorers}" if scorers else ""))
    print_line("Nothing was run. What is done or failed would be scored; scores that are up to date are kept.")


def show_file(spec: RunSpec, path: Path, *, tool: str | None = None, as_json: bool) -> None:
    """Print how many answers of a file would be scored; UsageError for an unusable file."""
    heads = ("benchmark", "model", "task", "setting", "answers")
    with AnswerSpool.temporary() as answers:
        read_answers(spec, path, answers, tool)
    rows = [dict(zip(heads, (*group, count), strict=True)) for group, count in sorted(answers.counts.items())]
    rejected = answers.rejections
    text = (
        f"Nothing was run. {len(rejected)} rows of {path} cannot be used. Whether the samples of the others exist, and "
        "which --limit and --sample-id select, is checked when they are scored."
    )
    lines = [[row[head] for head in heads] for row in rows]
    print_result(as_json, {"answers": rows, "rejected": len(rejected)}, table(heads, lines), text)
