"""RNA secondary structure: nested base pairs, scored by their loops."""
