"""Search: tasks of queries and documents, exact search over vectors, and metrics of rankings."""
