"""The fields of KubeRay 1.7's own kinds, as JSON Schema: names, types and enumerations of `ray.io/v1`, nothing else.

Taken from the field reference that KubeRay generates from its types at v1.7.0. Pod templates are left to Kubernetes'
own schema. What the operator prunes or refuses is an error here: a field that is not known, a wrong type, a wrong word.
"""

from __future__ import annotations

from typing import Any

import jsonschema

__all__ = ["check"]

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
WORDS: Schema = {"type": "object", "additionalProperties": TEXT}
ANY: Schema = {"type": "object"}
"""Of Kubernetes, or not used here."""


def _enum(*values: str) -> Schema:
    return {"enum": list(values)}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _fields(required: tuple[str, ...] = (), **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


_HEAD = _fields(
    ("template",),
    template=ANY,
    headService=ANY,
    enableIngress=FLAG,
    ingressOptions=ANY,
    resources=WORDS,
    labels=WORDS,
    rayStartParams=WORDS,
    serviceType=TEXT,
)
_WORKERS = _fields(
    ("groupName", "template"),
    suspend=FLAG,
    groupName=TEXT,
    replicas=COUNT,
    minReplicas=COUNT,
    maxReplicas=COUNT,
    idleTimeoutSeconds=COUNT,
    priority=WHOLE,
    resources=WORDS,
    labels=WORDS,
    rayStartParams=WORDS,
    template=ANY,
    scaleStrategy=_fields(workersToDelete=_list(TEXT)),
    numOfHosts=COUNT,
)
_AUTOSCALER = _fields(
    resources=ANY,
    image=TEXT,
    imagePullPolicy=_enum("Always", "IfNotPresent", "Never"),
    securityContext=ANY,
    idleTimeoutSeconds=COUNT,
    upscalingMode=_enum("Default", "Aggressive", "Conservative"),
    version=_enum("v1", "v2"),
    env=_list(ANY),
    envFrom=_list(ANY),
    volumeMounts=_list(ANY),
    command=_list(TEXT),
    args=_list(TEXT),
)
_CLUSTER = _fields(
    ("headGroupSpec",),
    upgradeStrategy=_fields(type=_enum("Recreate", "None")),
    authOptions=_fields(enableK8sTokenAuth=FLAG, secretName=TEXT, mode=_enum("disabled", "token")),
    suspend=FLAG,
    managedBy=_enum("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"),
    autoscalerOptions=_AUTOSCALER,
    headServiceAnnotations=WORDS,
    enableInTreeAutoscaling=FLAG,
    gcsFaultToleranceOptions=ANY,
    historyServerOptions=ANY,
    networkPolicy=ANY,
    tlsOptions=_fields(enabled=FLAG),
    headGroupSpec=_HEAD,
    rayVersion=TEXT,
    workerGroupSpecs=_list(_WORKERS),
)
_JOB = _fields(
    activeDeadlineSeconds={"type": "integer", "minimum": 1},
    backoffLimit=COUNT,
    rayClusterSpec=_CLUSTER,
    submitterPodTemplate=ANY,
    metadata=WORDS,
    clusterSelector=WORDS,
    submitterConfig=_fields(backoffLimit=COUNT),
    managedBy=_enum("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue"),
    deletionStrategy=ANY,
    entrypoint=TEXT,
    runtimeEnvYAML=TEXT,
    jobId=TEXT,
    submissionMode=_enum("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
    entrypointResources=TEXT,
    entrypointNumCpus=NUMBER,
    entrypointNumGpus=NUMBER,
    ttlSecondsAfterFinished=COUNT,
    preRunningDeadlineSeconds={"type": "integer", "minimum": 1},
    shutdownAfterJobFinishes=FLAG,
    suspend=FLAG,
)
_CRON = _fields(
    ("jobTemplate", "schedule"),
    jobTemplate=_JOB,
    schedule=TEXT,
    timeZone={"type": "string", "minLength": 1},
    suspend=FLAG,
)
_SPECS = {"RayCluster": _CLUSTER, "RayJob": _JOB, "RayCronJob": _CRON}


def check(document: dict[str, Any]) -> None:
    """Assert that a KubeRay object has only existing fields with valid values.

    Raises:
        jsonschema.ValidationError: it has not; says where.
        KeyError: it is none of RayCluster, RayJob and RayCronJob.
    """
    spec = _SPECS[document["kind"]]
    kind = _fields(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": "ray.io/v1"},
        kind={"const": document["kind"]},
        metadata=ANY,
        spec=spec,
    )
    jsonschema.Draft202012Validator(kind).validate(document)
