"""Statistics, tables and pictures of a run. This room reads only the log."""
