"""X as an operator: dense, CSR, chains of tokens, Gram matrices; and what makes such a matrix of words."""

from undercut.maps.sequences import Sequences, stack_sequences
from undercut.maps.templates import SPELLING, WINDOW, TemplateFeatures

__all__ = ["SPELLING", "WINDOW", "Sequences", "TemplateFeatures", "stack_sequences"]
