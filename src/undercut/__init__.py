"""undercut: regularized risk minimization with a certificate.

    min_w  lam * Omega(w) + R(w)

Every convex fit returns a lower bound on the optimum and the gap to it.  The names are listed in ``__init__.pyi``;
each is imported from its package when it is first used.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
