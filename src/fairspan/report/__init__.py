"""Tables, charts and pages. This room knows strings and numbers, and no study."""
