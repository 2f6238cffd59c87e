"""Reading data."""

from undercut.data.svmlight import SvmlightData, iter_svmlight, load_svmlight

__all__ = ["SvmlightData", "iter_svmlight", "load_svmlight"]
