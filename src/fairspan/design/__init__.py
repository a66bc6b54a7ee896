"""Sets of segments, their orders and languages, and the documents made of them."""
