"""Online methods: projected subgradient steps on mini-batches, for data that are large or stream by."""

from undercut.online.methods import Adaptive, OptimisticProximal, Pegasos, Proximal

__all__ = ["Adaptive", "OptimisticProximal", "Pegasos", "Proximal"]
