"""Reading data."""

from undercut.data.chunks import ChunkScore, chunk_scores
from undercut.data.conll import ConllData, as_conll, load_conll
from undercut.data.ocr import OcrWords, load_ocr
from undercut.data.sequences import Sequences, stack_sequences
from undercut.data.svmlight import SvmlightData, iter_svmlight, load_svmlight
from undercut.data.templates import SPELLING, WINDOW, TemplateFeatures

__all__ = [
    "SPELLING",
    "WINDOW",
    "ChunkScore",
    "ConllData",
    "OcrWords",
    "Sequences",
    "SvmlightData",
    "TemplateFeatures",
    "as_conll",
    "chunk_scores",
    "iter_svmlight",
    "load_conll",
    "load_ocr",
    "load_svmlight",
    "stack_sequences",
]
