"""Models that learn from a stream, or in few passes."""
