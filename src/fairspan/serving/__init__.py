"""The HTTP server: OpenAI's embeddings endpoint over one model, in batches across requests."""
