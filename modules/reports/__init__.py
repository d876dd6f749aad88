"""Reports: what recorded rows say about who knew what, who gave way, and whom it helped."""
