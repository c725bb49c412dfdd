"""Loads as they are measured, beside what the plan counts."""

from models.spec import ModelSpec
from pipelines.plan.cost_model import describe_load


def test_rate_of_a_load_stands_beside_the_plans() -> None:
    spec = ModelSpec(engine="transformers", model="m", parameters_b=7.5)
    assert describe_load(spec, 60.0) == ": 15.0 GB in 60 s, 250 MB/s; the plan counts 40 s"
    assert describe_load(ModelSpec(engine="random"), 60.0) == ""
    assert describe_load(ModelSpec(engine="transformers", model="m"), 60.0) == ""
