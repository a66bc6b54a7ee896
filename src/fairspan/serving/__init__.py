"""A model over HTTP, and its page."""
