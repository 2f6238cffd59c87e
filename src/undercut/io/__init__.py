"""Reading and writing of files."""

from undercut.io.model_file import load_model, save_model
from undercut.io.rna import RnaData, load_rna
from undercut.io.sequences.conll import ConllData, as_conll, load_conll
from undercut.io.sequences.ocr import OcrWords, load_ocr
from undercut.io.several import load_several
from undercut.io.speech import ConnectedData, SpeechData, joined, load_connected, load_speech
from undercut.io.svmlight import SvmlightData, iter_svmlight, load_svmlight
from undercut.io.tables import TableColumns, TableData, load_table
from undercut.io.text_blocks import ByteRange, byte_ranges
from undercut.io.trace_file import TraceFile

__all__ = [
    "ByteRange",
    "ConllData",
    "ConnectedData",
    "OcrWords",
    "RnaData",
    "SpeechData",
    "SvmlightData",
    "TableColumns",
    "TableData",
    "TraceFile",
    "as_conll",
    "byte_ranges",
    "iter_svmlight",
    "joined",
    "load_conll",
    "load_connected",
    "load_model",
    "load_ocr",
    "load_rna",
    "load_several",
    "load_speech",
    "load_svmlight",
    "load_table",
    "save_model",
]
