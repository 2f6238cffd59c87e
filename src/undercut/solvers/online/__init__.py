"""Online methods: projected subgradient steps on mini-batches, for data that are large or stream by."""

from undercut.solvers.online.base import OnlineSolver
from undercut.solvers.online.methods import Adaptive, OptimisticProximal, Pegasos, Proximal

ONLINE_SOLVERS: dict[str, type[OnlineSolver]] = {
    "optimistic_proximal": OptimisticProximal,
    "proximal": Proximal,
    "adaptive": Adaptive,
    "pegasos": Pegasos,
}

__all__ = ["ONLINE_SOLVERS", "Adaptive", "OnlineSolver", "OptimisticProximal", "Pegasos", "Proximal"]
