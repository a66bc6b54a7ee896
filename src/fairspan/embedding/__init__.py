"""A corpus of any size → vectors on disk: rows in units, units as Parquet shards."""
