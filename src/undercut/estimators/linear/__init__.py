"""Linear models: classes, numbers, measures of all labels, novelty, unlabelled samples."""
