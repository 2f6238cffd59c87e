"""Parts on the workers of dask.distributed: the only package that imports Dask."""

from undercut.maps.cluster.clients import Cluster, Traffic
from undercut.maps.cluster.parts import ClusterParts

__all__ = ["Cluster", "ClusterParts", "Traffic"]
