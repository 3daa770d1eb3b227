"""Pods and claims of target ``kubernetes``, held against the schemas of Kubernetes' own API."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml
from launcher_maps import ONE_HOST, TWO_HOSTS, Groups, map_text

from placement.targets.catalog import target
from placement.targets.start import read_start
from placement.targets.target import emit

VERSIONS = ("1.34", "1.37")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("groups", [ONE_HOST, TWO_HOSTS], ids=["one host", "two hosts"])
@pytest.mark.parametrize("knows", [True, False], ids=["UUIDs", "no UUIDs"])
def test_every_object_is_one_of_the_api(groups: Groups, knows: bool, version: str) -> None:
    """Strictly: unknown keys are refused."""
    sizes = {None: 8} if groups is ONE_HOST else {"node0": 8, "node1": 8}
    files = emit(target("kubernetes"), read_start(map_text(groups, sizes=sizes if knows else None))).files
    for text in files.values():
        document: dict[str, Any] = yaml.safe_load(text)
        assert [item["kind"] for item in document["items"]] == ["ResourceClaim", "Pod"]
        for item in document["items"]:
            kubernetes_validate.validate(item, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    """Else the test above would say nothing."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a"},
        "spec": {"devices": {"requests": [{"name": "gpus", "deviceClassName": "gpu.nvidia.com"}]}},
    }
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(claim, "1.34", strict=True)
