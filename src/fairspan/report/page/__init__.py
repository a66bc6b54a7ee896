"""One self-contained HTML page: data from the log, one look for all pages, nothing fetched from anywhere."""
