"""scikit-learn's own callbacks (``set_callbacks``), where the installed version has them.

A fit is a task, and each step of its problems a subtask.  A callback that asks for the end at a step ends the run of
that problem, as one of ``callbacks`` does.  Before version 1.9 of scikit-learn there is no such protocol.  The hooks
are not given the data or a fitted estimator: a step of a solver holds neither.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from undercut.trace import Callback, Progress

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Without ``set_callbacks``."""


def begin_task(model: Any) -> list[Callback]:
    """Tell scikit-learn's callbacks that a fit begins; what tells them of each step, nothing where none are set."""
    if not getattr(model, "_skl_callbacks", None):
        return []
    task = model._init_callback_context(max_subtasks=None).call_on_fit_task_begin(estimator=model)

    turn = Lock()  # problems that are solved at the same time number their steps together

    def tell(progress: Progress) -> bool:
        with turn:
            step = task.subcontext(task_name="step").call_on_fit_task_begin(estimator=model)
            return bool(step.call_on_fit_task_end(estimator=model))

    return [tell]


def end_task(model: Any) -> None:
    """Tell scikit-learn's callbacks that the fit has ended."""
    task = getattr(model, "_callback_fit_ctx", None)
    if task is not None:
        task.call_on_fit_task_end(estimator=model)
