"""What is measured of documents and vectors. Every measure gives the same tidy rows."""
