"""The help of a command, with its options in groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand

_GROUPS = {
    "Models": "models models_file trust_remote_code captioner text_models model key_env no_key batch",
    "Data": "data benchmarks tasks settings sample_ids prompts prompt_versions human column_map",
    "Judging": "judge scorers predictions",
    "Limits": "limit fail_on_error cost_limit budget_usd budget_hours refresh_days gpu_hour_usd idle_s",
    "Cluster": "address env submission_id pending_timeout wait_for_nodes entrypoint_num_cpus entrypoint_memory code "
    "follow stop host port",
    "Output": "out dry_run json verbose history summary to",
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names.split()}


class GroupedCommand(TyperCommand):
    """A command whose help lists arguments first, then options by group, then the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group that has options."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *_GROUPS, "Options")}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            group = "Arguments" if isinstance(parameter, TyperArgument) else _GROUP_OF.get(parameter.name or "")
            if record is not None:
                sections[group or "Options"].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)
