"""Model files of undercut 0.1, format version 1, in the terms of version 2."""

from __future__ import annotations

from typing import Any

from undercut.types import Array

Header = dict[str, Any]
Arrays = dict[str, Array]

FLAT = ("LinearRegressor", "NoveltyDetector", "OnlineRegressor", "Ranker")  # one row of coefficients, kept flat
NUMBERS = ("objective_", "lower_bound_", "gap_", "n_iter_")
CHAIN = ("transitions", "start", "end")
STRINGS = ("view_sizes", "string_sizes", "strings", "known_sizes", "known")
GAME = ("v", "u", "numbers")
CSR = ("data", "indices", "indptr")
ABBREVIATIONS = {"m3n": "M3N", "crf": "CRF"}


def from_version_1(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """The header and the arrays that version 2 has for the same model; ``LookupError`` if a part is missing."""
    arrays = dict(arrays)
    name = header["estimator"]
    fitted = _inputs(header, arrays) | _coefficients(name, arrays) | _certificate(header)
    if "classes" in header:
        fitted["classes_"] = {"labels": header["classes"]}
    if name == "KernelClassifier":
        fitted |= _machine(header["machine"], arrays)
    if name == "SequenceLabeler":
        fitted |= {f"{part}_": {"array": part} for part in CHAIN}
    if header.get("features") is not None:
        known = [[part, {"array": part}] for part in STRINGS]
        fitted["features_"] = _object("TemplateFeatures", _listed(header["features"]) | {"fitted": {"dict": known}})
    if "stream" in header:
        fitted |= _stream(header["stream"], arrays)
    return {"estimator": name, "params": _params(header), "fitted": fitted}, arrays


def _params(header: Header) -> dict[str, Any]:
    params: dict[str, Any] = dict(header["params"])
    if "loss" in header:
        name, settings = header["loss"]["name"], header["loss"]["settings"]
        params["loss"] = _object(_class_name(name), _listed(settings)) if settings else name
    if "penalty" in header:
        params["penalty"] = _regularizer(header["penalty"])
    if "measure" in header:
        params["measure"] = header["measure"]
    if header.get("features") is not None:
        params["features"] = _object("TemplateFeatures", _listed(header["features"]))
    return params


def _class_name(loss: str) -> str:
    """``"huber_hinge"`` names the class ``HuberHinge``."""
    return ABBREVIATIONS.get(loss, "".join(part.capitalize() for part in loss.split("_")))


def _regularizer(described: Header) -> Header:
    if described["name"] == "BlockSum":
        blocks = [{"tuple": [int(length), _regularizer(part)]} for length, part in described["blocks"]]
        return _object("BlockSum", {"blocks": {"list": blocks}})
    parts = {name: part for name, part in described["settings"].items() if isinstance(part, dict)}
    settings = _listed(described["settings"]) | {name: _regularizer(part) for name, part in parts.items()}
    return _object(described["name"], settings)


def _object(kind: str, settings: Header) -> Header:
    return {"object": {"dict": [[name, value] for name, value in settings.items()]}, "kind": kind}


def _listed(settings: Header) -> Header:
    """Settings with their lists marked as such, also lists of lists."""
    return {name: _list(value) for name, value in settings.items()}


def _list(value: Any) -> Any:
    return {"list": [_list(item) for item in value]} if isinstance(value, list) else value


def _inputs(header: Header, arrays: Arrays) -> Header:
    inputs: Header = {"n_features_in_": int(arrays["coef"].shape[-1])}
    if "feature_names" in header:
        inputs["feature_names_in_"] = {"labels": header["feature_names"]}
    return inputs


def _coefficients(name: str, arrays: Arrays) -> Header:
    if name in FLAT:
        arrays["coef"] = arrays["coef"].reshape(-1)
        return {"coef_": {"array": "coef"}, "intercept_": float(arrays["intercept"][0])}
    coef = "dual_coef_" if name == "KernelClassifier" else "coef_"
    return {coef: {"array": "coef"}, "intercept_": {"array": "intercept"}}


def _certificate(header: Header) -> Header:
    if "stream" in header:
        return {}
    certificate = header["certificate"]
    return {name: certificate[name] for name in NUMBERS} | {"certificate_": certificate["kind"]}


def _machine(machine: Header, arrays: Arrays) -> Header:
    n_support = int(arrays["support"].size)
    vectors: Header = {"array": "vectors"}
    if "vectors" not in arrays:
        vectors = {"csr": [*({"array": part} for part in CSR), n_support, machine["n_features"]]}
    return {
        "n_features_in_": machine["n_features"],
        "support_": {"array": "support"},
        "support_vectors_": vectors,
        "n_support_": {"list": machine["n_support"]},
        "_gamma": machine["gamma"],
        "_n_fitted": machine["n_fitted"],
    }


def _stream(stream: Header, arrays: Arrays) -> Header:
    games = []
    for at, state in enumerate(stream["rng"]):
        for part in GAME:
            arrays[f"{part}.{at}"] = arrays[part][at]
        settings: Header = {part: {"array": f"{part}.{at}"} for part in GAME}
        games.append(_object("Game", settings | {"rng": {"generator": _dict(state)}}))
    counts = {"n_samples_seen_": stream["n_samples_seen"], "stream_position_": stream["stream_position"]}
    return counts | {"_excess": stream["excess"], "_seen": stream["seen"], "_games": {"list": games}}


def _dict(value: Any) -> Any:
    return {"dict": [[key, _dict(item)] for key, item in value.items()]} if isinstance(value, dict) else value
