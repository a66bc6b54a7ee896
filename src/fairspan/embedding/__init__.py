"""A corpus of any size → vectors on disk: rows are streamed, embedded unit by unit, and written as Parquet shards."""
