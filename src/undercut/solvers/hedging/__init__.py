"""Progressive hedging."""
