"""Bundle methods for convex risks: planes, the master problem over them, and the solvers that use them."""
