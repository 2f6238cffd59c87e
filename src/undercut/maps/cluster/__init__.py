"""Parts on the workers of dask.distributed: the one home of Dask."""

from undercut.maps.cluster.clients import Cluster, ClusterParts, Traffic

__all__ = ["Cluster", "ClusterParts", "Traffic"]
