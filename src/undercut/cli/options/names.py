"""The names in the help of ``undercut train``.

They stand here once more, because the tables that define them load Numba and scikit-learn, for which ``--help`` would
wait seconds.  ``tests/cli/test_names.py`` compares them with those tables.
"""

from __future__ import annotations

# What stands for ``{losses}``, ``{solvers}`` and so on in the help of an option.
NAMES = {
    "losses": "hinge, squared_hinge, huber_hinge, logistic, exponential, ramp, squared, absolute, "
    "epsilon_insensitive, quantile, huber, poisson, pairwise, weighted_pairwise, softmax, xendcg, map, mrr, ordinal, "
    "structured_mrr, ndcg@k, precision@k, structured_ndcg@k, structured_precision@k",
    "sequence_losses": "m3n, crf",
    "rna_losses": "crf, margin",
    "measures": "f1, f0.5, precision@10, recall@10, prbep, roc_auc, roc_auc@0.1, average_precision, mcc, "
    "balanced_error",
    "solvers": "line_search_bundle, cutting_plane, cached_cutting_plane, dual_ascent, proximal_bundle, level_bundle, "
    "score_bundle, newton, truncated_newton, small_program, proximal_newton, interior_point, "
    "class_interior_point, column_generation, least_squares, lbfgs, nonconvex_bundle, classic_bundle, "
    "convex_concave, subgradient, stochastic_gradient, dual_coordinate, majorant_sweeps, working_set, "
    "primal_dual, proximal_sweeps, smoothing, pair_descent, kernel_hedging, progressive_hedging, "
    "asynchronous_hedging, optimistic_proximal, proximal, adaptive, pegasos, along_partitions, "
    "mean_of_partitions",
    "kernels": "linear, poly, rbf, sigmoid",
    "kernel_solvers": "auto, descent, hedging, bundle",
    "online_solvers": "optimistic_proximal, proximal, adaptive, pegasos",
}
