"""Other ways to spread vectors that lie too close together, to compare calibration with."""
