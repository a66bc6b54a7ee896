"""Sets of segments, the orders and languages they are told in, and the documents made of them."""
