"""Files of labelled sequences: CoNLL columns, the OCR letters, and which of them a file is."""
