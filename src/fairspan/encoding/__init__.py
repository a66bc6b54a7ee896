"""Texts → vectors: token counts, batches, late-chunk spans, and the crash-safe store."""
