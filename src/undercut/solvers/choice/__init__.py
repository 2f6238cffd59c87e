"""What the table of ``auto`` consists of: its lines by kind of problem, and the questions that they ask."""
