"""The options: one table, and how they are read, combined and shown."""
