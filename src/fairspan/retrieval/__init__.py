"""Search: collections of queries and documents, exact search over vectors, and what is made of a ranking."""
