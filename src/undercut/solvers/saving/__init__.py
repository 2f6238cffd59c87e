"""The state of a run as a file: written while it goes on, compared with the problem, and taken up again."""
