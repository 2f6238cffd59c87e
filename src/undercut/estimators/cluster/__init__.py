"""Estimators over data in partitions: Dask arrays and dataframes, or files that workers read."""
