"""The tests; ``tests.catalogue`` holds the losses, problems and solvers they run over."""
