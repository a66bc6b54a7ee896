"""Time and memory of calibrated models against plain ones. Every figure is a ratio from one
process."""
