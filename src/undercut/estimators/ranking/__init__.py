"""Models that rank documents, and how rankings are judged."""
