"""What each kind of data file becomes: samples, tables, sequences, RNA."""
