"""Any function of torch as a risk: its value and gradient by automatic differentiation (extra ``torch``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import BatchedRisk, Cut, Risk
from undercut.devices import check_device, need_torch, to_host
from undercut.errors import DataError, ParameterError, require, require_count
from undercut.types import Array, FloatArray


class TorchRisk(BatchedRisk):
    """``R(w) = mean loss over the samples of data``, by a module or a function of torch.

    function : a ``torch.nn.Module``, or ``f(w, *batch)`` of the flat parameters, a tensor of ``n_params`` entries
        Returns the mean loss of a batch, a scalar tensor.  The parameters of a module are those that require a
        gradient; they are overwritten in every evaluation, and the module is in evaluation mode, without dropout.
    data : one or several arrays, memory maps or tensors with one row per sample, given to the function in their order
    loss : ``loss(output, target)``, such as ``torch.nn.functional.cross_entropy``
        With it ``function`` is given all of ``data`` but the last, which is the target.
    batch_size : rows given at a time, for data larger than the memory; the rows of memory maps are read when needed
    device : where to compute; by default where the parameters of the module are, or else the processor
    convex : whether the risk is convex: certificates are computed from it, and are wrong if it does not hold
    lower_bound : any number known to lie below the risk

    Parameters are float64 in main memory; a module of float32 rounds them.  ``start()`` are those of the module,
    and ``load(w)`` sets them.

    >>> import torch
    >>> from undercut import L2, minimize
    >>> X, y = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 1, 1, 0])
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
    >>> risk = TorchRisk(net, (X, y), loss=torch.nn.functional.cross_entropy, lower_bound=0.0)
    >>> result = minimize(risk, L2(1e-3), w0=risk.start())
    >>> risk.load(result.w)
    >>> net(torch.as_tensor(X)).argmax(1).tolist(), result.certificate
    ([0, 1, 1, 0], 'local')
    """

    def __init__(
        self,
        function: Any,
        data: Any,
        *,
        loss: Callable[[Any, Any], Any] | None = None,
        n_params: int | None = None,
        batch_size: int | None = None,
        device: str | None = None,
        convex: bool = False,
        lower_bound: float = -math.inf,
    ) -> None:
        torch = need_torch("TorchRisk")
        if batch_size is not None:
            require_count("batch_size", batch_size)
        require(not math.isnan(lower_bound), "`lower_bound` must be a number", lower_bound)
        if device is not None:
            check_device(device)
        if loss is not None and not isinstance(function, torch.nn.Module):
            raise ParameterError("`loss` is for a module; a function returns its loss itself")
        self.function, self.loss, self.batch_size = function, loss, batch_size
        self.is_convex, self.lower_bound = convex, lower_bound
        self._model = _model_of(function, n_params, device)
        self.n_params = self._model.n_params
        self.data = _checked(data)
        self.n_samples = len(self.data[0])

    def start(self) -> FloatArray:
        """The parameters of the module, flat; zeros for a function."""
        return self._model.start()

    def load(self, w: FloatArray) -> None:
        """Set the parameters of the module."""
        self._model.set(_checked_size(w, self.n_params))

    @override
    def value(self, w: FloatArray) -> float:
        torch, parameters = need_torch("TorchRisk"), self._model.set(_checked_size(w, self.n_params))
        with torch.no_grad():
            return sum(float(self._loss(parameters, batch)) * share for batch, share in self._batches())

    @override
    def cut(self, w: FloatArray) -> Cut:
        torch, value, slope = need_torch("TorchRisk"), 0.0, np.zeros(self.n_params)
        parameters = self._model.set(_checked_size(w, self.n_params))
        for batch, share in self._batches():
            with torch.enable_grad():
                loss = self._loss(parameters, batch)
                if not loss.requires_grad:
                    raise DataError(
                        "the loss must depend on the parameters through torch; it has no gradient: do not detach it, "
                        "and compute it with tensors"
                    )
                parts = torch.autograd.grad(loss, parameters, allow_unused=True)
            value += share * float(loss.detach())
            slope += share * self._model.flat(parts)
        with np.errstate(over="ignore", invalid="ignore"):  # Cut raises NonfiniteError
            return Cut(slope, value - float(slope @ w), value)

    @override
    def batch(self, rows: Array) -> Risk:
        part: TorchRisk = TorchRisk.__new__(TorchRisk)
        vars(part).update(vars(self))
        part.data = tuple(_taken(each, rows) for each in self.data)
        part.n_samples = len(rows)
        return part

    def _batches(self) -> Iterator[tuple[list[Any], float]]:
        """The rows of every batch as tensors, and its share of the samples."""
        size = self.batch_size or self.n_samples
        for first in range(0, self.n_samples, size):
            rows = [self._model.sent(each[first : first + size]) for each in self.data]
            yield rows, len(rows[0]) / self.n_samples

    def _loss(self, parameters: Sequence[Any], batch: Sequence[Any]) -> Any:
        """The loss of a batch; ``DataError`` unless it is one real number."""
        try:
            returned = self._returned(parameters, batch)
        except (RuntimeError, IndexError, TypeError) as error:  # what torch raises for wrong shapes, dtypes and labels
            raise DataError(_refusal(error, batch)) from error
        is_tensor = hasattr(returned, "requires_grad")
        if not is_tensor or returned.numel() != 1 or returned.is_complex():
            got = f"shape {tuple(returned.shape)} of {returned.dtype}" if hasattr(returned, "shape") else repr(returned)
            raise DataError(
                f"the function must return the mean loss of a batch, a real tensor of one number; got {got}"
            )
        if not returned.isfinite():
            _check_finite(batch)
        return returned.reshape(())

    def _returned(self, parameters: Sequence[Any], batch: Sequence[Any]) -> Any:
        if self.loss is None:
            return self._model.call(parameters, batch)
        return self.loss(self._model.call(parameters, batch[:-1]), batch[-1])


class _Flat:
    """A function of one flat tensor."""

    def __init__(self, function: Any, n_params: int, device: str | None) -> None:
        self.function, self.n_params, self.device = function, n_params, device or "cpu"

    def start(self) -> FloatArray:
        return np.zeros(self.n_params)

    def set(self, w: FloatArray) -> list[Any]:
        return [self.sent(w.copy()).requires_grad_()]

    def call(self, parameters: Sequence[Any], batch: Sequence[Any]) -> Any:
        return self.function(parameters[0], *batch)

    def flat(self, parts: Sequence[Any]) -> FloatArray:
        return to_host(parts[0]) if parts[0] is not None else np.zeros(self.n_params)

    def sent(self, rows: Any) -> Any:
        """Rows as a tensor on the device."""
        rows = _native(rows) if isinstance(rows, np.ndarray) else rows  # memory maps are read here
        return need_torch("TorchRisk").as_tensor(rows, device=self.device)


class _Module(_Flat):
    """The parameters of a module, end to end."""

    def __init__(self, module: Any, device: str | None) -> None:
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ParameterError(f"the module must have parameters that require a gradient; got {module}")
        _check_parameters(module, self.parameters)
        super().__init__(module, sum(each.numel() for each in self.parameters), device or self.parameters[0].device)
        module.eval()
        if device is not None:
            module.to(device)

    def start(self) -> FloatArray:
        return np.concatenate([to_host(each).reshape(-1) for each in self.parameters])

    def set(self, w: FloatArray) -> list[Any]:
        torch, at = need_torch("TorchRisk"), 0
        with torch.no_grad():
            for each in self.parameters:
                each.copy_(torch.as_tensor(w[at : at + each.numel()]).reshape(each.shape))
                at += each.numel()
        return self.parameters

    def call(self, parameters: Sequence[Any], batch: Sequence[Any]) -> Any:
        return self.function(*(self._cast(rows) for rows in batch))

    def flat(self, parts: Sequence[Any]) -> FloatArray:
        pairs = zip(parts, self.parameters, strict=True)
        return np.concatenate([np.zeros(p.numel()) if g is None else to_host(g).reshape(-1) for g, p in pairs])

    def _cast(self, rows: Any) -> Any:
        """Inputs in the precision of the module; integers stay."""
        return rows.to(self.parameters[0].dtype) if rows.is_floating_point() else rows


def _model_of(function: Any, n_params: int | None, device: str | None) -> _Flat:
    if isinstance(function, need_torch("TorchRisk").nn.Module):
        require(n_params is None, "`n_params` is for functions: a module knows its parameters", n_params)
        return _Module(function, device)
    if not callable(function):
        raise ParameterError(f"`function` must be a torch.nn.Module or a function f(w, *batch); got {function!r}")
    if n_params is None:
        raise ParameterError("a function needs `n_params`, the number of its parameters; got None")
    require_count("n_params", n_params)
    return _Flat(function, n_params, device)


def _check_parameters(module: Any, parameters: Sequence[Any]) -> None:
    """Refuse parameters without values, or of a type in which losses overflow."""
    torch = need_torch("TorchRisk")
    if any(each.dtype == torch.float16 for each in parameters):
        raise ParameterError(
            "the parameters of the module must be float32 or float64; got float16, which overflows beyond 65504: "
            "use module.float()"
        )
    lazy = torch.nn.parameter.UninitializedParameter
    if any(isinstance(each, lazy) or each.is_meta for each in parameters):
        raise ParameterError(
            f"the parameters of the module must have values; got {module}, whose sizes or values are not there yet: "
            "call a lazy module with a batch first, and move one from the device 'meta' by to_empty"
        )


def _checked(data: Any) -> tuple[Any, ...]:
    """The arrays as a tuple; ``DataError`` unless they have the same number of rows, at least one."""
    each = tuple(data) if isinstance(data, (tuple, list)) else (data,)
    for part in each:
        _check_array(part)
    sizes = [len(part) for part in each]
    if not sizes or min(sizes) != max(sizes) or sizes[0] == 0:
        raise DataError(f"`data` must have the same number of rows in each array, at least one; got {sizes}")
    return each


def _check_array(part: Any) -> None:
    """Refuse what has no rows of numbers."""
    name = type(part).__name__
    if not hasattr(part, "shape") or not len(part.shape):
        raise DataError(f"`data` must be arrays or tensors with one row per sample; got {name}")
    if hasattr(part, "to_numpy") or hasattr(part, "tocsr"):
        raise DataError(f"`data` must be dense arrays or tensors; got {name}: pass its to_numpy() or toarray()")
    if getattr(part.dtype, "kind", "f") not in "fiubc":
        raise DataError(f"`data` must hold numbers; got a {name} of {part.dtype}: convert it")


def _refusal(error: Exception, batch: Sequence[Any]) -> str:
    """What is wrong with a batch that a function cannot take."""
    given = " and ".join(f"{tuple(rows.shape)} of {str(rows.dtype).removeprefix('torch.')}" for rows in batch)
    if isinstance(error, need_torch("TorchRisk").OutOfMemoryError):
        return f"a batch must fit into the memory of the device; got {given}: use a smaller `batch_size`"
    return (
        f"the function must take a batch of the data, {given}; it raised {type(error).__name__}: {error}; integers, "
        "labels among them, are given as they are, and so are all data of a function: convert them to the shape and "
        "dtype that it needs"
    )


def _check_finite(batch: Sequence[Any]) -> None:
    """``DataError`` where the data are why a loss is not finite."""
    for at, rows in enumerate(batch):
        unusable = ~rows.isfinite().reshape(len(rows), -1).all(1)
        if unusable.any():
            raise DataError(
                f"`data` must be finite; array {at} contains NaN or infinity, row {int(unusable.nonzero()[0])} of a "
                f"batch of {len(rows)}: drop or impute it"
            )


def _native(rows: Any) -> Any:
    """A copy that torch can take: in the byte order of the processor, and at most double precision."""
    wide = rows.dtype.kind == "f" and rows.dtype.itemsize > 8
    return np.array(rows, dtype=np.float64 if wide else rows.dtype.newbyteorder("="))


def _checked_size(w: FloatArray, n_params: int) -> FloatArray:
    w = np.asarray(w, dtype=np.float64)
    if w.shape != (n_params,):
        raise DataError(f"w must have shape ({n_params},), the parameters of the module; got {w.shape}")
    return w


def _taken(part: Any, rows: Array) -> Any:
    return part[rows] if isinstance(part, np.ndarray) else part[need_torch("TorchRisk").as_tensor(rows)]
