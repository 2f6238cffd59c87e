"""X as an operator: dense, CSR, on disk, chains of tokens, Gram matrices; and what makes such a matrix of words."""

from undercut.maps.sequences import Sequences, stack_sequences
from undercut.maps.streamed import StreamedData, StreamedDesign, stream_svmlight
from undercut.maps.templates import SPELLING, WINDOW, TemplateFeatures

__all__ = [
    "SPELLING",
    "WINDOW",
    "Sequences",
    "StreamedData",
    "StreamedDesign",
    "TemplateFeatures",
    "stack_sequences",
    "stream_svmlight",
]
