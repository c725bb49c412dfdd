"""`vlmsweep doctor`: what this machine or a cluster can run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Address, Json, ModelsFiles, Verbose, names, refuse
from jobs.shared.output import print_result, results_only_on_stdout, table
from pipelines.flags import Flag


@listed("Set up", "doctor --models qwen2.5-vl-7b")
def doctor(
    models: Annotated[str | None, Flag("Only these; exit code 3 if one cannot run.", "Models", kind="models")] = None,
    models_file: ModelsFiles = None,
    data: Annotated[
        str | None, Flag("A location that must be reachable and writable.", "Data", kind="location")
    ] = None,
    out: Annotated[str | None, Flag("Another such location.", "Output", kind="location")] = None,
    eyes: Annotated[str | None, Flag("Only ask MODEL what it sees of drawn pictures and clips.", kind="models")] = None,
    address: Address = None,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Report what this machine or cluster can run; exit code 3 if something requested cannot."""
    from jobs.doctor import ok, run_checks
    from models.catalog_loader import load_models, select_models
    from models.environment import ray_address
    from models.selectors import add_direct_models, direct_name

    if eyes:
        refuse({"models": models, "data": data, "out": out, "address": address}, "--eyes checks nothing else")
        return _show_vision_probe(eyes, models_file or [], as_json=json)
    words = names(models)
    known = add_direct_models(words, load_models(models_file or []))
    chosen = select_models(map(direct_name, words), known) if words else known
    locations = [location for location in (data, out) if location]
    with results_only_on_stdout():
        results = run_checks(chosen, named=bool(words), locations=locations, address=address or ray_address())
    shown = [result for result in results if words or verbose or result.what not in chosen]
    lines = [f"{result.state:>4}  {result.what}: {result.detail}" for result in shown]
    if len(shown) < len(results):
        able = sum(result.state == "ok" for result in results if result.what in chosen)
        lines.append(f"{able} of {len(chosen)} models can run here; `vlmsweep list models` says which, and why not")
    print_result(json, {"ok": ok(results), "findings": [asdict(result) for result in results]}, *lines)
    return 0 if ok(results) else 3


def _show_vision_probe(name: str, models_files: Sequence[Path], *, as_json: bool) -> int:
    from jobs.shared.model_checks import checked_model
    from jobs.vision_probe.run import HEADS, look, rows

    name, spec = checked_model(name, models_files)
    with results_only_on_stdout():
        findings = look(name, spec)
    result = {"model": name, "findings": [asdict(finding) for finding in findings]}
    print_result(as_json, result, table(HEADS, rows(findings)))
    return 0
